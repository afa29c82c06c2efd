//go:build e2e

package attacks

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

const (
	// driverMemory is the most that the driver may have in memory during an attack.
	driverMemory = 200 << 20
	// answerLimit is how long the webhook may take for any pod; a machine that runs three clusters is slow.
	answerLimit = 2 * time.Second
)

// sized is an annotation with a name.
type sized struct{ name, text string }

// shortName names a network as often as the API server permits, in 256 KB.
var shortName = sized{"128,000 times one network", strings.Repeat("n,", 127_999) + "n"}

// large are annotations of up to that size.
var large = []sized{
	shortName,
	{"6,000 elements", "[" + strings.Repeat(`{"name":"n","interface":"net1"},`, 5_999) + `{"name":"n"}]`},
	{"100,000 open brackets", `[{"name":"n","cni-args":{"a":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + "}}]"},
	{"8,000 keys in one element", keys},
	{"a CNI argument of 200 KB", `[{"name":"n","cni-args":{"a":"` + strings.Repeat("x", 200_000) + `"}}]`},
	{"15,000 addresses of one pod", `[{"name":"n","ips":["10.0.0.1/8"` + strings.Repeat(`,"10.0.0.1/8"`, 15_000) + "]}]"},
}

// keys has one element with many unknown keys.
var keys = `[{"name":"n"` + manyKeys(8_000) + "}]"

func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"k%d":0`, i)
	}
	return b.String()
}

// TestAttackLargeAnnotation gives pods large annotations, while pods of another tenant start on the node
// without claims: each of them must have its network, and the runtime must not drop the driver.
func TestAttackLargeAnnotation(t *testing.T) {
	a := setup(t, "large")
	const others = "large-others"
	a.namespace(others)
	t.Cleanup(func() { a.clear(others) })
	a.bystanders(others, "before", 4)

	a.try(shortName.name+", behind a scheduling gate", func(a *attempt) {
		a.overload(others, 32, func() (explained func()) {
			var all []func()
			for i := range 3 {
				all = append(all, a.gated(fmt.Sprintf("evil-%d", i), shortName.text))
			}
			return func() {
				for _, each := range all {
					each()
				}
			}
		})
	})
	for _, annotation := range large[1:] {
		a.try(annotation.name+", behind a scheduling gate", func(a *attempt) {
			a.overload(others, 6, func() (explained func()) { return a.gated("evil", annotation.text) })
		})
	}
	a.try(shortName.name+", by an edit of a running pod", func(a *attempt) {
		p := plain(a.NS, "running")
		p.Spec.NodeName = a.node.Name()
		_, err := a.tenant.CoreV1().Pods(a.NS).Create(a.Ctx, p, metav1.CreateOptions{})
		a.Must(err)
		_, err = a.Ready(a.Ctx, a.NS, p.Name, time.Minute)
		a.Must(err)
		a.overload(others, 6, func() (explained func()) {
			err := a.annotate(p.Name, shortName.text)
			return func() { a.explained(p.Name, err) }
		})
	})
}

// TestAttackAdmission creates pods with large annotations through the webhook: each must be refused soon,
// and the controller must have nothing to do after the caller has left.
func TestAttackAdmission(t *testing.T) {
	a := setup(t, "admission")
	for _, annotation := range large {
		a.try(annotation.name, func(a *attempt) {
			began := time.Now()
			_, err := a.tenant.CoreV1().Pods(a.NS).Create(a.Ctx, a.pod("evil", annotation.text), metav1.CreateOptions{})
			if took := time.Since(began); took > answerLimit {
				a.harmed("the API server waited for %s", took.Round(time.Millisecond))
			} else {
				a.Logf("answered after %s", took.Round(time.Millisecond))
			}
			a.refused(err, "a pod with %s", annotation.name)
		})
	}
	a.try("the caller leaves", func(a *attempt) {
		var callers sync.WaitGroup
		for i := range 4 {
			callers.Go(func() {
				ctx, cancel := context.WithTimeout(a.Ctx, time.Second)
				defer cancel()
				_, _ = a.tenant.CoreV1().Pods(a.NS).Create(ctx, a.pod(fmt.Sprintf("evil-%d", i), keys), metav1.CreateOptions{})
			})
		}
		callers.Wait()
		var busy time.Duration
		// A second begins two seconds after the callers have left, as the probes of the replicas cost some CPU.
		a.Must(a.throughout(2*time.Second, func(context.Context) error { return nil }))
		before := a.cpu("nadra-controller")
		a.Must(a.throughout(time.Second, func(context.Context) error { return nil }))
		if busy = a.cpu("nadra-controller") - before; busy > 300*time.Millisecond {
			a.harmed("the controllers compute for %s of a second, two seconds after the callers have left", busy)
		}
	})
}

// overload runs an attack while pods of another tenant start on the node, and checks that they have their
// networks and that the driver is the same, connected, and small.
func (a *attempt) overload(others string, count int, attack func() (explained func())) {
	a.Helper()
	pid, err := lab.DriverPID(a.node)
	a.Must(err)
	a.Must(lab.WriteHostFile(a.node, "/proc/"+pid+"/clear_refs", []byte("5"), 0)) // so that the peak begins anew
	connections := a.metric("nadra_nri_connections_total")
	explained := attack()
	a.bystanders(others, "beside", count)
	explained()
	now, err := lab.DriverPID(a.node)
	a.Must(err)
	if now != pid {
		a.harmed("the driver was restarted")
		return
	}
	if again := a.metric("nadra_nri_connections_total") - connections; again > 0 {
		a.harmed("the runtime dropped the driver %.0f times", again)
	}
	peak := a.peakMemory(pid)
	a.Logf("the driver had at most %d MiB", peak>>20)
	if peak > driverMemory {
		a.harmed("the driver had %d MiB", peak>>20)
	}
	for _, p := range a.pods(a.NS) {
		if anyBare(&p) != "" {
			a.harmed("pod %s has started without its networks", p.Name)
		}
	}
	a.Kubectl("delete", "pods", "--all", "--grace-period=1", "--timeout=120s")
}

// gated creates a pod on the node as the tenant: its annotation is set while a scheduling gate holds it,
// so that no webhook sees it. It returns the check of what the tenant is told.
func (a *attempt) gated(name, networks string) (explained func()) {
	a.Helper()
	p := a.pod(name, "")
	p.Annotations = nil
	p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: a.node.Name()}
	p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/later"}}
	pods := a.tenant.CoreV1().Pods(a.NS)
	_, err := pods.Create(a.Ctx, p, metav1.CreateOptions{})
	a.Must(err)
	annotateErr := a.annotate(name, networks)
	if annotateErr == nil {
		_, err = pods.Patch(a.Ctx, name, types.MergePatchType, []byte(`{"spec":{"schedulingGates":null}}`), metav1.PatchOptions{})
		a.Must(err)
	}
	return func() { a.explained(name, annotateErr) }
}

// explained checks that a pod whose annotation was changed has its network, or that the error of the
// change or an Event says why not.
func (a *attempt) explained(name string, err error) {
	a.Helper()
	if err != nil {
		a.refused(err, "the annotation of pod %s", name)
		return
	}
	a.Eventually(time.Minute, func(ctx context.Context) error {
		for _, e := range a.Events(ctx, a.NS, name) {
			if reason.In(e) != "" {
				a.Logf("pod %s: %.300s", name, e)
				return nil
			}
		}
		p, err := a.Kube.CoreV1().Pods(a.NS).Get(ctx, name, metav1.GetOptions{})
		if err != nil || anyBare(p) != "" { // which is harm, not a refusal
			return err
		}
		if _, err := lab.ReadStatus(p); err != nil {
			return fmt.Errorf("no Event of pod %s has a code, and %w", name, err)
		}
		return nil
	})
}

// bystanders starts pods without a claim on the node, and waits until each has its network: no container
// of them may start without it.
func (a *attempt) bystanders(namespace, prefix string, count int) {
	a.Helper()
	names := make([]string, count)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%d", prefix, i)
		p := plain(namespace, names[i])
		p.Annotations = map[string]string{nadv1.NetworkAttachmentAnnot: "n"}
		p.Spec.NodeName = a.node.Name()
		p.Spec.RestartPolicy = corev1.RestartPolicyNever
		p.Spec.Containers[0].Command = needing("net1")
		_, err := a.CreatePod(a.Ctx, p)
		a.Must(err)
	}
	var bare []string
	began := time.Now()
	err := lab.Eventually(a.Ctx, 3*time.Minute, func(context.Context) error {
		bare = nil
		var waiting []string
		for _, p := range a.pods(namespace) {
			switch {
			case anyBare(&p) != "":
				bare = append(bare, p.Name)
			case !lab.IsReady(&p):
				waiting = append(waiting, p.Name)
			}
		}
		if len(waiting) > 0 {
			return fmt.Errorf("%d of %d pods of another tenant wait: %v", len(waiting), count, waiting)
		}
		return nil
	})
	if len(bare) > 0 {
		a.harmed("%d of %d pods of another tenant started without their networks", len(bare), count)
	}
	if err != nil {
		a.harmed("%v", err)
	}
	a.Logf("%d pods of another tenant after %s", count, time.Since(began).Round(100*time.Millisecond))
	_, err = a.Cluster.Kubectl(a.Ctx, "-n", namespace, "delete", "pods", "--all", "--grace-period=1", "--timeout=120s")
	a.Must(err)
}

// pods lists the pods of a namespace.
func (a *attempt) pods(namespace string) []corev1.Pod {
	a.Helper()
	list, err := a.Kube.CoreV1().Pods(namespace).List(a.Ctx, metav1.ListOptions{})
	a.Must(err)
	return list.Items
}

// metric returns a metric of the node's driver.
func (a *attempt) metric(name string) float64 {
	a.Helper()
	var value float64
	a.Eventually(30*time.Second, func(ctx context.Context) error {
		client := &http.Client{Transport: &http.Transport{DialContext: a.node.Dial, DisableKeepAlives: true}, Timeout: 5 * time.Second}
		text, err := body(ctx, client, http.MethodGet, "http://"+a.node.IP()+":9078/metrics", "")
		if err != nil {
			return err
		}
		for line := range strings.Lines(text) {
			if rest, found := strings.CutPrefix(line, name+" "); found {
				value, err = strconv.ParseFloat(strings.TrimSpace(rest), 64)
				return err
			}
		}
		return errors.New("the driver has no metric " + name)
	})
	return value
}

// peakMemory returns the most memory that a process of the node has had.
func (a *attempt) peakMemory(pid string) int64 {
	a.Helper()
	path, err := a.node.HostPath("/proc/" + pid + "/status")
	a.Must(err)
	status, err := os.ReadFile(path)
	a.Must(err)
	for line := range strings.Lines(string(status)) {
		if rest, found := strings.CutPrefix(line, "VmHWM:"); found {
			kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			a.Must(err)
			return kib << 10
		}
	}
	a.Fatal("the driver's process has no VmHWM")
	return 0
}

// cpu returns the CPU time that the processes of a name have used on all nodes.
func (a *attempt) cpu(name string) time.Duration {
	a.Helper()
	const userHz = 100
	var ticks int64
	for _, n := range a.Cluster.Nodes() {
		pids, err := lab.Processes(n, name[:min(len(name), 15)]) // the kernel keeps 15 characters
		a.Must(err)
		for _, pid := range pids {
			ticks += ticksOf(n, pid)
		}
	}
	return time.Duration(ticks) * time.Second / userHz
}

// ticksOf returns the clock ticks that a process has used, or 0 if it has ended.
func ticksOf(n *cluster.Node, pid string) (ticks int64) {
	path, err := n.HostPath("/proc/" + pid + "/stat")
	if err != nil {
		return 0
	}
	stat, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest) // from the third field on
	for _, field := range fields[11:13] {
		used, _ := strconv.ParseInt(field, 10, 64)
		ticks += used
	}
	return ticks
}
