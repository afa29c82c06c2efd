package controller

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/driver/offer"
)

// profiled returns a node with these facts, and its profile.
func profiled(t *testing.T, name string, facts offer.Facts) (node *corev1.Node, profile string) {
	t.Helper()
	text, profile, err := facts.Text()
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{v1alpha1.ProfileLabel: profile}, Annotations: map[string]string{v1alpha1.FactsAnnotation: text},
	}}, profile
}

// roleOfProfiles owns the slices of profiles.
var roleOfProfiles = &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: profileRole, UID: "role-uid"}}

// profilesBench reconciles the slices of profiles at a time of its own.
type profilesBench struct {
	*profiles
	t      *testing.T
	at     time.Time
	writes int
	// drops is set if the API server drops the field by which nodes share a device, created counts the slices.
	drops   bool
	created int
}

func newProfilesBench(t *testing.T, objects ...client.Object) *profilesBench {
	b := &profilesBench{t: t, at: time.Unix(1, 0)}
	c := interceptor.NewClient(cluster(append(objects, roleOfProfiles)...).(client.WithWatch), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			b.writes++
			if s, ok := o.(*resourceapi.ResourceSlice); ok {
				b.created++
				for i := range s.Spec.Devices {
					if b.drops {
						s.Spec.Devices[i].AllowMultipleAllocations = nil
					}
				}
			}
			return c.Create(ctx, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			b.writes++
			return c.Update(ctx, o, opts...)
		},
	})
	b.profiles = &profiles{Client: c, nodes: c, live: c, now: func() time.Time { return b.at }}
	return b
}

// offers reconciles, and returns what each slice offers, and the number of writes.
func (b *profilesBench) offers() (of map[string]string, writes int) {
	b.t.Helper()
	b.writes = 0
	if _, err := b.Reconcile(b.t.Context(), request("", "all")); err != nil {
		b.t.Fatal(err)
	}
	var list resourceapi.ResourceSliceList
	if err := b.List(b.t.Context(), &list); err != nil {
		b.t.Fatal(err)
	}
	of = map[string]string{}
	for _, s := range list.Items {
		of[s.Name] = fmt.Sprintf("%d: %s", s.Spec.Pool.Generation, s.Annotations[v1alpha1.OffersAnnotation])
	}
	return of, b.writes
}

