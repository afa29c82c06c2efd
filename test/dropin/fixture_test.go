//go:build e2e

package dropin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

// fixture is a test with a namespace of its own, which must leave nothing in the cluster or
// on a node.
type fixture struct {
	lab.Fixture
	multus, nadra *cluster.Node
	// links are interfaces that the test, or a plugin by design, leaves on the nodes.
	links []string
}

func setup(t *testing.T, namespace string) *fixture {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	t.Cleanup(cancel)
	f := &fixture{
		Fixture: lab.Fixture{Lab: theLab, T: t, Ctx: ctx, NS: namespace},
		multus:  theLab.Cluster.Node(multusNode), nadra: theLab.Cluster.Node(nadraNode),
	}
	before := f.state()
	f.Must(f.CreateNamespace(ctx, namespace))
	t.Cleanup(func() { f.cleanUp(before) })
	return f
}

// nodeStates has the state of each node.
type nodeStates map[*cluster.Node]nodeState

type nodeState struct {
	lab.Snapshot
	multus []string // what Multus remembers
}

func (f *fixture) state() nodeStates {
	f.Helper()
	out := nodeStates{}
	for _, n := range f.Cluster.Nodes() {
		s, err := lab.TakeSnapshot(n)
		f.Must(err)
		remembered, err := below(n, multusMemory)
		f.Must(err)
		out[n] = nodeState{s, remembered}
	}
	return out
}

