package webhook

import (
	"context"
	"errors"
	"slices"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nadra-dev/nadra/pkg/admission"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

const (
	// missingFor is how long a missing object is assumed not to exist, and maxMissing the number of
	// such objects: callers choose their names.
	missingFor = time.Second
	maxMissing = 10_000
	// maxMissed is the number of missing objects that one request may name. A template has room for the names of 256
	// classes.
	maxMissed = v1alpha1.MaxNetworks + 2*v1alpha1.MaxPodClaims
	// maxName is the length of the longest name that the API server admits. Pods are not validated yet.
	maxName = 253
)

// reader reads single objects.
type reader struct {
	cached, live client.Reader
	missing      *cache.LRUExpireCache
}

func newReader(cached, live client.Reader) *reader {
	return &reader{cached: cached, live: live, missing: cache.NewLRUExpireCache(maxMissing)}
}

// get reads an object from the cache, or from the API server if the cache does not have it. Errors
// name kind.
func (r *reader) get(ctx context.Context, kind, namespace, name string, into client.Object) (found bool, err error) {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	if err := r.cached.Get(ctx, key, into); !isMissing(err) {
		return err == nil, named(kind, key, err)
	}
	return r.getLive(ctx, kind, namespace, name, into)
}

// getLive reads an object from the API server.
func (r *reader) getLive(ctx context.Context, kind, namespace, name string, into client.Object) (found bool, err error) {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	if len(namespace) > maxName || len(name) > maxName {
		return false, nil
	}
	id := kind + " " + key.String()
	if _, missing := r.missing.Get(id); missing {
		return false, nil
	}
	if err := r.live.Get(ctx, key, into); !isMissing(err) {
		return err == nil, named(kind, key, err)
	}
	r.missing.Add(id, nil, missingFor)
	return false, nil
}

// isMissing reports whether an object does not exist. The cluster may not even know its kind.
func isMissing(err error) bool { return apierrors.IsNotFound(err) || meta.IsNoMatchError(err) }

// named adds the object's kind and name to an error, and its code.
func named(kind string, key types.NamespacedName, err error) error {
	if err == nil {
		return nil
	}
	name := key.Name
	if key.Namespace != "" {
		name = key.String()
	}
	code := reason.ObjectNotRead
	if kind == kindNamespace || kind == kindNode {
		code = reason.OwnerUnclear // only their labels are read
	}
	return reason.Errorf(code, "reading %s %s: %w", kind, name, err)
}

// The kinds whose labels decide whether nadra or Multus serves a pod.
const (
	kindNamespace = "Namespace"
	kindNode      = "Node"
)

// lookups reads objects for one request. The functions of pkg/admission take no errors, so the caller
// must check err before it uses the decision.
type lookups struct {
	ctx    context.Context
	reader *reader
	pools  *poolIndex
	// servers has the facts of the pools of this request.
	servers map[string]admission.PoolFacts
	// labelled has the labels of objects that this request has read, by kind and name.
	labelled map[string]map[string]string
	// missed has the objects that do not exist.
	missed map[string]bool
	err    error
}

// admission returns the lookups for pkg/admission.
func (l *lookups) admission() admission.Lookups {
	return admission.Lookups{
		Network: l.network, Template: l.template, RuntimeClass: l.runtimeClass, Claim: l.claim, Class: l.class,
		NamespaceLabels: func(name string) map[string]string { return l.labels(kindNamespace, name) },
		NodeLabels:      func(name string) map[string]string { return l.labels(kindNode, name) },
		PoolServer:      l.poolServer,
		MultusNodes:     l.multusNodes,
	}
}

// get reads an object. It reads nothing more when the request is over.
func (l *lookups) get(kind, namespace, name string, into client.Object) bool {
	return l.read(l.reader.get, kind, namespace, name, into)
}

func (l *lookups) read(get func(context.Context, string, string, string, client.Object) (bool, error), kind, namespace, name string, into client.Object) bool {
	if l.over(kind, name) {
		return false
	}
	found, err := get(l.ctx, kind, namespace, name, into)
	l.err = errors.Join(l.err, err)
	if !found {
		if l.missed == nil {
			l.missed = map[string]bool{}
		}
		l.missed[kind+" "+namespace+"/"+name] = true
	}
	return found
}

// over reports whether the caller of the webhook has left, or the request names too many missing objects.
func (l *lookups) over(kind, name string) bool {
	switch {
	case l.ctx.Err() != nil:
		l.err = reason.Errorf(reason.ObjectNotRead, "reading %s %s: %w", kind, name, context.Cause(l.ctx))
	case len(l.missed) >= maxMissed:
		l.err = v1alpha1.CheckSize("the pod, with its claims,", len(l.missed)+1, maxMissed, "references to missing objects", "correct the names of networks and DeviceClasses")
	default:
		return false
	}
	return true
}

// ifFound returns an object that a lookup has found, and otherwise nil.
func ifFound[T any](object *T, found bool) *T {
	if !found {
		return nil
	}
	return object
}

func (l *lookups) network(ref attachment.NetworkRef) *nadv1.NetworkAttachmentDefinition {
	nad := &nadv1.NetworkAttachmentDefinition{}
	return ifFound(nad, l.get("NetworkAttachmentDefinition", ref.Namespace, ref.Name, nad))
}

// template reads a template. It reads a template of a conversion from the cache alone: a missing one
// is created later. A handwritten template may have been created together with the pod.
func (l *lookups) template(namespace, name string) *resourceapi.ResourceClaimTemplate {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	t := &resourceapi.ResourceClaimTemplate{}
	if !admission.IsMadeTemplate(name) {
		return ifFound(t, l.get("ResourceClaimTemplate", namespace, name, t))
	}
	if l.over("ResourceClaimTemplate", name) {
		return nil
	}
	err := l.reader.cached.Get(l.ctx, key, t)
	if !isMissing(err) {
		l.err = errors.Join(l.err, named("ResourceClaimTemplate", key, err))
	}
	if err != nil || t.DeletionTimestamp != nil {
		return nil
	}
	return t
}

// claim reads a claim from the API server. Few pods name a claim, and the cache has none.
func (l *lookups) claim(namespace, name string) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{}
	return ifFound(c, l.read(l.reader.getLive, "ResourceClaim", namespace, name, c))
}

