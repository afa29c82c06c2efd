package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	resourcecli "k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/nadra-dev/nadra/internal/desk/inspect"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// clusterSource reads the objects that the rules of translate need from a live cluster.
type clusterSource struct {
	Discovery discovery.DiscoveryInterface
	Dynamic   dynamic.Interface
	// Name names the cluster for people: its context.
	Name string
	// Namespace is the namespace of workloads. Empty means all.
	Namespace string
	// Selector selects workloads by label.
	Selector string
	// Templates are the kinds with pod templates that the user has named.
	Templates []translate.TemplatePath
	// Progress, unless nil, is called with the number of objects that are read so far.
	Progress func(objects int)
}

// pageSize limits the objects of a request, as kubectl does.
const pageSize = 500

// read reads workloads, networks and classes. Networks and classes are those of the whole
// cluster, because workloads refer to other namespaces. Each object is a file with the name
// of its resource.
func (c clusterSource) read(ctx context.Context) (*manifestSet, error) {
	resources, err := c.resources()
	if err != nil {
		return nil, err
	}
	set := &manifestSet{Description: "cluster " + c.Name, Live: true}
	if c.Namespace != "" {
		set.Description += ", namespace " + c.Namespace + " and all networks"
	}
	for _, r := range resources {
		files, err := c.list(ctx, r, len(set.Files))
		if err != nil {
			return nil, err
		}
		set.Files = append(set.Files, files...)
	}
	set.Options.AllNetworks = true
	return set, nil
}

// readContext reads only the objects of the whole cluster to which workloads refer.
func (c clusterSource) readContext(ctx context.Context) ([]translate.File, error) {
	resources, err := c.resources()
	if err != nil {
		return nil, err
	}
	var out []translate.File
	for _, r := range resources {
		if !slices.Contains(translate.ContextKinds(), r.kind) {
			continue
		}
		files, err := c.list(ctx, r, len(out))
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			out = append(out, f.File)
		}
	}
	return out, nil
}

// listedKind is a kind with its resource in this cluster.
type listedKind struct {
	schema.GroupVersionResource
	kind translate.GroupKind
	// pods: the kind has pods, so namespace and selector apply.
	pods bool
}

// resources returns the kinds that the cluster serves, in the order of translate.Kinds.
func (c clusterSource) resources() ([]listedKind, error) {
	lists, err := c.Discovery.ServerPreferredResources()
	var partly *discovery.ErrGroupDiscoveryFailed
	if err != nil && !errors.As(err, &partly) {
		return nil, fmt.Errorf("asking the cluster for its kinds (GET /api and /apis): %w", err)
	}
	kinds, workloads := translate.Kinds(c.Templates), translate.WorkloadKinds(c.Templates)
	var out []listedKind
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, fmt.Errorf("asking the cluster for its kinds: %w", err)
		}
		for _, r := range list.APIResources {
			kind := translate.GroupKind{Group: version.Group, Kind: r.Kind}
			if slices.Contains(kinds, kind) && slices.Contains(r.Verbs, "list") {
				out = append(out, listedKind{version.WithResource(r.Name), kind, slices.Contains(workloads, kind)})
			}
		}
	}
	if partly != nil {
		// An aggregated API that is down does not matter, unless it has one of
		// the kinds.
		for group, cause := range partly.Groups {
			if slices.ContainsFunc(kinds, func(k translate.GroupKind) bool { return k.Group == group.Group }) {
				return nil, fmt.Errorf("asking the cluster for its kinds of %s: %w", group, cause)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b listedKind) int { return slices.Index(kinds, a.kind) - slices.Index(kinds, b.kind) })
	return out, nil
}

// list reads the objects of a resource. before counts the objects that are read already.
func (c clusterSource) list(ctx context.Context, r listedKind, before int) ([]manifest, error) {
	var files []manifest
	err := c.each(ctx, r, func(o *unstructured.Unstructured) error {
		if isOver(o) {
			return nil
		}
		file, err := fileOf(r.GroupResource(), o)
		if err != nil {
			return err
		}
		files = append(files, file)
		if c.Progress != nil {
			c.Progress(before + len(files))
		}
		return nil
	})
	return files, err
}

