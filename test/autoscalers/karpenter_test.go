//go:build e2e

package autoscalers

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/test/lab"
)

// simulates is the flag by which Karpenter simulates claims.
const simulates = "--ignore-dra-requests=false"

// TestNodeForNetwork checks that a pod with a network gets a node of a NodePool that has the profile of the real node,
// from no nodes at all. Karpenter then waits for a slice of this node alone, which the driver publishes on its nodes, and
// removes the node when only pods of DaemonSets are left on it. A node of kwok has no driver: the slice is that of the
// driver on the real node, which looks like one of Karpenter's for a while.
func TestNodeForNetwork(t *testing.T) {
	f := setup(t, "labelled", simulates)
	profile := f.profile()
	f.nodePool("labelled", map[string]string{api.ProfileLabel: profile, api.OwnerLabel: api.OwnerNadra})
	f.pod("web", "lan")
	node := f.runsOn("web", "labelled")
	f.Must(f.nodes("labelled"))
	_, err := f.ClaimWhen(f.Ctx, f.getPod("web"), func(c *resourceapi.ResourceClaim) error {
		if c.Status.Allocation == nil || !strings.HasPrefix(c.Status.Allocation.Devices.Results[0].Pool, profile) {
			return fmt.Errorf("the allocation is %+v, want a device of profile %s", c.Status.Allocation, profile)
		}
		return nil
	})
	f.Must(err)

	f.Eventually(waitLimit, func(ctx context.Context) error {
		out, err := f.Cluster.Kubectl(ctx, "-n", "nadra", "get", "pods", "--field-selector=status.phase=Running,spec.nodeName="+node, "-o", "name")
		if err == nil && out == "" {
			err = fmt.Errorf("no pod of the driver's DaemonSet is on %s", node)
		}
		return err
	})
	f.Must(f.DeletePod(f.Ctx, f.NS, "web"))
	f.Eventually(waitLimit, func(ctx context.Context) error {
		const initialized = `jsonpath={.items[*].status.conditions[?(@.type=="Initialized")].reason}`
		out, err := f.Cluster.Kubectl(ctx, "get", "nodeclaims", "-o", initialized)
		if err == nil && out != "DRADriverPoolsNotPublished" {
			err = fmt.Errorf("the reason of Initialized is %q", out)
		}
		return err
	})
	f.Must(f.nodes("labelled"))
	own := f.ownSlice()
	n, err := f.Kube.CoreV1().Nodes().Get(f.Ctx, node, metav1.GetOptions{})
	f.Must(err)
	own.ObjectMeta = metav1.ObjectMeta{Name: node, OwnerReferences: own.OwnerReferences}
	own.OwnerReferences[0].Name, own.OwnerReferences[0].UID = node, n.UID
	own.Spec.NodeName, own.Spec.Pool.Name = &node, node+strings.TrimPrefix(own.Spec.Pool.Name, f.real.Name)
	_, err = f.AsDriver(node).ResourceV1().ResourceSlices().Create(f.Ctx, own, metav1.CreateOptions{})
	f.Must(err)
	f.Eventually(waitLimit, func(context.Context) error { return f.nodes() })
	f.Kubectl("delete", "resourceslice", node, "--ignore-not-found")
}

// ownSlice returns what the driver publishes for the real node alone while Karpenter's label is on it.
func (f *fixture) ownSlice() (own *resourceapi.ResourceSlice) {
	f.Helper()
	ofNode := metav1.ListOptions{FieldSelector: "spec.nodeName=" + f.real.Name + ",spec.driver=" + api.DriverName}
	has := func(count int) func(context.Context) error {
		return func(ctx context.Context) error {
			list, err := f.Kube.ResourceV1().ResourceSlices().List(ctx, ofNode)
			if err == nil && len(list.Items) != count {
				return fmt.Errorf("the real node has %d slices of its own, want %d", len(list.Items), count)
			}
			if count > 0 && err == nil {
				own = &list.Items[0]
			}
			return err
		}
	}
	f.Eventually(waitLimit, has(0))
	f.Kubectl("label", "node", f.real.Name, "karpenter.sh/nodepool=none")
	f.Eventually(waitLimit, has(1))
	f.Kubectl("label", "node", f.real.Name, "karpenter.sh/nodepool-")
	f.Eventually(waitLimit, has(0))
	if len(own.Spec.Devices) > 0 {
		f.Errorf("the slice has devices: %+v", own.Spec.Devices)
	}
	return own
}

