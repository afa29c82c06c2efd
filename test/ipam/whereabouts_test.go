//go:build e2e

package ipam

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/test/lab"
)

// testCase is one subtest.
type testCase struct {
	name string
	run  func(*testing.T)
}

// TestWhereabouts runs cases that share a cluster, in which the reconciler runs
// each minute. Each has a namespace and ranges of its own.
func TestWhereabouts(t *testing.T) {
	// These cases mostly wait, and change neither nodes nor the driver.
	t.Run("Quiet", func(t *testing.T) {
		for _, c := range []testCase{
			{"OnePod", onePod},
			{"Ranges", ranges},
			{"StatefulSet", statefulSet},
			{"FullRange", fullRange},
			{"Job", job},
		} {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				c.run(t)
			})
		}
	})
	for _, c := range []testCase{
		{"RetriedNetwork", retriedNetwork},
		{"Check", check},
		{"StatusRefused", statusRefused},
		{"SlowChain", slowChain},
		{"DriverKilled", driverKilled},
		{"Burst", burst},
		{"Reboot", reboot},
		{"CheckerFindsDuplicates", checkerFindsDuplicates},
	} {
		t.Run(c.name, c.run)
	}
}

// onePod runs one pod with an annotation and one with a claim of its own. Both get
// the address that the pool gives them, and return it.
func onePod(t *testing.T) {
	f := setup(t, "wa-one", inRange("one", "10.150.0.0/24"))
	f.pod("annotated", "one")
	f.Must(f.CreateTemplate(f.Ctx, lab.Template(f.NS, "claiming", lab.Want{Network: "one"})))
	_, err := f.CreatePod(f.Ctx, lab.Pod(f.NS, "claiming", "claiming"))
	f.Must(err)
	for _, name := range []string{"annotated", "claiming"} {
		p := f.ready(name)
		given, err := f.given(f.Ctx, name, "net1")
		f.Must(err)
		if has := f.address(p, "net1"); has != given {
			t.Errorf("pod %s has %s, and the pool gives it %s", name, has, given)
		}
	}
}

// ranges runs a pod with networks of two ranges, of a range with exclusions, and
// of a named network.
func ranges(t *testing.T) {
	f := setup(t, "wa-ranges", network("dual", `"ipRanges":[{"range":"10.151.0.0/24"},{"range":"fd00:151::/112"}]`)+
		network("without", `"range":"10.152.0.0/28","exclude":["10.152.0.0/30","10.152.0.4/32"]`)+
		network("named", `"range":"10.153.0.0/24","network_name":"blue"`))
	f.pod("all", "dual,without,named")
	p := f.ready("all")
	want := map[string][]string{
		"net1": {"10.151.0.1", "fd00:151::1"}, "net2": {"10.152.0.5"}, "net3": {"10.153.0.1"},
	}
	got := map[string][]string{}
	for iface, list := range f.held(p) {
		for _, a := range list {
			got[iface] = append(got[iface], a.String())
		}
		slices.Sort(got[iface])
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the pod has %v, want %v", got, want)
	}
	// The name of a reservation over all ranges contains the network's name, so the
	// reconciler does not recognize its address, and deletes it.
	kept, err := f.allocated(f.Ctx)
	f.Must(err)
	const where = "IPPool blue-10.153.0.0-24"
	if !slices.ContainsFunc(kept, func(a allocation) bool { return a.where == where && a.iface == "net3" }) {
		t.Errorf("nothing for net3 in %s: %v", where, kept)
	}
}

// statefulSet deletes the pods of a StatefulSet, and then one of them by force: the
// new pods get the same addresses.
func statefulSet(t *testing.T) {
	f := setup(t, "wa-set", inRange("set", "10.154.0.0/24"))
	f.ApplyYAML(lab.Workload("StatefulSet", "st", "replicas: 2\n  serviceName: st", "set", ""))
	addresses := func() map[string]netip.Addr {
		out := map[string]netip.Addr{}
		for _, p := range f.pods("st", 2, time.Minute) {
			out[p.Name] = f.address(p, "net1")
		}
		return out
	}
	before := addresses()
	f.end("st-0", "st-1")
	if after := addresses(); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("after their deletion the pods have %v, and had %v", after, before)
	}

	old, err := f.Kube.CoreV1().Pods(f.NS).Get(f.Ctx, "st-0", metav1.GetOptions{})
	f.Must(err)
	sandbox, err := f.NodeOf(old).PodSandbox(f.Ctx, string(old.UID))
	f.Must(err)
	f.Kubectl("delete", "pod", "st-0", "--force", "--grace-period=0")
	// The old sandbox's DEL may come after the new pod's ADD, and must leave the address to it.
	f.Eventually(time.Minute, func(ctx context.Context) error {
		running, err := f.NodeOf(old).Sandboxes(ctx)
		if err == nil && slices.Contains(running, sandbox.ID) {
			err = fmt.Errorf("sandbox %s of the deleted pod still runs", sandbox.ID)
		}
		return err
	})
	if after := addresses(); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("after a deletion by force the pods have %v, and had %v", after, before)
	}
}

