//go:build e2e

package bench

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/test/lab"
)

// deletedNAD is the NAD that is deleted and created again, and changedNAD the one whose mode
// changes, which devices do not show.
const (
	deletedNAD = usualNADs - 1
	changedNAD = usualNADs / 2
)

// capture makes the real driver publish one NAD, then more, and records its slices. Simulated
// nodes publish exactly the same devices.
func (s *scale) capture(b *testing.B) {
	must(b, s.CreateNamespace(b.Context(), scaleNamespace))
	nads := 0
	captured := map[int]pools{}
	for _, n := range slices.Sorted(slices.Values(append(slices.Clone(otherNADs), usualNADs))) {
		for ; nads < n; nads++ {
			must(b, s.CreateNAD(b.Context(), scaleNamespace, networkNo(nads), scaleConfig(nads)))
		}
		captured[n] = s.published(b, n)
		if n == usualNADs {
			s.captureChanges(b, captured[n])
		}
	}
	s.usual = nadraOffer(usualNADs, captured[usualNADs])
	s.offers = []*offer{noOffer(), bareOffer(), s.usual}
	for _, n := range otherNADs {
		s.offers = append(s.offers, nadraOffer(n, captured[n]))
	}
}

// captureChanges records the slices without a NAD, and counts the writes of the driver after a
// change that devices do not show. The driver handles changes in their order, so it has
// handled that one when it has published a later one. The count is the number of additional
// writes, and at least 1 if the slices differ.
func (s *scale) captureChanges(b *testing.B, before pools) {
	once := s.sliceWrites(b).done
	s.without = s.recreate(b)
	twice := s.sliceWrites(b).done
	s.changeMode(b)
	s.recreate(b)
	s.unseen = int(s.sliceWrites(b).done-twice) - int(twice-once)
	if !apiequality.Semantic.DeepEqual(s.published(b, usualNADs), before) {
		s.unseen = max(s.unseen, 1)
	}
}

// recreate deletes a NAD and creates it again. It returns the slices in between.
func (s *scale) recreate(b *testing.B) pools {
	must(b, s.NADs.K8sCniCncfIoV1().NetworkAttachmentDefinitions(scaleNamespace).Delete(b.Context(), networkNo(deletedNAD), metav1.DeleteOptions{}))
	out := s.published(b, deletedNAD)
	must(b, s.CreateNAD(b.Context(), scaleNamespace, networkNo(deletedNAD), scaleConfig(deletedNAD)))
	s.published(b, usualNADs)
	return out
}

// changeMode changes the mode of a macvlan network.
func (s *scale) changeMode(b *testing.B) {
	nads := s.NADs.K8sCniCncfIoV1().NetworkAttachmentDefinitions(scaleNamespace)
	nad, err := nads.Get(b.Context(), networkNo(changedNAD), metav1.GetOptions{})
	must(b, err)
	changed := strings.Replace(nad.Spec.Config, `"bridge"`, `"private"`, 1)
	if changed == nad.Spec.Config {
		b.Fatalf("NAD %s has no mode to change: %s", nad.Name, nad.Spec.Config)
	}
	nad.Spec.Config = changed
	_, err = nads.Update(b.Context(), nad, metav1.UpdateOptions{})
	must(b, err)
}

// published waits until the node publishes exactly the first n NADs, and returns its pools.
func (s *scale) published(b *testing.B, n int) pools {
	node := s.Cluster.Node(1).Name()
	wanted := map[attachment.NetworkID]bool{}
	for i := range n {
		wanted[attachment.NetworkIDOf(scaleNAD(i))] = true
	}
	var out pools
	must(b, lab.Eventually(b.Context(), time.Minute, func(ctx context.Context) error {
		list, err := s.Kube.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{FieldSelector: "spec.driver=" + lab.DriverName})
		if err != nil {
			return err
		}
		found := map[attachment.NetworkID]bool{}
		out = pools{}
		for _, slice := range list.Items { // sorted by name, which begins with the number
			name := strings.TrimPrefix(slice.Spec.Pool.Name, node)
			out[name] = resourceslice.Pool{Slices: append(out[name].Slices, resourceslice.Slice{Devices: slice.Spec.Devices})}
			for _, d := range slice.Spec.Devices {
				for id := range attachment.NetworkIDs(d.Attributes) {
					found[id] = true
				}
			}
		}
		if !maps.Equal(found, wanted) {
			return fmt.Errorf("the driver publishes %d networks, want the first %d", len(found), n)
		}
		return nil
	}))
	return out
}

// isolate removes the real driver, so that only simulated nodes publish, keeps pods off the real
// node, and makes the API server check each write of a slice as in a cluster with the controller.
func (s *scale) isolate(ctx context.Context) error {
	for _, args := range [][]string{
		{"-n", "nadra", "delete", "daemonset/nadra-node", "--cascade=foreground", "--timeout=120s"},
		{"cordon", s.Cluster.Node(1).Name()},
		{"delete", "resourceslices", "--all"},
		{"apply", "-f", filepath.Join(lab.Root(), "manifests", "node-policies", "slices.yaml")},
	} {
		if _, err := s.Cluster.Kubectl(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}
