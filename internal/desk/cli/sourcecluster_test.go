package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	fakediscovery "k8s.io/client-go/discovery/fake"
	fakedynamic "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
)

// served is a cluster that serves pods, Deployments and networks, and what
// nobody asks for.
type served struct {
	*fakediscovery.FakeDiscovery
	err error
}

func (s served) ServerPreferredResources() ([]*metav1.APIResourceList, error) {
	list := []string{"get", "list"}
	return []*metav1.APIResourceList{
		{GroupVersion: "v1", APIResources: []metav1.APIResource{
			{Name: "pods", Kind: "Pod", Namespaced: true, Verbs: list},
			{Name: "secrets", Kind: "Secret", Namespaced: true, Verbs: list},
		}},
		{GroupVersion: "apps/v1", APIResources: []metav1.APIResource{{Name: "deployments", Kind: "Deployment", Namespaced: true, Verbs: list}}},
		{GroupVersion: "k8s.cni.cncf.io/v1", APIResources: []metav1.APIResource{
			{Name: "network-attachment-definitions", Kind: "NetworkAttachmentDefinition", Namespaced: true, Verbs: list},
		}},
	}, s.err
}

func object(apiVersion, kind, namespace, name string, more map[string]any) *unstructured.Unstructured {
	tree := map[string]any{
		"apiVersion": apiVersion, "kind": kind,
		"metadata": map[string]any{
			"namespace": namespace, "name": name, "uid": "u", "resourceVersion": "7",
			"annotations": map[string]any{lastApplied: "{}"},
		},
		"status": map[string]any{"phase": "Running"},
	}
	for key, value := range more {
		tree[key] = value
	}
	return &unstructured.Unstructured{Object: tree}
}

func world(err error) (clusterSource, *fakedynamic.FakeDynamicClient) {
	kinds := map[schema.GroupVersionResource]string{
		{Version: "v1", Resource: "pods"}:                                                     "PodList",
		{Group: "apps", Version: "v1", Resource: "deployments"}:                               "DeploymentList",
		{Group: "k8s.cni.cncf.io", Version: "v1", Resource: "network-attachment-definitions"}: "NetworkAttachmentDefinitionList",
	}
	client := fakedynamic.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds,
		object("v1", "Pod", "shop", "web", nil),
		object("v1", "Pod", "other", "web", nil),
		object("v1", "Pod", "shop", "done", map[string]any{"status": map[string]any{"phase": "Succeeded"}}),
		object("apps/v1", "Deployment", "shop", "web", nil),
	)
	// Its plural is not what the fake would guess.
	networks := schema.GroupVersionResource{Group: "k8s.cni.cncf.io", Version: "v1", Resource: "network-attachment-definitions"}
	if err := client.Tracker().Create(networks, object("k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition", "nets", "blue", nil), "nets"); err != nil {
		panic(err)
	}
	return clusterSource{Discovery: served{err: err}, Dynamic: client, Name: "here"}, client
}

func names(files []manifest) []string {
	var out []string
	for _, f := range files {
		out = append(out, f.Name)
	}
	slices.Sort(out)
	return out
}

func TestClusterIsRead(t *testing.T) {
	c, _ := world(nil)
	c.Namespace = "shop"
	set, err := c.read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// Networks are those of all namespaces; pods that are over use none.
	want := []string{"deployments.apps/shop/web", "network-attachment-definitions.k8s.cni.cncf.io/nets/blue", "pods/shop/web"}
	if got := names(set.Files); !slices.Equal(got, want) {
		t.Errorf("files %v, want %v", got, want)
	}
	if !set.Live || set.fileCount() != 0 || !set.Options.AllNetworks || set.Description != "cluster here, namespace shop and all networks" {
		t.Errorf("set %+v", set)
	}
	for _, f := range set.Files {
		for _, gone := range []string{"status:", "uid:", "resourceVersion:", "annotations:"} {
			if strings.Contains(string(f.Data), gone) {
				t.Errorf("%s has %s:\n%s", f.Name, gone, f.Data)
			}
		}
	}
}

func TestContextIsNoWorkload(t *testing.T) {
	c, _ := world(nil)
	files, err := c.readContext(t.Context())
	if err != nil || len(files) != 1 || files[0].Name != "network-attachment-definitions.k8s.cni.cncf.io/nets/blue" {
		t.Errorf("context %v, %v", files, err)
	}
}