// retriedNetwork runs a pod with two networks of one range, the second of which
// fails three times. In the end each network must have an address of its own:
// whereabouts 0.8 releases by the container's ID alone, so a DEL of the second
// network may free the first one's address.
func retriedNetwork(t *testing.T) {
	for _, n := range theLab.Cluster.Nodes() {
		if err := lab.WriteHostFile(n, "/opt/cni/bin/flaky", []byte(flaky), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	f := setup(t, "wa-retry", inRange("first", "10.155.0.0/24")+inRange("second", "10.155.0.0/24", `{"type":"flaky"}`))
	f.pod("two", "first,second")
	p := f.ready("two")
	first, second := f.address(p, "net1"), f.address(p, "net2")
	if first == second {
		t.Errorf("net1 and net2 both have %s", first)
	}
	runs, err := f.NodeOf(p).HostPath(flakyRuns)
	f.Must(err)
	content, err := os.ReadFile(runs)
	f.Must(err)
	if n := strings.Count(string(content), "\n"); n < 4 {
		t.Errorf("the second network's plugin ran %d times: it was not tried again after three deaths", n)
	}
	f.pod("other", "first")
	if other := f.address(f.ready("other"), "net1"); other == first || other == second {
		t.Errorf("another pod has %s, which the first pod has", other)
	}
}

// fill takes both addresses of a range with pods.
func (f *fixture) fill(network string) {
	f.Helper()
	for _, name := range []string{"taker-1", "taker-2"} {
		f.pod(name, network)
		f.ready(name)
	}
}

// full waits for the Event of a pod that gets no address, and fails the test if a container
// of it has started. The pod's phase does not tell: the kubelet reports Running for a pod
// whose container was created and refused by the gate.
func (f *fixture) full(pod string) {
	f.Helper()
	f.Eventually(time.Minute, func(ctx context.Context) error {
		for _, event := range f.Events(ctx, f.NS, pod) {
			if strings.Contains(event, "Could not allocate IP in range") {
				return nil
			}
		}
		return fmt.Errorf("no Event of pod %s reports that its range is full", pod)
	})
	p, err := f.Kube.CoreV1().Pods(f.NS).Get(f.Ctx, pod, metav1.GetOptions{})
	f.Must(err)
	if f.checker.hasStarted(p) || slices.ContainsFunc(p.Status.ContainerStatuses, isRunning) {
		f.Errorf("pod %s, which has no address, has started: %+v", pod, p.Status.ContainerStatuses)
	}
}

func isRunning(s corev1.ContainerStatus) bool { return s.State.Running != nil }

// fullRange creates more pods than a range has addresses: the last pod waits, and
// runs when an address is free.
func fullRange(t *testing.T) {
	f := setup(t, "wa-full", inRange("small", "10.156.0.0/30"))
	f.fill("small")
	f.pod("late", "small")
	f.full("late")
	f.end("taker-1")
	f.address(f.ready("late"), "net1")
}

// job creates a Job whose pod is not restarted: while the range is full the pod
// waits, and does not fail.
func job(t *testing.T) {
	f := setup(t, "wa-job", inRange("small", "10.156.1.0/30"))
	f.fill("small")
	f.ApplyYAML(`
apiVersion: batch/v1
kind: Job
metadata: {name: once}
spec:
  backoffLimit: 0
  template:
    metadata: {annotations: {k8s.v1.cni.cncf.io/networks: small}}
    spec:
      restartPolicy: Never
      containers:
        - {name: main, image: "localhost/test:1", imagePullPolicy: Never, command: [/bin/sh, -c, "ip -4 addr show net1 && sleep 1"]}
`)
	var pod string
	f.Eventually(time.Minute, func(context.Context) error {
		pod = f.Kubectl("get", "pods", "-l", "job-name=once", "-o", "jsonpath={.items[*].metadata.name}")
		if pod == "" {
			return fmt.Errorf("the Job has no pod")
		}
		return nil
	})
	f.full(pod)
	f.end("taker-2")
	f.Kubectl("wait", "--for=condition=Complete", "--timeout=90s", "job/once")
	if out := f.Kubectl("logs", pod); !strings.Contains(out, "10.156.1.") {
		t.Errorf("the Job's pod had no address: %s", out)
	}
}