func (f *fixture) cleanUp(before nodeStates) {
	if f.Failed() {
		f.logState()
	}
	// Pods that are deleted with their workload would get their whole grace period.
	for _, args := range [][]string{
		{"deployments,replicasets,daemonsets", "--cascade=orphan"}, {"pods", "--grace-period=1"},
	} {
		if _, err := f.Cluster.Kubectl(f.Ctx, append([]string{"-n", f.NS, "delete", "--all", "--timeout=120s"}, args...)...); err != nil {
			f.Errorf("deleting the test's %s: %v", args[0], err)
		}
	}
	if err := f.gone("pods"); err != nil {
		f.Errorf("after the test: %v", err)
	}
	err := f.NADs.K8sCniCncfIoV1().NetworkAttachmentDefinitions(f.NS).DeleteCollection(f.Ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	if err != nil {
		f.Errorf("deleting the test's NADs: %v", err)
	}
	for _, n := range f.Cluster.Nodes() {
		for _, link := range f.links {
			f.sh(n, "! ip link show "+link+" >/dev/null 2>&1 || ip link del "+link)
		}
		if err := f.nothingAdded(n, before[n]); err != nil {
			f.Errorf("after the test: %v", err)
		}
	}
	if err := f.gone("resourceclaims.resource.k8s.io"); err != nil {
		f.Errorf("after the test: %v", err)
	}
	if _, err := f.Cluster.Kubectl(f.Ctx, "delete", "namespace", f.NS, "--wait=false"); err != nil {
		f.Errorf("deleting the test's namespace: %v", err)
	}
}

// gone waits until the namespace has no object of a kind.
func (f *fixture) gone(kind string) error {
	return lab.Eventually(f.Ctx, time.Minute, func(ctx context.Context) error {
		names, err := f.Cluster.Kubectl(ctx, "-n", f.NS, "get", kind, "-o", "name")
		if err == nil && names != "" {
			err = fmt.Errorf("left in namespace %s: %s", f.NS, strings.Join(strings.Fields(names), ", "))
		}
		return err
	})
}

// nothingAdded waits until a node has nothing that it did not have before, except for
// nadra's own pods, which a test may have replaced.
func (f *fixture) nothingAdded(n *cluster.Node, before nodeState) error {
	return lab.Eventually(f.Ctx, 2*time.Minute, func(ctx context.Context) error {
		now, err := lab.TakeSnapshot(n)
		if err != nil {
			return err
		}
		remembered, err := below(n, multusMemory)
		if err != nil {
			return err
		}
		own, err := f.controllers(ctx, n)
		if err != nil {
			return err
		}
		added := now.Added(before.Snapshot)
		for _, path := range remembered {
			// Multus itself never deletes its result of the default network.
			if !slices.Contains(before.multus, path) && !strings.HasSuffix(path, "-eth0") {
				added = append(added, path)
			}
		}
		added = slices.DeleteFunc(added, func(what string) bool {
			return slices.ContainsFunc(own, func(of string) bool { return strings.HasSuffix(what, of) })
		})
		if len(added) > 0 {
			return fmt.Errorf("left on %s: %s", n.Name(), strings.Join(added, ", "))
		}
		return nil
	})
}

// controllers lists the network resources of nadra's controllers on a node.
func (f *fixture) controllers(ctx context.Context, n *cluster.Node) ([]string, error) {
	pods, err := f.Kube.CoreV1().Pods(lab.ControllerNamespace).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + n.Name()})
	if err != nil {
		return nil, err
	}
	var out []string
	for _, p := range pods.Items {
		s, err := n.PodSandbox(ctx, string(p.UID))
		if err != nil {
			return nil, err
		}
		var index int
		err = n.DoInNetNS(s.NetNS, func() error {
			eth0, err := netlink.LinkByName("eth0")
			if err == nil {
				index = eth0.Attrs().ParentIndex
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		names, err := n.Exec(ctx, "sh", "-c", fmt.Sprintf("grep -lx %d /sys/class/net/*/ifindex", index))
		if err != nil {
			return nil, err
		}
		link := filepath.Base(filepath.Dir(strings.TrimSpace(string(names))))
		out = append(out, "netns "+filepath.Base(s.NetNS), "link "+link, multusMemory+"/"+s.ID)
	}
	return out, nil
}

// logState logs the state of the namespace and of nadra.
func (f *fixture) logState() {
	for _, args := range [][]string{
		{"-n", f.NS, "get", "pods,resourceclaims,resourceclaimtemplates", "-o", "wide"},
		{"-n", f.NS, "get", "events", "--field-selector=type=Warning", "-o", "custom-columns=OBJECT:.involvedObject.name,REASON:.reason,MESSAGE:.message"},
		{"get", "nodes,resourceslices", "--show-labels"},
		{"get", "pods", "-A", "-o", "wide"},
	} {
		out, err := f.Cluster.Kubectl(f.Ctx, args...)
		if err != nil {
			out += err.Error()
		}
		f.Logf("kubectl %s\n%.6000s", strings.Join(args, " "), out)
	}
	f.Logf("%s\n%s", f.DriverLog(f.Ctx), f.ControllerLog(f.Ctx))
}

// sh runs a command on a node.
func (f *fixture) sh(n *cluster.Node, command string) string {
	f.Helper()
	out, err := n.Exec(f.Ctx, "sh", "-c", command)
	f.Must(err)
	return string(out)
}

// owner sets the owner of the namespace, which serves its new pods.
func (f *fixture) owner(owner string) {
	f.Helper()
	f.Must(f.Label(f.Ctx, "namespace/"+f.NS, owner))
}

// pods waits until there are exactly so many pods with the label app=name, all
// of them Ready, and returns them in the order of their nodes.
func (f *fixture) pods(name string, count int) []*corev1.Pod {
	f.Helper()
	var out []*corev1.Pod
	err := lab.Eventually(f.Ctx, 2*time.Minute, func(ctx context.Context) error {
		list, err := f.Kube.CoreV1().Pods(f.NS).List(ctx, metav1.ListOptions{LabelSelector: "app=" + name})
		if err != nil {
			return err
		}
		out = nil
		for _, p := range list.Items {
			if !lab.IsReady(&p) {
				return fmt.Errorf("pod %s is %s, not Ready", p.Name, p.Status.Phase)
			}
			out = append(out, &p)
		}
		if len(out) != count {
			return fmt.Errorf("there are %d pods of %s, want %d", len(out), name, count)
		}
		return nil
	})
	f.Must(err)
	slices.SortFunc(out, func(a, b *corev1.Pod) int { return strings.Compare(a.Spec.NodeName, b.Spec.NodeName) })
	return out
}

// The folders on the node's disk in which Multus and nadra record attachments, and the
// runtime the default network.
const (
	multusMemory  = "/var/lib/cni/multus"
	nadraMemory   = "/var/lib/nadra"
	runtimeMemory = "/var/lib/cni/results"
)

// below lists the files below a directory of a node, with their paths on the node.
func below(n *cluster.Node, dir string) ([]string, error) {
	root, err := n.HostPath("/")
	if err != nil {
		return nil, err
	}
	var out []string
	err = filepath.WalkDir(filepath.Join(root, dir), func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // none yet, or gone meanwhile
		}
		if err == nil && !entry.IsDir() {
			out = append(out, strings.TrimPrefix(path, strings.TrimSuffix(root, "/")))
		}
		return err
	})
	return out, err
}
