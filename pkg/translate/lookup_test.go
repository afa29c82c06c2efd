package translate

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
)

// TestLookupTemplate checks that an existing template is not created again, and that one with another
// content blocks.
func TestLookupTemplate(t *testing.T) {
	o := Options{Namespace: "shop", AllNetworks: true, Lookup: lookup("")}
	first, err := Pod([]byte(onePod), o)
	if err != nil || len(first.Templates) != 1 {
		t.Fatal(first, err)
	}
	there := first.Templates[0].DeepCopy()
	o.LookupTemplate = func(namespace, name string) *resourceapi.ResourceClaimTemplate {
		if namespace != there.Namespace || name != there.Name {
			return nil
		}
		return there
	}
	if second, err := Pod([]byte(onePod), o); err != nil || len(second.Templates) != 0 || len(second.Edits) != len(first.Edits) {
		t.Errorf("got %+v, %v", second, err)
	}
	pod := podHead + "spec: {containers: [{name: c}]}\n"
	if all := Convert(Input{Files: []File{{"p.yaml", []byte(pod)}}, Options: o}); len(all.Created) != 0 || !all.Workloads[0].Changed {
		t.Errorf("got %+v and %d objects", all.Workloads, len(all.Created))
	}
	there.Spec.Spec.Devices.Requests[0].Name = "other"
	third, err := Pod([]byte(onePod), o)
	if err != nil || readiness(third.Findings) != Stays || third.Edits != nil || third.Findings[0].Code != TemplateChanged {
		t.Errorf("got %+v, %v", third, err)
	}
}

// TestLookupTemplateOfConverted checks that a pod without the annotation gets the networks of its
// template in the cluster.
func TestLookupTemplateOfConverted(t *testing.T) {
	first, err := Pod([]byte(onePod), Options{Namespace: "shop", Lookup: lookup("")})
	if err != nil {
		t.Fatal(err)
	}
	pod := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}],
		"resourceClaims": [{"name": "nadra", "resourceClaimTemplateName": %q}]}}`, first.Templates[0].Name)
	for _, drop := range []bool{false, true} {
		got := Convert(Input{Files: []File{{"p.json", []byte(pod)}}, Options: Options{
			Namespace: "shop", DropAnnotation: drop,
			LookupTemplate: func(string, string) *resourceapi.ResourceClaimTemplate { return first.Templates[0] },
		}})
		if len(got.Workloads) != 1 || !slices.Equal(got.Workloads[0].Networks, []string{"shop/lan"}) || got.Workloads[0].Changed {
			t.Errorf("got %+v", got.Workloads)
		}
		if got.Workloads[0].Readiness != Ready || drop != (len(got.Findings) == 0) {
			t.Errorf("drop %v: got %v", drop, got.Findings)
		}
	}
}

func TestRuntimeClasses(t *testing.T) {
	handlers := map[string]string{"kata-fake": "runc", "sandboxed": "kata-qemu"}
	for _, c := range []struct {
		class, annotation string
		vm                bool
	}{
		{class: "", vm: false},
		{class: "nvidia", vm: false},
		{class: "kata", vm: true},
		{class: "kata-qemu", vm: true},
		{class: "gvisor", vm: true},
		{class: "sandboxed", vm: true},
		{class: "kata-fake", annotation: "io.katacontainers.config.hypervisor.default_vcpus", vm: false},
		{class: "unknown", annotation: "io.katacontainers.config.hypervisor.default_vcpus", vm: true},
	} {
		pod := onePod
		if c.annotation != "" {
			pod = strings.Replace(pod, `"annotations": {`, fmt.Sprintf(`"annotations": {%q: "", `, c.annotation), 1)
		}
		if c.class != "" {
			pod = strings.Replace(pod, `"spec": {`, fmt.Sprintf(`"spec": {"runtimeClassName": %q, `, c.class), 1)
		}
		got, err := Pod([]byte(pod), Options{Namespace: "shop", Lookup: lookup(""), LookupRuntimeClass: func(name string) (string, bool) {
			handler, found := handlers[name]
			return handler, found
		}})
		if err != nil {
			t.Fatal(err)
		}
		if vm := slices.Contains(codesOf(got.Findings), VMRuntime); vm != c.vm {
			t.Errorf("class %q, annotation %q: got %v", c.class, c.annotation, got.Findings)
		}
	}
}

// TestVerdictEdits checks that the paths of edits begin at the item of a list.
func TestVerdictEdits(t *testing.T) {
	list := "kind: List\nitems:\n- kind: ConfigMap\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: p, annotations: {k8s.v1.cni.cncf.io/networks: lan}}\n" +
		"  spec: {containers: [{name: c}]}\n"
	got := Convert(Input{Files: []File{{"l.yaml", []byte(list)}}, Options: Options{Lookup: lookup("")}})
	for _, e := range got.Workloads[0].Edits {
		if e.Path[0] != "spec" {
			t.Errorf("got %v", e.Path)
		}
	}
	if ref := got.Workloads[0].Object; ref.APIVersion != "v1" || ref.String() != "Pod default/p" {
		t.Errorf("got %+v", ref)
	}
	pod := podHead + "spec: {containers: [{name: c}]}\n"
	one := Convert(Input{Files: []File{{"p.yaml", []byte(pod)}}})
	text, err := Edited(File{"p.yaml", []byte(pod)}, one.Workloads[0].Edits)
	if err != nil || string(text) != string(one.Files[0].Data) {
		t.Errorf("got %s, %v", text, err)
	}
}
