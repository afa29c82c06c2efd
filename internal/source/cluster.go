package source

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

	"github.com/nadra-dev/nadra/pkg/translate"
)

// Cluster reads what the rules look at from a live cluster.
type Cluster struct {
	Discovery discovery.DiscoveryInterface
	Dynamic   dynamic.Interface
	// Name is the context's, for people.
	Name string
	// Namespace is the one to read workloads of; empty means all.
	Namespace string
	// Selector selects workloads by label.
	Selector string
	// Templates are kinds with pods that the user has named.
	Templates []translate.TemplatePath
	// Progress is told how many objects have been read so far.
	Progress func(objects int)
}

// pageSize is how many objects a request asks for, as kubectl does.
const pageSize = 500

// Read reads all of it. Networks and classes are those of the whole cluster,
// as a workload may refer to those of other namespaces; a workload is one file,
// whose name is that of its resource.
func (c Cluster) Read(ctx context.Context) (*Set, error) {
	resources, err := c.resources()
	if err != nil {
		return nil, err
	}
	set := &Set{Description: "cluster " + c.Name, Live: true}
	if c.Namespace != "" {
		set.Description += ", namespace " + c.Namespace
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

// Context reads only what workloads refer to, of the whole cluster.
func (c Cluster) Context(ctx context.Context) ([]translate.File, error) {
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

// resource is a kind as this cluster serves it.
type resource struct {
	schema.GroupVersionResource
	kind translate.GroupKind
	// pods says that the kind has pods, and so the namespace counts.
	pods bool
}

// resources finds those of the kinds that the cluster serves, in the order of
// translate.Kinds.
func (c Cluster) resources() ([]resource, error) {
	lists, err := c.Discovery.ServerPreferredResources()
	var partly *discovery.ErrGroupDiscoveryFailed
	if err != nil && !errors.As(err, &partly) {
		return nil, fmt.Errorf("asking the cluster for its kinds: %w", err)
	}
	kinds, workloads := translate.Kinds(c.Templates), translate.WorkloadKinds(c.Templates)
	var out []resource
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, fmt.Errorf("asking the cluster for its kinds: %w", err)
		}
		for _, r := range list.APIResources {
			kind := translate.GroupKind{Group: version.Group, Kind: r.Kind}
			if slices.Contains(kinds, kind) && slices.Contains(r.Verbs, "list") {
				out = append(out, resource{version.WithResource(r.Name), kind, slices.Contains(workloads, kind)})
			}
		}
	}
	if partly != nil {
		// An aggregated API that is down is no reason to stop, unless it is
		// one that matters.
		for group, cause := range partly.Groups {
			if slices.ContainsFunc(kinds, func(k translate.GroupKind) bool { return k.Group == group.Group }) {
				return nil, fmt.Errorf("asking the cluster for its kinds of %s: %w", group, cause)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b resource) int { return slices.Index(kinds, a.kind) - slices.Index(kinds, b.kind) })
	return out, nil
}

func (c Cluster) list(ctx context.Context, r resource, before int) ([]File, error) {
	var files []File
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
func (c Cluster) each(ctx context.Context, r resource, f func(*unstructured.Unstructured) error) error {
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
			return fmt.Errorf("listing %s: the list took longer than the cluster keeps it: try again: %w", r.Resource, err)
		case apierrors.IsForbidden(err):
			return fmt.Errorf("listing %s: %w: a scan reads %s, and needs the right to get and list them", r.Resource, err, r.Resource)
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

// isOver reports whether a pod has ended: it has no networks any more, and
// never will.
func isOver(o *unstructured.Unstructured) bool {
	phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
	return o.GetKind() == "Pod" && (phase == "Succeeded" || phase == "Failed")
}

// lastApplied is what `kubectl apply` remembers. It has the whole object once
// more, as it was before the conversion.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// clean removes what the API server writes for itself, so that the rest can be
// applied.
func clean(o *unstructured.Unstructured) {
	delete(o.Object, "status")
	for _, field := range []string{"managedFields", "resourceVersion", "uid", "creationTimestamp", "generation", "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(o.Object, "metadata", "annotations", lastApplied)
	if annotations, found, _ := unstructured.NestedMap(o.Object, "metadata", "annotations"); found && len(annotations) == 0 {
		unstructured.RemoveNestedField(o.Object, "metadata", "annotations")
	}
}

// Some reads only objects that find finds in a namespace, and the context that
// they need.
func (c Cluster) Some(ctx context.Context, find func(namespace string) *resourcecli.Result) (*Set, error) {
	infos, err := find(c.Namespace).Infos()
	if err != nil {
		return nil, fmt.Errorf("reading the cluster: %w", err)
	}
	set := &Set{Description: "cluster " + c.Name, Live: true}
	if set.Context, err = c.Context(ctx); err != nil {
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

// fileOf is an object as a manifest, whose name is that of its resource.
func fileOf(r schema.GroupResource, o *unstructured.Unstructured) (File, error) {
	clean(o)
	parts := slices.DeleteFunc([]string{r.String(), o.GetNamespace(), o.GetName()}, func(s string) bool { return s == "" })
	name := strings.Join(parts, "/")
	text, err := yaml.Marshal(o.Object)
	if err != nil {
		return File{}, fmt.Errorf("reading %s: %w", name, err)
	}
	return File{File: translate.File{Name: name, Data: text}, Rel: name + ".yaml"}, nil
}