// each calls f for all objects of a resource, page by page.
func (c clusterSource) each(ctx context.Context, r listedKind, f func(*unstructured.Unstructured) error) error {
	var client dynamic.ResourceInterface = c.Dynamic.Resource(r.GroupVersionResource)
	options := metav1.ListOptions{Limit: pageSize}
	if r.pods {
		options.LabelSelector = c.Selector
		if c.Namespace != "" {
			client = c.Dynamic.Resource(r.GroupVersionResource).Namespace(c.Namespace)
		}
	}
	for {
		page, err := client.List(ctx, options)
		switch {
		case apierrors.IsResourceExpired(err) && options.Continue != "":
			return fmt.Errorf("listing %s: the list took longer than the API server keeps it: try again: %w", r.Resource, err)
		case apierrors.IsForbidden(err):
			return fmt.Errorf("listing %s: %w: a scan needs the right to get and list %s", r.Resource, err, r.Resource)
		case err != nil:
			return fmt.Errorf("listing %s: %w", r.Resource, err)
		}
		for i := range page.Items {
			page.Items[i].SetGroupVersionKind(schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.kind.Kind})
			if err := f(&page.Items[i]); err != nil {
				return err
			}
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return nil
		}
	}
}

// isOver reports whether a pod has ended, and so has no networks.
func isOver(o *unstructured.Unstructured) bool {
	phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
	return o.GetKind() == "Pod" && (phase == "Succeeded" || phase == "Failed")
}

// lastApplied is the annotation in which `kubectl apply` keeps the whole object, as it was
// before the conversion.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// clean removes the fields that the API server and the scheduler write, so that the rest can be applied.
func clean(o *unstructured.Unstructured) {
	delete(o.Object, "status")
	if o.GetKind() == "Pod" && !inspect.NamesNode(o) {
		unstructured.RemoveNestedField(o.Object, "spec", "nodeName")
	}
	for _, field := range []string{"managedFields", "resourceVersion", "uid", "creationTimestamp", "generation", "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(o.Object, "metadata", "annotations", lastApplied)
	if annotations, found, _ := unstructured.NestedMap(o.Object, "metadata", "annotations"); found && len(annotations) == 0 {
		unstructured.RemoveNestedField(o.Object, "metadata", "annotations")
	}
}

// some reads only the objects that find returns for the namespace, and their context.
func (c clusterSource) some(ctx context.Context, find func(namespace string) *resourcecli.Result) (*manifestSet, error) {
	infos, err := find(c.Namespace).Infos()
	if err != nil {
		return nil, fmt.Errorf("reading the cluster, its kinds (GET /api and /apis) first: %w", err)
	}
	set := &manifestSet{Description: "cluster " + c.Name, Live: true}
	if set.Context, err = c.readContext(ctx); err != nil {
		return nil, err
	}
	set.Options.AllNetworks = true
	for _, info := range infos {
		o, ok := info.Object.(*unstructured.Unstructured)
		if !ok {
			return nil, fmt.Errorf("reading the cluster: %s is of type %T", info.Name, info.Object)
		}
		file, err := fileOf(info.Mapping.Resource.GroupResource(), o)
		if err != nil {
			return nil, err
		}
		set.Files = append(set.Files, file)
	}
	return set, nil
}

// fileOf returns an object as a manifest with the name of its resource.
func fileOf(r schema.GroupResource, o *unstructured.Unstructured) (manifest, error) {
	clean(o)
	parts := slices.DeleteFunc([]string{r.String(), o.GetNamespace(), o.GetName()}, func(s string) bool { return s == "" })
	name := strings.Join(parts, "/")
	text, err := yaml.Marshal(o.Object)
	if err != nil {
		return manifest{}, fmt.Errorf("reading %s: %w", name, err)
	}
	return manifest{File: translate.File{Name: name, Data: text}, Rel: name + ".yaml"}, nil
}
