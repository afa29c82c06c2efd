package bench

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/test/lab"
)

// deletedNAD is the NAD that is deleted and created again, and changedNAD the one whose mode
// changes, which devices do not show.
const (
	deletedNAD = usualNADs - 1
	changedNAD = usualNADs / 2
)

// realWrites has the writes of the real driver and controller of one node.
type realWrites struct {
	// Recreated is the number of slice writes after a NAD was deleted and created again, with profiles.
	Recreated int
	// Unseen is that after a change of a NAD that devices do not show, without profiles and with them.
	Unseen int
}

// capture makes the real driver publish NADs, and then the real controller, and records their slices. Simulated
// nodes have exactly the same devices.
func (s *scale) capture(b *testing.B) {
	must(b, s.CreateNamespace(b.Context(), scaleNamespace))
	s.without = map[*offer]*offer{}
	s.have(b, 0, usualNADs)
	s.own = s.published(b, usualNADs, false)
	s.captureChanges(b, s.own)
	s.offers = []*offer{noOffer(), bareOffer(), s.own}
	s.have(b, usualNADs, sharedNADs[0])
	must(b, s.InstallController(b.Context()))
	nads := sharedNADs[0]
	for _, n := range sharedNADs {
		s.have(b, nads, n)
		o := s.published(b, n, true)
		if n == usualNADs {
			s.shared = o
			s.captureChanges(b, o)
		}
		s.offers, nads = append(s.offers, o), n
	}
	for _, n := range manyProfiles {
		profiles := slices.Clone(s.shared.profiles)
		for len(profiles) < n {
			profiles = append(profiles, profiles[0].variant(b, len(profiles)))
		}
		s.offers = append(s.offers, nadraOffer(usualNADs, nil, profiles...))
	}
}

// have creates NADs, or deletes them, so that there are the first n.
func (s *scale) have(b *testing.B, now, n int) {
	for ; now < n; now++ {
		must(b, s.CreateNAD(b.Context(), scaleNamespace, networkNo(now), scaleConfig(now)))
	}
	for ; now > n; now-- {
		must(b, s.NADs.K8sCniCncfIoV1().NetworkAttachmentDefinitions(scaleNamespace).Delete(b.Context(), networkNo(now-1), metav1.DeleteOptions{}))
	}
}

// captureChanges records the offer without a NAD, and counts the writes of driver and controller after a
// change that devices do not show. They handle changes in their order, so they have
// handled that one when they have published a later one. The count is the number of additional
// writes, and at least 1 if the slices differ.
func (s *scale) captureChanges(b *testing.B, o *offer) {
	shared := len(o.profiles) > 0
	once := s.sliceWrites(b).done
	s.without[o] = s.recreate(b, shared)
	twice := s.sliceWrites(b).done
	s.changeMode(b)
	s.recreate(b, shared)
	unseen := int(s.sliceWrites(b).done-twice) - int(twice-once)
	again := s.published(b, usualNADs, shared)
	if !apiequality.Semantic.DeepEqual(again.pools, o.pools) || !apiequality.Semantic.DeepEqual(again.shared(), o.shared()) {
		unseen = max(unseen, 1)
	}
	s.real.Unseen += unseen
	if shared {
		s.real.Recreated = int(twice - once)
	}
}

// recreate deletes a NAD and creates it again. It returns the offer in between.
func (s *scale) recreate(b *testing.B, shared bool) *offer {
	s.have(b, usualNADs, deletedNAD)
	out := s.published(b, deletedNAD, shared)
	s.have(b, deletedNAD, usualNADs)
	s.published(b, usualNADs, shared)
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

// published waits until exactly the first n NADs are offered to the node, all by its own slices or all by those of
// its profile, and returns the offer.
func (s *scale) published(b *testing.B, n int, shared bool) *offer {
	node := s.Cluster.Node(1).Name()
	wanted := map[attachment.NetworkID]bool{}
	for i := range n {
		wanted[attachment.NetworkIDOf(scaleNAD(i))] = true
	}
	var own pools
	var of []profile
	must(b, lab.Eventually(b.Context(), time.Minute, func(ctx context.Context) error {
		said, err := s.Kube.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		list, err := s.Kube.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{FieldSelector: "spec.driver=" + lab.DriverName})
		if err != nil {
			return err
		}
		p := profile{name: said.Labels[v1alpha1.ProfileLabel], facts: said.Annotations[v1alpha1.FactsAnnotation]}
		found := map[attachment.NetworkID]bool{}
		own = pools{}
		for _, slice := range list.Items { // sorted by name, which begins with the number
			switch slice.Labels[v1alpha1.ProfileLabel] {
			case "":
				name := strings.TrimPrefix(slice.Spec.Pool.Name, node)
				own[name] = resourceslice.Pool{Slices: append(own[name].Slices, resourceslice.Slice{Devices: slice.Spec.Devices})}
			case p.name:
				slice.ObjectMeta = metav1.ObjectMeta{Name: slice.Name, Labels: slice.Labels, Annotations: slice.Annotations, OwnerReferences: slice.OwnerReferences}
				slice.Spec.Pool.Generation = 1
				p.slices = append(p.slices, slice)
			default:
				continue // an earlier profile
			}
			for _, d := range slice.Spec.Devices {
				for id := range attachment.NetworkIDs(d.Attributes) {
					found[id] = true
				}
			}
		}
		if of = nil; shared {
			of = []profile{p}
		}
		if !maps.Equal(found, wanted) || shared != (len(own) == 0) || shared != (len(p.slices) > 0) {
			return fmt.Errorf("the node has %d networks, %d pools of its own and %d slices of its profile, want the first %d networks, shared: %t",
				len(found), len(own), len(p.slices), n, shared)
		}
		return nil
	}))
	return nadraOffer(n, own, of...)
}

// isolate removes the real controller and driver, so that only simulated nodes publish, and keeps pods off the real
// node. The policies stay, so that the API server checks each write of a slice.
func (s *scale) isolate(ctx context.Context) error {
	node := s.Cluster.Node(1).Name()
	for _, args := range [][]string{
		{"delete", "mutatingwebhookconfiguration,validatingwebhookconfiguration", "nadra-controller", "--ignore-not-found"},
		{"-n", lab.ControllerNamespace, "delete", "deployments", "--all", "--cascade=foreground", "--timeout=120s"},
		{"-n", "nadra", "delete", "daemonset/nadra-node", "--cascade=foreground", "--timeout=120s"},
		{"cordon", node},
		{"label", "node", node, v1alpha1.ProfileLabel + "-"},
		{"delete", "resourceslices", "--all"},
	} {
		if _, err := s.Cluster.Kubectl(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}
