package driver

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/driver/internal/background"
)

// UnclaimedPolicy is what happens on a node of nadra's to new pods that name networks by
// annotation and have no claim.
type UnclaimedPolicy string

// The policies.
const (
	// AllowUnclaimed lets them run. nadra attaches nothing; another program may.
	AllowUnclaimed UnclaimedPolicy = "allow"
	// RefuseUnclaimed refuses their sandboxes.
	RefuseUnclaimed UnclaimedPolicy = "refuse"
	// AttachUnclaimed attaches the networks by the annotation, as Multus does. The scheduler
	// does not know of them.
	AttachUnclaimed UnclaimedPolicy = "attach"
)

// UnclaimedPolicies has all policies.
var UnclaimedPolicies = []UnclaimedPolicy{AttachUnclaimed, RefuseUnclaimed, AllowUnclaimed}

// exempts reports whether an administrator has exempted the pod.
func (o Ownership) exempts(pod string) bool {
	return slices.ContainsFunc(o.Exempt, func(pattern string) bool {
		matches, err := path.Match(pattern, pod)
		return err == nil && matches
	})
}

var namespaceResource = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

// namespacePolicies watches the namespaces that have a policy of their own, and no others.
type namespacePolicies struct {
	// node counts for all other namespaces.
	node UnclaimedPolicy
	// labelled has the namespaces with the label of a policy, and claimless those whose pods get no claims
	// from the webhook. Where the node attaches all pods without a claim, claimless is nil.
	labelled, claimless cache.SharedIndexInformer
}

// newNamespacePolicies returns watches that have not started. Empty means AllowUnclaimed.
func newNamespacePolicies(client metadata.Interface, node UnclaimedPolicy) *namespacePolicies {
	watch := func(selector string) cache.SharedIndexInformer {
		return metadatainformer.NewFilteredMetadataInformer(client, namespaceResource, metav1.NamespaceAll, 0, cache.Indexers{},
			func(o *metav1.ListOptions) { o.LabelSelector = selector }).Informer()
	}
	p := &namespacePolicies{node: cmp.Or(node, AllowUnclaimed), labelled: watch(v1alpha1.UnclaimedLabel)}
	if p.node != AttachUnclaimed {
		p.claimless = watch(v1alpha1.ClaimsLabel + "=" + v1alpha1.ClaimsNever)
	}
	return p
}

// run watches until ctx ends. It calls changed after policies were read or have changed: a sandbox may have begun
// before its namespace's policy was known.
func (p *namespacePolicies) run(ctx context.Context, changed func()) error {
	trigger := background.NewTrigger()

	var watches sync.WaitGroup
	defer watches.Wait()
	for _, informer := range []cache.SharedIndexInformer{p.labelled, p.claimless} {
		if informer == nil {
			continue
		}
		if _, err := informer.AddEventHandler(background.OnChange(trigger.Set)); err != nil {
			return fmt.Errorf("watching namespaces: %w", err)
		}
		watches.Go(func() { informer.RunWithContext(ctx) })
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-trigger.C():
			changed()
		}
	}
}

// wait returns when the namespaces were read, or after ownerWait: until then the node's policy counts for all pods,
// and some would start without networks that their namespace's policy gives or demands.
func (p *namespacePolicies) wait(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, ownerWait)
	defer cancel()
	read := func() bool { return p.labelled.HasSynced() && (p.claimless == nil || p.claimless.HasSynced()) }
	if !cache.WaitForCacheSync(limited.Done(), read) && ctx.Err() == nil {
		klog.FromContext(ctx).Error(nil, "The namespaces' policies could not be read yet, and the node's counts: check that the driver may list and watch namespaces", "timeout", ownerWait)
	}
}

// of returns the policy of a namespace's pods: that of its label; AttachUnclaimed if the webhook gives them no
// claims; or otherwise the node's. A label with another value, and a namespace that is not known yet, do not count.
func (p *namespacePolicies) of(namespace string) UnclaimedPolicy {
	obj, found, err := p.labelled.GetStore().GetByKey(namespace)
	if m := metaOf(obj); err == nil && found && m != nil {
		if policy := UnclaimedPolicy(m.Labels[v1alpha1.UnclaimedLabel]); slices.Contains(UnclaimedPolicies, policy) {
			return policy
		}
	}
	if p.claimless != nil {
		if _, found, err := p.claimless.GetStore().GetByKey(namespace); err == nil && found {
			return AttachUnclaimed
		}
	}
	return p.node
}
