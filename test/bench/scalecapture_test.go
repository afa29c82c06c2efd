//go:build e2e

package bench

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/test/lab"
)

// offer has the pools that nadra's driver publishes on a node, by their names without the
// node's.
type offer map[string]resourceslice.Pool

// on returns the same offer on another node.
func (o offer) on(node string) *resourceslice.DriverResources {
	out := &resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{}}
	for name, pool := range o {
		out.Pools[node+name] = pool
	}
	return out
}

// changedNAD is the network that changes and that pods request. It is in the middle of
// those that the scheduler examines until it finds the right one.
var changedNAD = attachment.NetworkRef{Namespace: scaleNamespace, Name: networkNo(scaleNADs / 2)}

// capture makes the real driver publish the networks, and again after a change of one.
// Simulated nodes publish exactly the same devices.
func (s *scale) capture(ctx context.Context) (err error) {
	if err := s.CreateNamespace(ctx, scaleNamespace); err != nil {
		return err
	}
	for i := range scaleNADs {
		if err := s.CreateNAD(ctx, scaleNamespace, networkNo(i), macvlan(lan, i)); err != nil {
			return err
		}
	}
	if s.before, err = s.published(ctx, "bridge"); err != nil {
		return err
	}
	nads := s.NADs.K8sCniCncfIoV1().NetworkAttachmentDefinitions(scaleNamespace)
	nad, err := nads.Get(ctx, changedNAD.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	nad.Spec.Config = strings.Replace(nad.Spec.Config, "bridge", "private", 1)
	if _, err := nads.Update(ctx, nad, metav1.UpdateOptions{}); err != nil {
		return err
	}
	s.after, err = s.published(ctx, "private")
	return err
}

// published waits until the node publishes all networks, and the changing one with that
// mode.
func (s *scale) published(ctx context.Context, mode string) (offer, error) {
	node := s.Cluster.Node(1).Name()
	var out offer
	err := lab.Eventually(ctx, time.Minute, func(ctx context.Context) error {
		list, err := s.Kube.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{FieldSelector: "spec.driver=" + lab.DriverName})
		if err != nil {
			return err
		}
		devices, changed := 0, false
		out = offer{}
		for _, slice := range list.Items { // sorted by name, which begins with the number
			name := strings.TrimPrefix(slice.Spec.Pool.Name, node)
			out[name] = resourceslice.Pool{Slices: append(out[name].Slices, resourceslice.Slice{Devices: slice.Spec.Devices})}
			devices += len(slice.Spec.Devices)
			for _, d := range slice.Spec.Devices {
				changed = changed || *d.Attributes["nadName"].StringValue == changedNAD.Name && *d.Attributes["mode"].StringValue == mode
			}
		}
		if devices != scaleNADs || !changed {
			return fmt.Errorf("the driver publishes %d devices, %s's mode being %s: %t", devices, changedNAD, mode, changed)
		}
		return nil
	})
	return out, err
}

// fence keeps the driver's pods on the real node, and all others off it, and makes the API
// server check each write of a slice as in a cluster with the controller.
func (s *scale) fence(ctx context.Context) error {
	node := s.Cluster.Node(1).Name()
	patch := fmt.Sprintf(`{"spec":{"template":{"spec":{"nodeSelector":{"kubernetes.io/hostname":%q}}}}}`, node)
	for _, args := range [][]string{
		{"-n", "nadra", "patch", "daemonset/nadra-node", "-p", patch},
		{"-n", "nadra", "rollout", "status", "daemonset/nadra-node", "--timeout=120s"},
		{"cordon", node},
		{"apply", "-f", filepath.Join(lab.Root(), "manifests", "slices-policy", "slices-policy.yaml")},
	} {
		if _, err := s.Cluster.Kubectl(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}