func (l *lookups) class(name string) *resourceapi.DeviceClass {
	c := &resourceapi.DeviceClass{}
	return ifFound(c, l.get("DeviceClass", "", name, c))
}

func (l *lookups) runtimeClass(name string) (handler string, found bool) {
	class := &nodev1.RuntimeClass{}
	found = l.get("RuntimeClass", "", name, class)
	return class.Handler, found
}

// poolServer returns what serves a pool. Only the first pool of a request waits for the facts.
func (l *lookups) poolServer(pool string) admission.PoolFacts {
	facts, asked := l.servers[pool]
	if asked {
		return facts
	}
	wait := poolsWait
	if l.servers == nil {
		l.servers = map[string]admission.PoolFacts{}
	} else {
		wait = 0
	}
	l.servers[pool] = l.pools.facts(l.ctx, pool, wait)
	return l.servers[pool]
}

// multusNodes reports whether the cache has a node that is not nadra's. It copies none of them.
func (l *lookups) multusNodes() bool {
	nodes := &metav1.PartialObjectMetadataList{}
	nodes.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
	if err := l.reader.cached.List(l.ctx, nodes, client.UnsafeDisableDeepCopy); err != nil {
		l.err = errors.Join(l.err, reason.Errorf(reason.OwnerUnclear, "listing nodes: %w", err))
	}
	return slices.ContainsFunc(nodes.Items, func(n metav1.PartialObjectMetadata) bool {
		return n.Labels[v1alpha1.OwnerLabel] != v1alpha1.OwnerNadra
	})
}

// labels returns the labels of a cluster-scoped object. It reads an object once for a request.
func (l *lookups) labels(kind, name string) map[string]string {
	key := kind + " " + name
	if labels, read := l.labelled[key]; read {
		return labels
	}
	m := metadataOf(kind)
	if !l.get(kind, "", name, m) {
		return nil
	}
	if l.labelled == nil {
		l.labelled = map[string]map[string]string{}
	}
	l.labelled[key] = m.Labels
	return m.Labels
}
