package inspect

import (
	"context"
	"fmt"
	"slices"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	nadinformers "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/client/informers/externalversions"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// debounce is the time for which changes are collected: a pod's objects change together.
const debounce = 100 * time.Millisecond

// Watch calls report with the input, and again after each change, until ctx ends or report
// fails. It returns nil at the end of ctx.
func (c Cluster) Watch(ctx context.Context, report func(Input) error) error {
	first, err := c.Read(ctx) // finds out what may be read
	if err != nil {
		return err
	}
	v := c.newView(first)
	if err := v.start(ctx); err != nil {
		return err
	}
	for v.synced(ctx) {
		if err := report(v.input()); err != nil {
			return err
		}
		v.wait(ctx)
	}
	return nil
}

// view is a copy of the cluster that informers keep current.
type view struct {
	// first is the input at the beginning. What it lacks is not watched.
	first    Input
	watched  []watched
	changed  chan struct{} // of capacity 1
	networks nadinformers.SharedInformerFactory
	rest     informers.SharedInformerFactory
}

// watched is the informer of a kind. add adds its objects to the input.
type watched struct {
	cache.SharedIndexInformer
	add func(*Input, any)
}

// newView returns a view of all kinds that may be read, and that the cluster serves.
func (c Cluster) newView(first Input) *view {
	v := &view{
		first: first, changed: make(chan struct{}, 1),
		networks: nadinformers.NewSharedInformerFactory(c.NADs, 0),
		rest:     informers.NewSharedInformerFactoryWithOptions(c.Kube, 0, informers.WithNamespace(c.Namespace)),
	}
	resources := v.rest.Resource().V1()
	watch(v, "", v.rest.Core().V1().Pods().Informer, func(in *Input) *[]*corev1.Pod { return &in.Pods })
	watch(v, Claims, resources.ResourceClaims().Informer, func(in *Input) *[]*resourceapi.ResourceClaim { return &in.Claims })
	watch(v, Templates, resources.ResourceClaimTemplates().Informer, func(in *Input) *[]*resourceapi.ResourceClaimTemplate { return &in.Templates })
	watch(v, Slices, resources.ResourceSlices().Informer, func(in *Input) *[]*resourceapi.ResourceSlice { return &in.Slices })
	watch(v, Classes, resources.DeviceClasses().Informer, func(in *Input) *[]*resourceapi.DeviceClass { return &in.Classes })
	watch(v, Networks, v.networks.K8sCniCncfIo().V1().NetworkAttachmentDefinitions().Informer,
		func(in *Input) *[]*nadv1.NetworkAttachmentDefinition { return &in.Networks })
	return v
}

// watch adds a kind, unless it may not or cannot be read: informer would list it again and again, and the first report would
// wait for it. list returns its part of an input.
func watch[T any](v *view, kind Kind, informer func() cache.SharedIndexInformer, list func(*Input) *[]*T) {
	if !v.first.Unread[kind] && !slices.Contains(v.first.unserved, kind) {
		v.watched = append(v.watched, watched{informer(), func(in *Input, o any) { *list(in) = append(*list(in), o.(*T)) }})
	}
}

// start starts the informers.
func (v *view) start(ctx context.Context) error {
	notify := func() {
		select {
		case v.changed <- struct{}{}:
		default:
		}
	}
	for _, w := range v.watched {
		_, err := w.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { notify() }, UpdateFunc: func(any, any) { notify() }, DeleteFunc: func(any) { notify() },
		})
		if err != nil {
			return fmt.Errorf("watching the cluster: %w", err)
		}
	}
	v.rest.Start(ctx.Done())
	v.networks.Start(ctx.Done())
	return nil
}

// synced waits until all kinds have been listed. It returns false at the end of ctx.
func (v *view) synced(ctx context.Context) bool {
	var synced []cache.InformerSynced
	for _, w := range v.watched {
		synced = append(synced, w.HasSynced)
	}
	return cache.WaitForCacheSync(ctx.Done(), synced...) && ctx.Err() == nil // the first is also true after the end of ctx
}

// wait waits for a change, and for others that follow it.
func (v *view) wait(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-v.changed:
	}
	select {
	case <-ctx.Done():
	case <-time.After(debounce):
	}
}

// input returns the current input.
func (v *view) input() Input {
	in := Input{Unread: v.first.Unread}
	for _, w := range v.watched {
		for _, o := range w.GetStore().List() {
			w.add(&in, o)
		}
	}
	return in
}
