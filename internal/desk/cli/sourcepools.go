package cli

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/pools"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// nodePools has the resource pools of a cluster's nodes.
type nodePools struct {
	// published has the drivers that publish devices of each pool.
	published map[string][]string
	// allocatable has the nodes with each resource of device plugins.
	allocatable map[string][]string
}

// facts returns which drivers and device plugins serve a pool.
func (p *nodePools) facts(pool string) translate.PoolFacts {
	return translate.AllocatedBy(pool, v1alpha1.DriverName, p.published, p.allocatable)
}

// drawFromPools reports whether a manifest may have a network that uses a resource pool.
// Otherwise the pools need not be read.
func drawFromPools(files []translate.File) bool {
	return slices.ContainsFunc(files, func(f translate.File) bool {
		return bytes.Contains(f.Data, []byte(attachment.ResourceNameAnnotation)) || bytes.Contains(f.Data, []byte("resourceName:"))
	})
}

// poolNamespace is the default namespace of the device plugins' ConfigMaps.
const poolNamespace = "kube-system"

// pools reads the resource pools of the nodes.
func (c clusterSource) pools(ctx context.Context) (*nodePools, error) {
	out := &nodePools{published: map[string][]string{}, allocatable: map[string][]string{}}
	err := eachOf(ctx, c, resourceapi.SchemeGroupVersion.WithResource("resourceslices"), "ResourceSlice",
		func(s *resourceapi.ResourceSlice) { attachment.AddPools(out.published, s) })
	if err != nil && !apierrors.IsNotFound(err) { // a cluster without resource.k8s.io/v1 has none
		return nil, err
	}
	return out, c.eachNode(ctx, func(n *corev1.Node) {
		for name, quantity := range n.Status.Allocatable {
			if !quantity.IsZero() {
				out.allocatable[string(name)] = append(out.allocatable[string(name)], n.Name)
			}
		}
	})
}

// eachOf calls do for all objects of a kind.
func eachOf[T any](ctx context.Context, c clusterSource, r schema.GroupVersionResource, kind string, do func(*T)) error {
	return c.each(ctx, listedKind{GroupVersionResource: r, kind: translate.GroupKind{Group: r.Group, Kind: kind}},
		func(o *unstructured.Unstructured) error {
			one := new(T)
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, one); err != nil {
				return fmt.Errorf("reading %s %s: %w", kind, o.GetName(), err)
			}
			do(one)
			return nil
		})
}

// eachNode calls do for all nodes.
func (c clusterSource) eachNode(ctx context.Context, do func(*corev1.Node)) error {
	return eachOf(ctx, c, corev1.SchemeGroupVersion.WithResource("nodes"), "Node", do)
}

// haveRoutes reports whether a manifest may have a network with routes. Otherwise the ranges need not be read.
func haveRoutes(files []translate.File) bool {
	return slices.ContainsFunc(files, func(f translate.File) bool { return bytes.Contains(f.Data, []byte("routes")) })
}

// ranges reads addresses of the cluster's services, pods and nodes, as far as the user may read them.
func (c clusterSource) ranges(ctx context.Context) ([]translate.ClusterRange, error) {
	var out []translate.ClusterRange
	add := func(text, of string) {
		if r, found := translate.RangeOf(text, of); found {
			out = append(out, r)
		}
	}
	service, err := c.Dynamic.Resource(corev1.SchemeGroupVersion.WithResource("services")).
		Namespace("default").Get(ctx, "kubernetes", metav1.GetOptions{})
	switch {
	case err == nil:
		ips, _, _ := unstructured.NestedStringSlice(service.Object, "spec", "clusterIPs")
		for _, ip := range ips {
			add(ip, "services")
		}
	case !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("reading Service default/kubernetes: %w", err)
	}
	err = c.eachNode(ctx, func(n *corev1.Node) {
		for _, a := range n.Status.Addresses {
			if a.Type == corev1.NodeInternalIP {
				add(a.Address, "nodes")
			}
		}
		for _, podRange := range n.Spec.PodCIDRs {
			add(podRange, "pods")
		}
	})
	if apierrors.IsForbidden(err) {
		err = nil
	}
	return out, err
}

// poolSources reads the objects that define resource pools.
func (c clusterSource) poolSources(ctx context.Context) ([]translate.File, error) {
	var out []translate.File
	add := func(r schema.GroupResource, o *unstructured.Unstructured) error {
		file, err := fileOf(r, o)
		out = append(out, file.File)
		return err
	}
	configMaps := corev1.SchemeGroupVersion.WithResource("configmaps")
	for _, name := range translate.PoolConfigMaps() {
		o, err := c.Dynamic.Resource(configMaps).Namespace(poolNamespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return nil, fmt.Errorf("reading ConfigMap %s/%s, which may define resource pools: %w", poolNamespace, name, err)
		}
		if err := add(configMaps.GroupResource(), o); err != nil {
			return nil, err
		}
	}
	policies := pools.PolicyResource
	err := c.each(ctx, listedKind{GroupVersionResource: policies, kind: translate.GroupKind{Group: policies.Group, Kind: pools.PolicyKind}},
		func(o *unstructured.Unstructured) error {
			return add(policies.GroupResource(), o)
		})
	if apierrors.IsNotFound(err) { // most clusters have no such kind
		err = nil
	}
	return out, err
}