func (b *profilesBench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// TestProfilesConverge checks the slices of profiles: one write for a NAD, whatever the number of nodes, none for a
// profile whose facts are another's, and none that outlive their nodes for long.
func TestProfilesConverge(t *testing.T) {
	facts := offer.Facts{Version: 1, Plugins: []string{"bridge"}, Pods: 110}
	first, profile := profiled(t, "a", facts)
	second, _ := profiled(t, "b", facts)
	liar, _ := profiled(t, "c", offer.Facts{Version: 1, Plugins: []string{"bridge", "other"}, Pods: 110})
	liar.Labels[v1alpha1.ProfileLabel] = "0123456789abcdef"
	name := "nadra-" + profile + "-0"
	b := newProfilesBench(t, first, second, liar, nad("a", "lan", bridge), nad("a", "absent", `{"cniVersion":"1.0.0","type":"macvlan","master":"ens1"}`))
	check := func(what string, wantWrites int, want map[string]string) {
		t.Helper()
		got, writes := b.offers()
		if diff := cmp.Diff(want, got); diff != "" || writes != wantWrites {
			t.Errorf("%s: %d writes, want %d; slices (-want +got):\n%s", what, writes, wantWrites, diff)
		}
	}
	check("two nodes", 1, map[string]string{name: "1: a/lan"})
	check("nothing new", 0, map[string]string{name: "1: a/lan"})
	b.must(b.Create(t.Context(), nad("b", "wan", bridge)))
	check("another NAD", 1, map[string]string{name: "2: a/lan, b/wan"})
	var s resourceapi.ResourceSlice
	b.must(b.Get(t.Context(), client.ObjectKey{Name: name}, &s))
	s.Spec.Devices = nil
	b.must(b.Update(t.Context(), &s))
	check("a slice that somebody has changed", 1, map[string]string{name: "3: a/lan, b/wan"})
	b.must(b.Delete(t.Context(), &s))
	check("a slice that somebody has deleted", 1, map[string]string{name: "1: a/lan, b/wan"})
	role := roleOfProfiles.DeepCopy()
	b.must(b.Delete(t.Context(), role))
	role.UID, role.ResourceVersion = "another-uid", ""
	b.must(b.Create(t.Context(), role))
	check("another installation owns it", 1, map[string]string{name: "2: a/lan, b/wan"})
	b.must(b.Get(t.Context(), client.ObjectKey{Name: name}, &s))
	if o := s.OwnerReferences; len(o) != 1 || o[0].UID != role.UID || o[0].Kind != "ClusterRole" || o[0].Name != profileRole {
		t.Errorf("the slice has the owners %+v", o)
	}
	b.must(b.Delete(t.Context(), first))
	check("one node less", 0, map[string]string{name: "2: a/lan, b/wan"})
	b.must(b.Delete(t.Context(), second))
	check("no node", 0, map[string]string{name: "2: a/lan, b/wan"})
	b.at = b.at.Add(profileGrace)
	check("no node for a while", 0, map[string]string{})
}

// TestManyProfiles checks that there are slices for as many profiles as the limit allows, those of most nodes first.
func TestManyProfiles(t *testing.T) {
	objects := []client.Object{nad("a", "lan", bridge)}
	var common string
	for i := range maxProfiles + 50 {
		n, profile := profiled(t, fmt.Sprint("node-", i), offer.Facts{Version: 1, Plugins: []string{"bridge"}, Pods: int64(110 + i)})
		objects = append(objects, n)
		if i == maxProfiles+49 {
			common = profile
			again := n.DeepCopy()
			again.Name = "again"
			objects = append(objects, again)
		}
	}
	b := newProfilesBench(t, objects...)
	got, _ := b.offers()
	if len(got) != maxProfiles || got["nadra-"+common+"-0"] == "" {
		t.Errorf("%d slices, want %d, that of two nodes among them: %q", len(got), maxProfiles, got["nadra-"+common+"-0"])
	}
	for round := range 3 { // all nodes change their profiles, and their earlier ones are kept for a while
		for i := range maxProfiles + 50 {
			n, _ := profiled(t, fmt.Sprint("node-", i), offer.Facts{Version: 1, Plugins: []string{"bridge"}, Pods: int64(1000*(round+1) + i)})
			b.must(b.Update(t.Context(), n))
		}
		if got, _ := b.offers(); len(got) > maxProfiles+maxUnused {
			t.Errorf("%d slices after %d changes of all nodes, want %d at most", len(got), round+1, maxProfiles+maxUnused)
		}
	}
}

// TestProfilesKeepTheirSlices checks what happens at the limit: a profile that has slices keeps them while others of
// about as many nodes come and go, also after the controller has started again, and gives way to one of many nodes.
func TestProfilesKeepTheirSlices(t *testing.T) {
	objects := []client.Object{nad("a", "lan", bridge)}
	node := func(name string, kind int) *corev1.Node {
		n, _ := profiled(t, name, offer.Facts{Version: 1, Plugins: []string{"bridge"}, Pods: int64(1000 + kind)})
		return n
	}
	for i := range maxProfiles {
		objects = append(objects, node(fmt.Sprint("node-", i), i))
	}
	b := newProfilesBench(t, objects...)
	before, _ := b.offers()
	if len(before) != maxProfiles {
		t.Fatalf("%d slices, want %d", len(before), maxProfiles)
	}
	for i := range 40 { // whatever the hashes are, some are before those of the others
		n := node(fmt.Sprint("newcomer-", i), maxProfiles+i)
		second := n.DeepCopy()
		second.Name += "-again"
		for _, n := range []*corev1.Node{n, second} {
			b.must(b.Create(t.Context(), n))
			b.profiles = &profiles{Client: b.Client, nodes: b.nodes, live: b.live, now: b.now}
			if got, writes := b.offers(); writes > 0 || !cmp.Equal(got, before) {
				t.Fatalf("node %s of a profile of its own changes slices of others: %d writes, (-before +after):\n%s", n.Name, writes, cmp.Diff(before, got))
			}
		}
	}
	n, profile := profiled(t, "third", offer.Facts{Version: 1, Plugins: []string{"bridge"}, Pods: int64(1000 + maxProfiles)})
	b.must(b.Create(t.Context(), n))
	if got, _ := b.offers(); len(got) != maxProfiles || got["nadra-"+profile+"-0"] == "" {
		t.Errorf("a profile of three nodes has the slice %q of %d, want one of %d", got["nadra-"+profile+"-0"], len(got), maxProfiles)
	}
}

// TestProfilesWithoutSharedDevices checks that no slice is left, and that none is written again and again, where the
// API server drops the field by which nodes share a device.
func TestProfilesWithoutSharedDevices(t *testing.T) {
	node, _ := profiled(t, "a", offer.Facts{Version: 1, Plugins: []string{"bridge"}, Pods: 110})
	b := newProfilesBench(t, node, nad("a", "lan", bridge))
	b.drops = true
	for range 20 {
		if got, _ := b.offers(); len(got) > 0 {
			t.Fatalf("slices %v", got)
		}
	}
	total := b.created
	if total != 1 {
		t.Errorf("%d slices were created", total)
	}
	b.drops, b.at = false, b.at.Add(profileGrace)
	if got, _ := b.offers(); len(got) != 1 {
		t.Errorf("with shared devices the slices are %v", got)
	}
}

// TestProfilesFail checks that one slice that cannot be written keeps no other from being written.
func TestProfilesFail(t *testing.T) {
	a, first := profiled(t, "a", offer.Facts{Version: 1, Plugins: []string{"bridge"}, Pods: 110})
	other, second := profiled(t, "b", offer.Facts{Version: 1, Plugins: []string{"bridge"}, Pods: 111})
	c := cluster(roleOfProfiles, a, other, nad("a", "lan", bridge)).(client.WithWatch)
	refused := errors.New("refused")
	r := &profiles{Client: interceptor.NewClient(c, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		if o.GetLabels()[v1alpha1.ProfileLabel] == first {
			return refused
		}
		return c.Create(ctx, o, opts...)
	}}), nodes: c, live: c, now: time.Now}
	if _, err := r.Reconcile(t.Context(), request("", "all")); !errors.Is(err, refused) {
		t.Errorf("error %v", err)
	}
	if there(t, c, &resourceapi.ResourceSlice{}, "", "nadra-"+first+"-0") || !there(t, c, &resourceapi.ResourceSlice{}, "", "nadra-"+second+"-0") {
		t.Error("the other slice was not written")
	}
}
