package translate

import (
	"slices"
	"testing"
)

// TestTemplateForNoPlace checks that a workload stays as it is if one of its kustomizations has its template from another
// file, and another one has not.
func TestTemplateForNoPlace(t *testing.T) {
	pod := func(name string) []byte {
		return []byte("apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + ", namespace: shop, annotations: {k8s.v1.cni.cncf.io/networks: n1}}\nspec: {containers: [{name: c}]}\n")
	}
	got := Convert(Input{Files: []File{
		{"x/pod.yaml", pod("x")},
		{"y/pod.yaml", pod("y")},
		{"only-x/kustomization.yaml", []byte("resources: [../x/pod.yaml]")},
		{"both/kustomization.yaml", []byte("resources: [../x/pod.yaml, ../y/pod.yaml]")},
		{"only-y/kustomization.yaml", []byte("resources: [../y/pod.yaml]")},
	}})
	if len(got.Created) != 1 || !slices.Equal(got.Created[0].For, []string{"x/pod.yaml"}) {
		t.Errorf("created %v", got.Created)
	}
	if x, y := got.Workloads[0], got.Workloads[1]; !x.Changed || y.Changed || !slices.Contains(y.Codes, KustomizationAlters) {
		t.Errorf("got %v and %v", x, y)
	}
}
