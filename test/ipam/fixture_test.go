//go:build e2e

package ipam

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	api "github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/test/lab"
)

// totals has the results of cases.
type totals struct{ pods, duplicates, leaked, lost int }

// tally adds up the results of cases, some of which run at the same time.
type tally struct {
	mu sync.Mutex
	totals
}

func (t *tally) add(result totals) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.totals = t.plus(result)
}

func (t totals) String() string {
	return fmt.Sprintf("pods=%d duplicates=%d leaked=%d lost=%d", t.pods, t.duplicates, t.leaked, t.lost)
}

func (t totals) plus(other totals) totals {
	return totals{t.pods + other.pods, t.duplicates + other.duplicates, t.leaked + other.leaked, t.lost + other.lost}
}

// fixture is a case with a namespace of its own. Its pods are checked all the time, and
// whereabouts' pools must keep nothing for them.
type fixture struct {
	lab.Fixture
	checker *checker
	// counted is where the results are added; nil for a case that provokes them.
	counted *tally
	stop    func() // ends the checker
}

const (
	// caseLimit is how long a case may take. Bursts take minutes on a busy machine.
	caseLimit = 20 * time.Minute
	// cleanUpLimit is how long its end may take, also if the case has used up all
	// of its time.
	cleanUpLimit = 5 * time.Minute
)

// setup creates a namespace for nadra with networks, given as YAML, and starts the checker.
func setup(t *testing.T, namespace, networks string) *fixture {
	t.Helper()
	return setupFor(t, namespace, api.OwnerNadra, networks)
}

func setupFor(t *testing.T, namespace, owner, networks string) *fixture {
	t.Helper()
	ctx, cancel := context.WithTimeout(interrupted, caseLimit)
	t.Cleanup(cancel)
	f := &fixture{Fixture: lab.Fixture{Lab: theLab, T: t, Ctx: ctx, NS: namespace}, counted: &all}
	f.Must(f.CreateNamespace(ctx, namespace))
	f.Must(f.Label(ctx, "namespace/"+namespace, owner))
	f.ApplyYAML(networks)
	if owner == api.OwnerNadra {
		f.published()
	}
	var err error
	f.checker, err = newChecker(ctx, f.Lab, namespace)
	f.Must(err)
	checking, end := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.checker.run(checking)
	}()
	f.stop = func() { end(); <-done }
	t.Cleanup(f.cleanUp)
	return f
}

// published waits until both nodes publish all networks of the namespace.
func (f *fixture) published() {
	f.Helper()
	names := strings.Fields(f.Kubectl("get", "network-attachment-definitions", "-o", "jsonpath={.items[*].metadata.name}"))
	f.Eventually(time.Minute, func(ctx context.Context) error {
		offering, err := f.Offering(ctx)
		if err != nil {
			return err
		}
		for _, name := range names {
			nodes := offering[lab.NetworkID(f.NS+"/"+name)]
			if want := len(f.Cluster.Nodes()); len(nodes) < want {
				return fmt.Errorf("NAD %s/%s is offered by %v, want %d nodes", f.NS, name, nodes, want)
			}
		}
		return nil
	})
}

// cleanUp ends the case's pods, and fails the test if whereabouts keeps anything
// for them or the checker has found anything.
func (f *fixture) cleanUp() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(f.Ctx), cleanUpLimit)
	defer cancel()
	f.Ctx = ctx
	if f.Failed() {
		f.logState()
	}
	for _, args := range [][]string{{"jobs,statefulsets,deployments,replicasets", "--cascade=orphan"}, {"pods", "--grace-period=1"}} {
		if _, err := f.Cluster.Kubectl(f.Ctx, append([]string{"-n", f.NS, "delete", "--all", "--timeout=150s"}, args...)...); err != nil {
			f.Errorf("deleting %s: %v", args[0], err)
		}
	}
	left := f.left()
	f.stop()
	duplicates, lost := f.checker.findings()
	pods, samples := f.checker.lives()
	result := totals{pods: pods, duplicates: len(duplicates), leaked: len(left), lost: len(lost)}
	f.Logf("%s: %s; %d looks", f.NS, result, samples)
	if f.counted != nil {
		f.counted.add(result)
		for _, finding := range slices.Concat(duplicates, lost, left) {
			f.Errorf("%s: %s", f.NS, finding)
		}
	}
	if _, err := f.Cluster.Kubectl(f.Ctx, "delete", "namespace", f.NS, "--wait=false"); err != nil {
		f.Errorf("deleting namespace %s: %v", f.NS, err)
	}
}