// TestClusterIsReadInPages checks that all pages are read with the same selector.
func TestClusterIsReadInPages(t *testing.T) {
	c, client := world(nil)
	c.Selector, c.Namespace = "app=web", "shop"
	asked := 0
	client.PrependReactor("list", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		asked++
		list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "PodList"}}
		pod := object("v1", "Pod", "shop", fmt.Sprintf("web-%d", asked), nil)
		pod.SetLabels(map[string]string{"app": "web"}) // by which the fake selects
		list.Items = []unstructured.Unstructured{*pod}
		if asked < 3 {
			list.SetContinue("more")
		}
		if got := action.(clienttesting.ListActionImpl).ListOptions; got.LabelSelector != "app=web" {
			t.Errorf("page %d is asked for with %+v", asked, got)
		}
		return true, list, nil
	})
	progress := 0
	c.Progress = func(n int) { progress = n }
	set, err := c.read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pods := slices.DeleteFunc(names(set.Files), func(name string) bool { return !strings.HasPrefix(name, "pods/") })
	if asked != 3 || len(pods) != 3 || progress != len(set.Files) {
		t.Errorf("%d pages, pods %v, progress %d of %d", asked, pods, progress, len(set.Files))
	}
}

func TestClusterCannotBeRead(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no right"))
	down := func(group string) error {
		return &discovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{{Group: group, Version: "v1"}: errors.New("is down")}}
	}
	tests := map[string]struct {
		discovery, list error
		want            string // empty: it can
	}{
		"a right is missing":                  {nil, forbidden, "get and list pods"},
		"an API that does not matter is down": {down("metrics.k8s.io"), nil, ""},
		"an API that matters is down":         {down("apps"), nil, "apps/v1: is down"},
		"no answer":                           {errors.New("refused"), nil, "refused"},
		"the list is gone before it is read":  {nil, apierrors.NewInternalError(errors.New("storage")), "pods"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c, client := world(test.discovery)
			if test.list != nil {
				client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, test.list })
			}
			_, err := c.read(context.Background())
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

// TestRanges reads the addresses of services, pods and nodes, and leaves out what the user may not read.
func TestRanges(t *testing.T) {
	service := object("v1", "Service", "default", "kubernetes", map[string]any{"spec": map[string]any{"clusterIPs": []any{"10.96.0.1", "fd00::1"}}})
	node := object("v1", "Node", "", "n1", map[string]any{
		"spec":   map[string]any{"podCIDRs": []any{"10.244.0.0/24"}},
		"status": map[string]any{"addresses": []any{map[string]any{"type": "Hostname", "address": "n1"}, map[string]any{"type": "InternalIP", "address": "192.0.2.7"}}},
	})
	client := fakedynamic.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		{Version: "v1", Resource: "nodes"}: "NodeList", {Version: "v1", Resource: "services"}: "ServiceList",
	}, service, node)
	read := func() string {
		t.Helper()
		ranges, err := clusterSource{Dynamic: client}.ranges(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(ranges)
	}
	const services = "{10.96.0.1/32 services} {fd00::1/128 services}"
	if got, want := read(), "["+services+" {192.0.2.7/32 nodes} {10.244.0.0/24 pods}]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	client.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", errors.New("no"))
	})
	if got, want := read(), "["+services+"]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestCleanNodeName checks that a pod of the cluster keeps the node that a client has named, and not the scheduler's.
func TestCleanNodeName(t *testing.T) {
	for fields, want := range map[string]string{
		`{"f:spec":{"f:containers":{},"f:nodeName":{}}}`: "node-1",
		`{"f:spec":{"f:containers":{}}}`:                 "",
		`{"f:metadata":{"f:labels":{"f:nodeName":{}}}}`:  "",
		`{`: "",
	} {
		pod := object("v1", "Pod", "shop", "web", map[string]any{"spec": map[string]any{"nodeName": "node-1"}})
		pod.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "kubelet"}, {Manager: "kubectl", FieldsV1: metav1.NewFieldsV1(fields)}})
		clean(pod)
		if got, _, _ := unstructured.NestedString(pod.Object, "spec", "nodeName"); got != want {
			t.Errorf("%s: node %q, want %q", fields, got, want)
		}
	}
}
