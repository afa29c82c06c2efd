//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

// examples is the namespace of the manifests below examples/.
const examples = "nadra-examples"

// exampleNetworks are the networks of examples/networks that one node with the
// reference plugins can attach. The others need whereabouts or a card with SR-IOV.
var exampleNetworks = []string{"macvlan", "bridge", "chain"}

// TestExamples applies the manifests below examples/ that one node can run and checks
// the interfaces of their pods: first with claims and the driver alone, then with the
// annotation, for which the webhook creates the claims.
func TestExamples(t *testing.T) {
	f := setup(t, examples)
	f.master("eth1")
	f.bridge("br-examples")
	var published []string
	for _, network := range exampleNetworks {
		must(f.T, f.Apply(f.Context(), f.example("networks", network)))
		published = append(published, examples+"/"+network)
	}
	must(f.T, f.Published(f.Context(), published...))

	f.part("with claims", func(f *fixture) {
		f.runExamples("claims")
		must(f.T, f.Apply(f.Context(), f.example("by-hand", "macvlan")))
		f.exampleHas("macvlan-by-hand", "data0", "10.91.0.")
		f.deleteExamples("by-hand", "macvlan")
	})

	t.Cleanup(func() { must(t, f.RemoveController(context.Background())) })
	must(t, f.InstallController(t.Context()))
	f.exampleKubectl("label", "namespace", examples, "nadra.dev/owner=nadra")
	f.part("with the annotation", func(f *fixture) {
		for _, network := range exampleNetworks {
			f.hasClass(network, true)
		}
		f.runExamples("annotated")
		f.exampleKubectl("-n", examples, "delete", "net-attach-def", "--all")
		for _, network := range exampleNetworks {
			f.hasClass(network, false)
		}
	})
}

// example returns a manifest below examples/ with the image that the node has.
func (f *fixture) example(folder, name string) string {
	f.Helper()
	text, err := os.ReadFile(filepath.Join(lab.Root(), "examples", folder, name+".yaml"))
	must(f.T, err)
	return strings.ReplaceAll(string(text), "busybox:1.37", cluster.TestImage)
}

// runExamples applies the workloads of a folder, checks what their pods have, and
// deletes them.
func (f *fixture) runExamples(folder string) {
	f.Helper()
	for _, name := range exampleNetworks {
		must(f.T, f.Apply(f.Context(), f.example(folder, name)))
	}

	f.exampleHas("macvlan", "net1", "10.91.0.")

	f.exampleHas("chain", "data0", "10.93.0.10/24", "fd00:93::10/64", "02:00:00:93:00:10")
	sysctl, err := f.Exec(f.Context(), examples, "chain", "cat", "/proc/sys/net/ipv4/conf/data0/arp_filter")
	if err != nil || strings.TrimSpace(sysctl) != "1" {
		f.Errorf("tuning, the second plugin of the chain, set arp_filter to %q (%v)", sysctl, err)
	}

	f.exampleKubectl("-n", examples, "rollout", "status", "deploy/bridge", "--timeout=240s")
	pods, err := f.Kube.CoreV1().Pods(examples).List(f.Context(), metav1.ListOptions{LabelSelector: "app=bridge"})
	must(f.T, err)
	if len(pods.Items) != 2 {
		f.Errorf("the Deployment has %d pods, want 2", len(pods.Items))
	}
	for i := range pods.Items {
		f.exampleHas(pods.Items[i].Name, "data0", "10.92.0.")
		f.exampleHas(pods.Items[i].Name, "net2", "10.91.0.")
		// The init container printed its interface, so it had the network, too.
		if log := f.exampleKubectl("-n", examples, "logs", pods.Items[i].Name, "-c", "look"); !strings.Contains(log, "10.92.0.") {
			f.Errorf("init container of pod %s saw:\n%s", pods.Items[i].Name, log)
		}
	}

	f.runJob(folder)
	f.probe(folder)
	f.deleteExamples(folder, append(exampleNetworks, "job", "probes")...)
}

// runJob runs the Job: each worker has an address of its own, and none when it has ended.
func (f *fixture) runJob(folder string) {
	f.Helper()
	must(f.T, f.Apply(f.Context(), f.example(folder, "job")))
	f.exampleKubectl("-n", examples, "wait", "--for=condition=Complete", "job/workers", "--timeout=240s")
	log := f.exampleKubectl("-n", examples, "logs", "-l", "app=workers")
	for _, worker := range []string{"worker 0 has", "worker 1 has"} {
		if !strings.Contains(log, worker) || strings.Count(log, "inet 10.92.0.") != 2 {
			f.Errorf("the workers said:\n%s", log)
		}
	}
	must(f.T, lab.Eventually(f.Context(), time.Minute, func(ctx context.Context) error {
		claims, err := f.Kube.ResourceV1().ResourceClaims(examples).List(ctx, metav1.ListOptions{})
		for _, c := range claims.Items {
			if strings.HasPrefix(c.Name, "workers-") {
				err = fmt.Errorf("claim %s is there, and its worker has ended", c.Name)
			}
		}
		return err
	}))
}

// probe runs the pod with a probe in its network, and takes the interface down and up.
func (f *fixture) probe(folder string) {
	f.Helper()
	must(f.T, f.Apply(f.Context(), f.example(folder, "probes")))
	f.exampleHas("probes", "data0", "10.92.0.")
	pod, err := f.Kube.CoreV1().Pods(examples).Get(f.Context(), "probes", metav1.GetOptions{})
	must(f.T, err)
	for _, change := range []struct{ state, ready string }{{"down", "False"}, {"up", "True"}} {
		f.sh("nsenter --net=" + f.sandboxNetNS(pod) + " ip link set data0 " + change.state)
		f.exampleKubectl("-n", examples, "wait", "--for=condition=Ready="+change.ready, "pod/probes", "--timeout=60s")
	}
}

// exampleHas waits until a pod is Ready and checks the text that `ip addr show` prints
// of one of its interfaces.
func (f *fixture) exampleHas(pod, ifName string, texts ...string) {
	f.Helper()
	_, err := f.Ready(f.Context(), examples, pod, 3*time.Minute)
	must(f.T, err)
	out, err := f.Exec(f.Context(), examples, pod, "ip", "addr", "show", ifName)
	must(f.T, err)
	for _, text := range append(texts, "UP,LOWER_UP") {
		if !strings.Contains(out, text) {
			f.Errorf("interface %s of pod %s lacks %s:\n%s", ifName, pod, text, out)
		}
	}
}

// deleteExamples deletes manifests of a folder and waits until no pod is left.
func (f *fixture) deleteExamples(folder string, names ...string) {
	f.Helper()
	for _, name := range names {
		must(f.T, f.Delete(f.Context(), f.example(folder, name)))
	}
	must(f.T, lab.Eventually(f.Context(), 2*time.Minute, func(ctx context.Context) error {
		pods, err := f.Kube.CoreV1().Pods(examples).List(ctx, metav1.ListOptions{})
		if err == nil && len(pods.Items) > 0 {
			err = fmt.Errorf("%d pods are left in namespace %s", len(pods.Items), examples)
		}
		return err
	}))
}

// exampleKubectl runs kubectl and returns what it prints.
func (f *fixture) exampleKubectl(args ...string) string {
	f.Helper()
	out, err := f.Cluster.Kubectl(f.Context(), args...)
	must(f.T, err)
	return out
}

// must fails the test if err is not nil.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
