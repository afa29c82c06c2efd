//go:build e2e

package dropin

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/google/go-cmp/cmp"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"

	api "github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/conformance"
	"github.com/nadra-dev/nadra/test/conformance/compare"
	"github.com/nadra-dev/nadra/test/lab"
)

// sandbox returns a running pod's sandbox.
func (f *fixture) sandbox(p *corev1.Pod) cluster.PodSandbox {
	f.Helper()
	s, err := f.NodeOf(p).PodSandbox(f.Ctx, string(p.UID))
	f.Must(err)
	return s
}

// side describes a running pod for the comparison. It replaces addresses that host-local
// picks by the interface's name, because the free addresses differ between nodes.
func (f *fixture) side(p *corev1.Pod, picked ...string) compare.Side {
	f.Helper()
	f.status(p)
	path, err := f.NodeOf(p).HostPath(f.sandbox(p).NetNS)
	f.Must(err)
	out, err := conformance.Running(path, p.Annotations[nadv1.NetworkStatusAnnot], picked...)
	f.Must(err)
	return out
}

// status waits for a pod's network-status, sets it on p and returns it.
func (f *fixture) status(p *corev1.Pod) []nadv1.NetworkStatus {
	f.Helper()
	status, err := f.NetworkStatus(f.Ctx, p.Namespace, p.Name)
	f.Must(err)
	raw, err := f.Cluster.Kubectl(f.Ctx, "-n", p.Namespace, "get", "pod", p.Name, "-o",
		`jsonpath={.metadata.annotations.k8s\.v1\.cni\.cncf\.io/network-status}`)
	f.Must(err)
	p.Annotations[nadv1.NetworkStatusAnnot] = raw
	return status
}

// equal fails the test for differences of two sides that docs/reference/compatibility.md does not
// list.
func (f *fixture) equal(what string, multus, nadra compare.Side, asked string) {
	f.Helper()
	verdict, err := conformance.JudgeRunning(lab.Root(), multus, nadra, asked)
	f.Must(err)
	f.Logf("%s: %s", what, verdict)
	if len(verdict.Unlisted) > 0 {
		f.Errorf("%s: not the same", what)
	}
}

// servedBy checks that a pod is on its owner's node, that it has each network once, and
// that only its owner has records of it.
func (f *fixture) servedBy(owner string, p *corev1.Pod, networks int) {
	f.Helper()
	want, other := f.multus, nadraMemory
	if owner == api.OwnerNadra {
		want, other = f.nadra, multusMemory
	}
	n := f.NodeOf(p)
	if n != want {
		f.Errorf("pod %s of %s is on %s", p.Name, owner, n.Name())
		return
	}
	if claims := len(p.Spec.ResourceClaims); (claims > 0) != (owner == api.OwnerNadra) {
		f.Errorf("pod %s, which is served by %s, has %d claims", p.Name, owner, claims)
	}
	if status := f.status(p); len(status) != networks+1 {
		f.Errorf("pod %s: network-status has %d networks, want %d", p.Name, len(status), networks+1)
	}
	links := f.view(p).Links
	if len(links) != networks+2 {
		f.Errorf("pod %s has the interfaces %v; want lo, eth0 and %d more", p.Name, links, networks)
	}
	id := f.sandbox(p).ID
	own := multusMemory
	if owner == api.OwnerNadra {
		own = nadraMemory
	}
	if len(f.naming(n, own, id)) == 0 {
		f.Errorf("pod %s is served by %s, which has no record of its sandbox %s in %s", p.Name, owner, id, own)
	}
	if files := f.naming(n, other, id); len(files) > 0 {
		f.Errorf("pod %s is served by %s, but there are also %v", p.Name, owner, files)
	}
	results := slices.DeleteFunc(f.naming(n, runtimeMemory, id), func(path string) bool {
		return strings.HasSuffix(path, "-eth0") || strings.HasSuffix(path, "-lo")
	})
	if len(results) > 0 {
		f.Errorf("the runtime's own CNI cache has more of pod %s than its default network: %v", p.Name, results)
	}
}

// naming lists the files below a directory of a node that have an ID in their
// name or content.
func (f *fixture) naming(n *cluster.Node, dir, id string) []string {
	f.Helper()
	files, err := below(n, dir)
	f.Must(err)
	root, err := n.HostPath("/")
	f.Must(err)
	return slices.DeleteFunc(files, func(path string) bool {
		content, err := os.ReadFile(filepath.Join(root, path))
		return !strings.Contains(path, id) && (err != nil || !strings.Contains(string(content), id))
	})
}

// view has the properties that must not change in a running pod.
type view struct {
	Sandbox  cluster.PodSandbox
	Inode    uint64 // of the network namespace
	Restarts int32
	Links    []string // with index, MAC and addresses
	Status   string
}

func (f *fixture) view(p *corev1.Pod) view {
	f.Helper()
	now, err := f.Kube.CoreV1().Pods(p.Namespace).Get(f.Ctx, p.Name, getOptions)
	f.Must(err)
	v := view{Sandbox: f.sandbox(p), Status: now.Annotations[nadv1.NetworkStatusAnnot]}
	for _, c := range now.Status.ContainerStatuses {
		v.Restarts += c.RestartCount
	}
	path, err := f.NodeOf(p).HostPath(v.Sandbox.NetNS)
	f.Must(err)
	var info syscall.Stat_t
	f.Must(syscall.Stat(path, &info))
	v.Inode = info.Ino
	ns, err := f.NodeOf(p).PodNetNS(v.Sandbox.NetNS)
	f.Must(err)
	defer ns.Close()
	h, err := netlink.NewHandleAt(ns)
	f.Must(err)
	defer h.Close()
	links, err := h.LinkList()
	f.Must(err)
	for _, l := range links {
		addresses, err := h.AddrList(l, netlink.FAMILY_ALL)
		f.Must(err)
		line := fmt.Sprintf("%d %s %s", l.Attrs().Index, l.Attrs().Name, l.Attrs().HardwareAddr)
		for _, a := range addresses {
			line += " " + a.IPNet.String()
		}
		v.Links = append(v.Links, line)
	}
	return v
}

// unchanged fails the test if a pod has changed.
func (f *fixture) unchanged(what string, p *corev1.Pod, before view) {
	f.Helper()
	if diff := cmp.Diff(before, f.view(p)); diff != "" {
		f.Errorf("%s has changed the running pod %s (-before +after):\n%s", what, p.Name, diff)
	}
}
