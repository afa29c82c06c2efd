package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/nadra-dev/nadra/internal/kube"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/driver/offer"
)

const (
	// maxProfiles is the number of profiles for which there are slices: those of most nodes. Nodes of others
	// publish slices of their own. For each pod the scheduler compares each node that it examines with the selectors of all
	// slices that nodes share.
	maxProfiles = 50
	// profileGrace is how long the slices of a profile stay that no node has, of maxUnused profiles at most.
	profileGrace, maxUnused = 10 * time.Minute, 10
	// profilePause and longProfilePause limit the time for which changes are gathered. It grows with the time that
	// making the slices of all profiles takes, so that this takes a fifth of a core.
	profilePause, longProfilePause = 200 * time.Millisecond, 20 * time.Second
	// profileRole is the ClusterRole of the drivers that write profiles.
	profileRole = "nadra-profile"
)

// profiles keeps the slices that nodes of the same profile share.
type profiles struct {
	client.Client
	nodes client.Reader
	// live reads without a cache.
	live client.Reader
	// nodeSource returns a source of the nodes' metadata for a controller.
	nodeSource func(handler.EventHandler) source.Source
	now        func() time.Time

	// pause is how long changes are gathered.
	pause atomic.Int64
	// definitions, offers, unused and ignored are used by the only worker. offers are those of profiles, unused has the
	// time since when no node has a profile for which there are slices, and ignored the problems of nodes' facts that
	// were logged.
	definitions offer.Definitions
	offers      map[string]*offer.Offer
	unused      map[string]time.Time
	ignored     map[string]string
	// refused is when the API server has last dropped the field by which nodes share a device.
	refused time.Time
}

func (r *profiles) setUp(m manager.Manager) error {
	r.pause.Store(int64(profilePause))
	on := handler.Funcs{
		CreateFunc: later[event.CreateEvent](r), DeleteFunc: later[event.DeleteEvent](r), GenericFunc: later[event.GenericEvent](r),
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			if _, isNode := e.ObjectNew.(*metav1.PartialObjectMetadata); isNode && maps.Equal(e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations()) && maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels()) {
				return
			}
			later[event.UpdateEvent](r)(ctx, e, q)
		},
	}
	return builder.ControllerManagedBy(m).Named("profiles").
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).
		Watches(&nadv1.NetworkAttachmentDefinition{}, on).
		Watches(&resourceapi.ResourceSlice{}, on).
		WatchesRawSource(r.nodeSource(on)).
		Complete(r)
}

// later returns the handler of an event after which the reconciler reads everything again, together with what else happens
// during its pause.
func later[E any](r *profiles) func(context.Context, E, workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	return func(_ context.Context, _ E, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		q.AddAfter(request("", "all"), time.Duration(r.pause.Load()))
	}
}

// errNodeFile stands for the configuration of a NAD that has none, which each node has in a file.
var errNodeFile = errors.New("its configuration is in a file of each node")

// Reconcile makes the slices of all profiles.
func (r *profiles) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	began := r.now()
	defer func() { r.pause.Store(int64(min(max(profilePause, 4*r.now().Sub(began)), longProfilePause))) }()
	if wait := profileGrace - began.Sub(r.refused); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	var nads nadv1.NetworkAttachmentDefinitionList
	if err := r.List(ctx, &nads, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, fmt.Errorf("listing NADs: %w", err)
	}
	networks := r.definitions.Of(pointers(nads.Items), func(string) (string, []byte, error) { return "", nil, errNodeFile })
	var existing resourceapi.ResourceSliceList
	if err := r.List(ctx, &existing, client.HasLabels{v1alpha1.ProfileLabel}); err != nil {
		return reconcile.Result{}, fmt.Errorf("listing the slices of profiles: %w", err)
	}
	seated := profilesOf(existing.Items)
	used, haveNodes, err := r.used(ctx, seated)
	if err != nil {
		return reconcile.Result{}, err
	}
	owner, err := r.owner(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	wanted, offers := map[string]*resourceapi.ResourceSlice{}, map[string]*offer.Offer{}
	for profile, facts := range used {
		offers[profile] = r.offers[profile].Of(offer.Arrangement{Networks: facts.Shared(networks), Pods: facts.Pods}, offer.Options{})
		for _, s := range offers[profile].Shared(profile) {
			s.OwnerReferences = owner
			wanted[s.Name] = s
		}
	}
	r.offers = offers
	r.keepUnused(seated.Difference(haveNodes))
	return r.write(ctx, existing.Items, wanted)
}

// owner returns a reference to the drivers' right to write profiles, which each installation with a controller has:
// slices that nobody keeps any more are collected with it.
func (r *profiles) owner(ctx context.Context) ([]metav1.OwnerReference, error) {
	role := &metav1.PartialObjectMetadata{}
	role.SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind("ClusterRole"))
	if err := r.live.Get(ctx, client.ObjectKey{Name: profileRole}, role); err != nil {
		return nil, fmt.Errorf("reading ClusterRole %s, which owns the slices of profiles: %w", profileRole, err)
	}
	return []metav1.OwnerReference{{APIVersion: role.APIVersion, Kind: role.Kind, Name: role.Name, UID: role.UID}}, nil
}