// TestNodePoolWithoutProfile checks that a NodePool whose nodes lack the profile adds no node for a pod with a
// network, and adds one for a pod without a network.
func TestNodePoolWithoutProfile(t *testing.T) {
	f := setup(t, "unlabelled", simulates)
	f.profile()
	f.nodePool("unlabelled", map[string]string{api.OwnerLabel: api.OwnerNadra})
	f.neverFor("web", "unlabelled")
}

// TestWithoutProfiles checks that no NodePool adds a node for a pod with a network while each node publishes slices of
// its own, whatever labels the real node had.
func TestWithoutProfiles(t *testing.T) {
	f := setup(t, "own", simulates)
	profile := f.profile()
	var err error
	f.restore, err = lab.AddDriverArgs(f.Ctx, f.Lab, "--profiles=false")
	f.Must(err)
	f.Kubectl("label", "node", f.real.Name, api.ProfileLabel+"-")
	f.Eventually(waitLimit, func(ctx context.Context) error {
		out, err := f.Cluster.Kubectl(ctx, "delete", "resourceslices", "-l", api.ProfileLabel)
		if err == nil && !strings.HasPrefix(out, "No resources found") && out != "" {
			err = fmt.Errorf("there were shared slices: %s", out)
		}
		return err
	})
	f.Must(f.Published(f.Ctx, f.NS+"/lan"))
	f.nodePool("own", map[string]string{api.ProfileLabel: profile, api.OwnerLabel: api.OwnerNadra})
	f.neverFor("web", "own")
}

// neverFor checks that a NodePool adds no node for a pod with a network, and one for a pod without.
func (f *fixture) neverFor(name, pool string) {
	f.Helper()
	f.pod(name, "lan")
	const why = "allocating dynamic resources, no instance type can satisfy the allocation"
	f.refused(name, why)
	f.Must(f.nodes())
	f.pod("plain", "")
	f.runsOn("plain", pool)
	f.Must(f.nodes(pool))
	f.refused(name, why)
}

// TestDefaultFlags checks that Karpenter without flags adds no node for a pod with a claim, and adds one for the same
// pod in a namespace without claims, which it removes when only pods of DaemonSets are left on it.
func TestDefaultFlags(t *testing.T) {
	f := setup(t, "default-flags")
	f.nodePool("nadra", map[string]string{api.ProfileLabel: f.profile(), api.OwnerLabel: api.OwnerNadra})
	f.pod("web", "lan")
	f.refused("web", "Dynamic Resource Allocation requirements that are not yet supported")
	f.Must(f.nodes())

	f.Kubectl("delete", "pod", "web", "--timeout=60s")
	f.Kubectl("label", "namespace", f.NS, api.ClaimsLabel+"="+api.ClaimsNever)
	f.Eventually(30*time.Second, func(context.Context) error { return f.unclaimed("web") })
	f.runsOn("web", "nadra")
	f.Must(f.nodes("nadra"))
	f.Must(f.DeletePod(f.Ctx, f.NS, "web"))
	f.Eventually(waitLimit, func(context.Context) error { return f.nodes() })
}

// unclaimed creates a pod with a network, and deletes it again if it got a claim.
func (f *fixture) unclaimed(name string) error {
	f.pod(name, "lan")
	if len(f.getPod(name).Spec.ResourceClaims) == 0 {
		return nil
	}
	f.Kubectl("delete", "pod", name, "--timeout=60s")
	return fmt.Errorf("the webhook gives pod %s a claim", name)
}
