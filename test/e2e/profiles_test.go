//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/test/lab"
)

// TestControllerSharesSlices checks that nodes share the slices of their profile, where Kubernetes shares devices: with
// a pod, a NAD that comes, a master that goes and comes, a controller that is away, a label that somebody else writes, a
// driver that is away, and a node that is given up.
func TestControllerSharesSlices(t *testing.T) {
	f := setup(t, "sharing")
	f.bridge("br-own")
	f.sh("ip link add fabric type veth peer name fabric-peer")
	t.Cleanup(func() { f.sh("! ip link show fabric >/dev/null 2>&1 || ip link del fabric") })
	f.nad("blue", ownConf)
	t.Cleanup(func() { f.Must(f.RemoveController(f.Ctx)) })
	f.Must(f.InstallController(f.Ctx))
	f.label("nadra.dev/owner=nadra")
	f.withArgs("--owned-nodes=labelled", "--profiles")
	if !f.sharedDevices() {
		f.offers("own", "blue")
		f.Must(f.hasProfile(f.Ctx, "", true))
		return
	}
	f.offers("shared", "blue")
	same(t, "slices of the node", "", f.sliceOf("blue", true))

	f.start("web", lab.Want{Network: "blue"})
	f.runsOn("web", "net1", "10.84.0.")
	f.Eventually(time.Minute, func(ctx context.Context) error {
		c, err := f.claimOf(ctx, "web")
		if err != nil {
			return err
		}
		if d := c.Status.Devices; len(d) != 1 || d[0].NetworkData == nil || !strings.Contains(string(d[0].Data.Raw), f.node.Name()) {
			return fmt.Errorf("the claim's status has %+v", d)
		}
		return nil
	})

	before := f.sliceOf("blue", false)
	f.nad("red", strings.ReplaceAll(strings.ReplaceAll(ownConf, "own", "red"), "10.84", "10.86"))
	f.offers("shared", "blue", "red")
	same(t, "the slice of another NAD", before, f.sliceOf("red", false))

	f.nad("fabric", `{"cniVersion":"1.0.0","type":"macvlan","master":"fabric"}`)
	f.offers("shared", "blue", "red", "fabric")
	profile := f.profile()
	f.sh("ip link del fabric")
	f.Eventually(10*time.Second, func(ctx context.Context) error { return f.hasProfile(ctx, profile, false) })
	f.sh("ip link add fabric type veth peer name fabric-peer")
	f.Eventually(time.Minute, func(ctx context.Context) error { return f.hasProfile(ctx, profile, true) })
	f.offers("shared", "blue", "red", "fabric")

	f.Must(f.ScaleController(f.Ctx, 0))
	f.sh("ip link del fabric")
	f.Kubectl("delete", "resourceslices", "-l", v1alpha1.ProfileLabel)
	f.offers("own", "blue", "red")
	f.Must(f.ScaleController(f.Ctx, 1))
	f.offers("shared", "blue", "red")

	f.Kubectl("label", "node", f.node.Name(), "--overwrite", v1alpha1.ProfileLabel+"=0123456789abcdef")
	f.offers("own", "blue", "red")
	f.offers("shared", "blue", "red")

	back := f.withoutDriver()
	f.Eventually(3*time.Minute, func(ctx context.Context) error { return f.hasProfile(ctx, "", true) })
	f.runsOn("web", "net1", "10.84.0.")
	back()
	f.offers("shared", "blue", "red")

	f.Must(f.DeletePod(f.Ctx, f.NS, "web"))
	f.Kubectl("label", "node", f.node.Name(), "nadra.dev/owner-")
	f.Eventually(time.Minute, func(ctx context.Context) error { return f.hasProfile(ctx, "", true) })
	same(t, "addresses", "", f.addresses())
}

// profile returns the profile of the node.
func (f *fixture) profile() string {
	f.Helper()
	n, err := f.Kube.CoreV1().Nodes().Get(f.Ctx, f.node.Name(), metav1.GetOptions{})
	f.Must(err)
	return n.Labels[v1alpha1.ProfileLabel]
}

// hasProfile returns an error while the node's profile is not this one or, without is, while it is.
func (f *fixture) hasProfile(ctx context.Context, profile string, is bool) error {
	n, err := f.Kube.CoreV1().Nodes().Get(ctx, f.node.Name(), metav1.GetOptions{})
	if err != nil {
		return err
	}
	if got := n.Labels[v1alpha1.ProfileLabel]; (got == profile) != is {
		return fmt.Errorf("the profile is %q, and equal to %q must be %t; facts: %s", got, profile, is, n.Annotations[v1alpha1.FactsAnnotation])
	}
	return nil
}

// offers waits until these NADs are offered to the node by shared slices, or by its own, and by no others.
func (f *fixture) offers(how string, nads ...string) {
	f.Helper()
	f.Eventually(time.Minute, func(ctx context.Context) error {
		list, err := f.Kube.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{FieldSelector: "spec.driver=" + lab.DriverName})
		if err != nil {
			return err
		}
		n, err := f.Kube.CoreV1().Nodes().Get(ctx, f.node.Name(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		var shared, own []string
		for _, nad := range nads {
			for _, s := range list.Items {
				switch {
				case !listsNAD(&s, f.NS+"/"+nad):
				case s.Spec.NodeName != nil:
					own = append(own, nad)
				case s.Labels[v1alpha1.ProfileLabel] == n.Labels[v1alpha1.ProfileLabel]:
					shared = append(shared, nad)
				}
			}
		}
		wanted, other := shared, own
		if how == "own" {
			wanted, other = own, shared
		}
		if len(wanted) != len(nads) || len(other) > 0 {
			return fmt.Errorf("shared: %v, own: %v; want %s: %v", shared, own, how, nads)
		}
		return nil
	})
}

// sliceOf returns the name of the slice of the node, or of one that nodes share, that lists a NAD.
func (f *fixture) sliceOf(nad string, own bool) string {
	f.Helper()
	list, err := f.Kube.ResourceV1().ResourceSlices().List(f.Ctx, metav1.ListOptions{FieldSelector: "spec.driver=" + lab.DriverName})
	f.Must(err)
	for _, s := range list.Items {
		if listsNAD(&s, f.NS+"/"+nad) && (s.Spec.NodeName != nil) == own {
			return s.Name
		}
	}
	return ""
}

func listsNAD(s *resourceapi.ResourceSlice, nad string) bool {
	for _, d := range s.Spec.Devices {
		for id := range attachment.NetworkIDs(d.Attributes) {
			if id == lab.NetworkID(nad) {
				return true
			}
		}
	}
	return false
}

// claimOf returns the claim of a pod.
func (f *fixture) claimOf(ctx context.Context, pod string) (*resourceapi.ResourceClaim, error) {
	p, err := f.Kube.CoreV1().Pods(f.NS).Get(ctx, pod, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if len(p.Status.ResourceClaimStatuses) == 0 || p.Status.ResourceClaimStatuses[0].ResourceClaimName == nil {
		return nil, fmt.Errorf("pod %s has no claim", pod)
	}
	return f.Kube.ResourceV1().ResourceClaims(f.NS).Get(ctx, *p.Status.ResourceClaimStatuses[0].ResourceClaimName, metav1.GetOptions{})
}