// used returns the profiles of nodes, with their facts: those that most nodes have. A profile that has slices gives way
// only to one of more than twice as many nodes, so that nodes that come and go do not make slices come and go. haveNodes
// has the profiles beyond the limit, too.
func (r *profiles) used(ctx context.Context, seated sets.Set[string]) (used map[string]offer.Facts, haveNodes sets.Set[string], err error) {
	nodes := &metav1.PartialObjectMetadataList{}
	nodes.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
	if err := r.nodes.List(ctx, nodes); err != nil {
		return nil, nil, fmt.Errorf("listing nodes: %w", err)
	}
	known, count, ignored := map[string]offer.Facts{}, map[string]int{}, map[string]string{}
	for _, n := range nodes.Items {
		profile := n.Labels[v1alpha1.ProfileLabel]
		if profile == "" {
			continue
		}
		count[profile]++
		if _, done := known[profile]; done {
			continue
		}
		facts, err := offer.ReadFacts(n.Annotations[v1alpha1.FactsAnnotation], profile)
		if err != nil {
			if ignored[n.Name] = err.Error(); r.ignored[n.Name] != ignored[n.Name] {
				log.FromContext(ctx).Info("A node's profile is ignored", "node", n.Name, "profile", profile, "reason", err.Error())
			}
			continue
		}
		known[profile] = facts
	}
	r.ignored = ignored
	weight := func(profile string) int {
		if seated.Has(profile) {
			return 4*count[profile] + 1
		}
		return 2 * count[profile]
	}
	names := slices.SortedFunc(maps.Keys(known), func(a, b string) int { return cmp.Or(cmp.Compare(weight(b), weight(a)), cmp.Compare(a, b)) })
	haveNodes = sets.New(names...)
	for _, profile := range names[min(len(names), maxProfiles):] {
		delete(known, profile)
	}
	return known, haveNodes, nil
}

// profilesOf returns the profiles that have slices.
func profilesOf(existing []resourceapi.ResourceSlice) sets.Set[string] {
	out := sets.Set[string]{}
	for i := range existing {
		out.Insert(existing[i].Labels[v1alpha1.ProfileLabel])
	}
	return out
}

// keepUnused decides which profiles without nodes keep their slices: the maxUnused that nodes had last, for
// profileGrace.
func (r *profiles) keepUnused(profiles sets.Set[string]) {
	since := map[string]time.Time{}
	for profile := range profiles {
		first, known := r.unused[profile]
		if !known {
			first = r.now()
		}
		if r.now().Sub(first) < profileGrace {
			since[profile] = first
		}
	}
	names := slices.SortedFunc(maps.Keys(since), func(a, b string) int { return cmp.Or(since[b].Compare(since[a]), cmp.Compare(a, b)) })
	for _, profile := range names[min(len(names), maxUnused):] {
		delete(since, profile)
	}
	r.unused = since
}

// write creates and updates slices, and deletes those that are not wanted, unless nodes had their profiles a short time
// ago. It returns when to look again.
func (r *profiles) write(ctx context.Context, existing []resourceapi.ResourceSlice, wanted map[string]*resourceapi.ResourceSlice) (reconcile.Result, error) {
	var failed []error
	for i := range existing {
		s := &existing[i]
		want := wanted[s.Name]
		delete(wanted, s.Name)
		if _, keep := r.unused[s.Labels[v1alpha1.ProfileLabel]]; !keep {
			failed = append(failed, r.change(ctx, s, want))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		s := wanted[name]
		if err := r.Create(ctx, s); err != nil {
			failed = append(failed, fmt.Errorf("creating ResourceSlice %s: %w", name, err))
		} else if s.Spec.Devices[0].AllowMultipleAllocations == nil {
			return reconcile.Result{RequeueAfter: profileGrace}, r.refuse(ctx, append(existing, *s))
		}
	}
	next := reconcile.Result{}
	if len(r.unused) > 0 {
		next.RequeueAfter = profileGrace
	}
	return next, errors.Join(failed...)
}

// refuse deletes the slices of profiles, because the API server does not know shared devices: each claim would have a
// device of all nodes alone. Nodes then publish their networks themselves, with copies.
func (r *profiles) refuse(ctx context.Context, all []resourceapi.ResourceSlice) error {
	r.refused = r.now()
	log.FromContext(ctx).Info("The API server knows no shared devices (DRAConsumableCapacity); nodes publish their networks themselves", "retryAfter", profileGrace)
	var failed []error
	for i := range all {
		failed = append(failed, r.change(ctx, &all[i], nil))
	}
	return errors.Join(failed...)
}

// change turns an existing slice into the wanted one, and deletes it if none is wanted.
func (r *profiles) change(ctx context.Context, s, want *resourceapi.ResourceSlice) error {
	if want == nil {
		if err := r.Delete(ctx, s, client.Preconditions(*kube.Exactly(s))); err != nil {
			return ignoreStale(fmt.Errorf("deleting ResourceSlice %s: %w", s.Name, err))
		}
		return nil
	}
	want.Spec.Pool.Generation = s.Spec.Pool.Generation
	if equality.Semantic.DeepEqual(s.Spec, want.Spec) && s.Annotations[v1alpha1.OfferHashAnnotation] == want.Annotations[v1alpha1.OfferHashAnnotation] &&
		s.Labels[v1alpha1.ProfileLabel] == want.Labels[v1alpha1.ProfileLabel] &&
		equality.Semantic.DeepEqual(s.OwnerReferences, want.OwnerReferences) {
		return nil
	}
	changed := s.DeepCopy()
	changed.Spec, changed.Labels, changed.Annotations, changed.OwnerReferences = want.Spec, want.Labels, want.Annotations, want.OwnerReferences
	changed.Spec.Pool.Generation++
	if err := r.Update(ctx, changed); err != nil {
		return ignoreStale(fmt.Errorf("updating ResourceSlice %s: %w", s.Name, err))
	}
	return nil
}
