//go:build e2e

// Package e2e proves nadra on a real cluster: kubelet, scheduler, containerd with NRI, runc,
// the reference CNI plugins and this machine's kernel. It has only tests.
package e2e

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

// staticPods is the folder of the kubelet's own pods, in the node.
const staticPods = "/var/tmp/static-pods"

// theLab is the cluster of all tests.
var theLab *lab.Lab

func TestMain(m *testing.M) {
	lab.Suite{Name: "e2e", Start: start, Tests: func() int {
		code := m.Run()
		if code != 0 {
			fmt.Fprintln(os.Stderr, theLab.DriverLog(context.Background()))
		}
		return code
	}}.Main()
}

func start(ctx context.Context, dir string) (c *cluster.Cluster, err error) {
	theLab, err = lab.Start(ctx, cluster.Options{
		Dir: dir, NRIValidator: true,
		// Tests kill the driver; its restart must not be delayed by the kubelet's back-off.
		KubeletConfig: map[string]any{
			"crashLoopBackOff": map[string]any{"maxContainerRestartPeriod": "1s"},
			"staticPodPath":    staticPods,
			"maxPods":          200,
		},
	}, os.Stderr)
	if err != nil {
		return nil, err
	}
	return theLab.Cluster, nil
}

// fixture is a test with a namespace of its own, which must leave nothing on the node.
type fixture struct {
	lab.Fixture
	node *cluster.Node
	// at has the directories of the node.
	at cluster.Layout
	// undo has commands that run on the node once the test's pods are gone.
	undo []string
}

// setup creates a namespace. At the end of the test it deletes everything in it, and checks
// that the node has no more resources than before.
func setup(t *testing.T, namespace string) *fixture {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	t.Cleanup(cancel)
	f := &fixture{Fixture: lab.Fixture{Lab: theLab, T: t, Ctx: ctx, NS: namespace}, node: theLab.Cluster.Node(1), at: theLab.Cluster.Layout()}
	before, err := lab.TakeSnapshot(f.node)
	f.Must(err)
	f.Must(f.CreateNamespace(ctx, namespace))
	t.Cleanup(func() { f.cleanUp(before) })
	return f
}

func (f *fixture) cleanUp(before lab.Snapshot) {
	if _, err := f.Cluster.Kubectl(f.Ctx, "-n", f.NS, "delete", "pods", "--all", "--timeout=120s"); err != nil {
		f.Errorf("deleting the test's pods: %v", err)
	}
	err := f.NADs.K8sCniCncfIoV1().NetworkAttachmentDefinitions(f.NS).DeleteCollection(f.Ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	if err != nil {
		f.Errorf("deleting the test's NADs: %v", err)
	}
	for _, command := range slices.Backward(f.undo) {
		if _, err := f.node.Exec(f.Ctx, "sh", "-c", command); err != nil {
			f.Errorf("cleaning the node up by %q: %v", command, err)
		}
	}
	if err := lab.NothingAdded(f.Ctx, f.node, before); err != nil {
		f.Errorf("after the test: %v", err)
	}
	if _, err := f.Cluster.Kubectl(f.Ctx, "delete", "namespace", f.NS, "--wait=false"); err != nil {
		f.Errorf("deleting the test's namespace: %v", err)
	}
}

// sharedDevices reports whether several claims can have one device. If not, devices are copies.
func (f *fixture) sharedDevices() bool {
	f.Helper()
	on, err := lab.FeatureOn(f.Ctx, f.Kube, "DRAConsumableCapacity")
	f.Must(err)
	return on
}

// storesDeviceStatus asks once whether the API server stores status.devices of claims.
var storesDeviceStatus = sync.OnceValues(func() (bool, error) {
	return lab.FeatureOn(context.Background(), theLab.Kube, "DRAResourceClaimDeviceStatus")
})

// nad creates a NAD in the test's namespace.
func (f *fixture) nad(name, config string) {
	f.Helper()
	f.Must(f.CreateNAD(f.Ctx, f.NS, name, config))
}

// start creates a pod with these networks and waits until it is Ready.
func (f *fixture) start(name string, wants ...lab.Want) *corev1.Pod {
	f.Helper()
	_, err := f.Create(f.Ctx, f.NS, name, wants...)
	f.Must(err)
	pod, err := f.Ready(f.Ctx, f.NS, name, 3*time.Minute)
	f.Must(err)
	return pod
}

// sh runs a command on the node.
func (f *fixture) sh(command string) string {
	f.Helper()
	out, err := f.node.Exec(f.Ctx, "sh", "-c", command)
	f.Must(err)
	return string(out)
}

// master creates a macvlan master on the node for the duration of the test.
func (f *fixture) master(name string) {
	f.Helper()
	f.Must(lab.MakeLink(f.Ctx, f.node, name))
	f.undo = append(f.undo, "ip link del "+name)
}

// bridge removes a bridge at the end of the test. The bridge plugin creates it and, by
// design, never removes it.
func (f *fixture) bridge(name string) {
	f.undo = append(f.undo, "! ip link show "+name+" >/dev/null 2>&1 || ip link del "+name)
}