// left waits until whereabouts keeps nothing for pods of the namespace, all of
// which are gone, and returns what it still keeps after that.
func (f *fixture) left() (out []string) {
	err := lab.Eventually(f.Ctx, 15*time.Second, func(ctx context.Context) error {
		kept, err := f.allocated(ctx)
		if err != nil {
			return err
		}
		out = nil
		for _, a := range kept {
			out = append(out, "left over: "+a.String())
		}
		if len(out) > 0 {
			return errors.New(strings.Join(out, ", "))
		}
		return nil
	})
	if err != nil && len(out) == 0 {
		f.Errorf("reading whereabouts' objects: %v", err)
	}
	return out
}

// logState logs the state of the namespace, of whereabouts and of nadra.
func (f *fixture) logState() {
	for _, args := range [][]string{
		{"-n", f.NS, "get", "pods,resourceclaims", "-o", "wide"},
		{"-n", f.NS, "get", "events", "--field-selector=type=Warning", "-o", "custom-columns=OBJECT:.involvedObject.name,REASON:.reason,MESSAGE:.message"},
		{"-n", "kube-system", "get", "pods", "-o", "wide"},
	} {
		out, err := f.Cluster.Kubectl(f.Ctx, args...)
		if err != nil {
			out += err.Error()
		}
		f.Logf("kubectl %s\n%.5000s", strings.Join(args, " "), out)
	}
	kept, err := f.allocated(f.Ctx)
	f.Logf("allocated: %v %v\n%s", kept, err, f.DriverLog(f.Ctx))
}

// pods waits until exactly so many pods with the label app=name are Ready, and
// returns them.
func (f *fixture) pods(name string, count int, limit time.Duration) []*corev1.Pod {
	f.Helper()
	var out []*corev1.Pod
	f.Eventually(limit, func(context.Context) error {
		out = nil
		other := 0
		for _, object := range f.checker.pods.List() {
			p := object.(*corev1.Pod)
			switch {
			case p.Labels["app"] != name:
			case lab.IsReady(p):
				out = append(out, p)
			default:
				other++
			}
		}
		if len(out) != count || other > 0 {
			return fmt.Errorf("%d pods of %s are Ready and %d are not, want %d", len(out), name, other, count)
		}
		return nil
	})
	return out
}

// pod creates a pod that requests networks by annotation.
func (f *fixture) pod(name, networks string) {
	f.Helper()
	f.ApplyYAML(strings.NewReplacer("NAME", name, "NETWORKS", networks).Replace(`
apiVersion: v1
kind: Pod
metadata: {name: NAME, labels: {app: NAME}, annotations: {k8s.v1.cni.cncf.io/networks: 'NETWORKS'}}
spec:
  terminationGracePeriodSeconds: 2
  containers:
    - {name: main, image: "localhost/test:1", imagePullPolicy: Never, command: [/bin/sh, -c, "trap 'exit 0' TERM; sleep infinity & wait"]}
`))
}

// ready waits until a pod is Ready.
func (f *fixture) ready(name string) *corev1.Pod {
	f.Helper()
	p, err := f.Ready(f.Ctx, f.NS, name, 90*time.Second)
	f.Must(err)
	return p
}

// end deletes pods and waits until they are gone.
func (f *fixture) end(names ...string) {
	f.Helper()
	f.Kubectl(append([]string{"delete", "pod", "--wait=true", "--timeout=90s"}, names...)...)
}

// held returns the addresses of a running pod's networks, by interface, as they
// are in its network namespace.
func (f *fixture) held(p *corev1.Pod) map[string][]netip.Addr {
	f.Helper()
	n := f.NodeOf(p)
	s, err := n.PodSandbox(f.Ctx, string(p.UID))
	f.Must(err)
	out, err := addresses(n, s.NetNS)
	f.Must(err)
	return out
}

// address returns the only address of an interface of a running pod, which must
// be in its network-status, too.
func (f *fixture) address(p *corev1.Pod, iface string) netip.Addr {
	f.Helper()
	held := f.held(p)[iface]
	if len(held) != 1 {
		f.Fatalf("interface %s of pod %s has the addresses %v, want one", iface, p.Name, held)
	}
	status, err := f.NetworkStatus(f.Ctx, f.NS, p.Name)
	f.Must(err)
	for _, s := range status {
		if s.Interface == iface && slices.Equal(s.IPs, []string{held[0].String()}) {
			return held[0]
		}
	}
	f.Fatalf("interface %s of pod %s has %s; network-status is %+v", iface, p.Name, held[0], status)
	return netip.Addr{}
}
