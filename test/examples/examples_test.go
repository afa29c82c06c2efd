// Package examples checks the manifests below examples/ without a cluster: each
// object is valid, and claims/ has exactly what `kubectl nadra convert` makes of
// annotated/. TestExamples of test/e2e applies them.
package examples

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/pools"
	"github.com/nadra-dev/nadra/pkg/translate"
	"github.com/nadra-dev/nadra/test/golden"
)

const (
	namespace = "nadra-examples"
	pool      = "intel.com/sriov"
)

var root = filepath.Join("..", "..", "examples")

// read returns the manifests of a folder of examples by name. It fails the test if
// there are none.
func read(t *testing.T, folder string) (files []translate.File) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(root, folder, "*.yaml"))
	if err != nil || len(names) == 0 {
		t.Fatalf("examples/%s has no manifest (%v)", folder, err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, translate.File{Name: filepath.ToSlash(filepath.Join("examples", folder, filepath.Base(name))), Data: text})
	}
	return files
}

// all returns every manifest below examples.
func all(t *testing.T) (files []translate.File) {
	t.Helper()
	for _, folder := range []string{".", "networks", "annotated", "claims", "by-hand", "pools"} {
		files = append(files, read(t, folder)...)
	}
	return files
}

// decode decodes a document strictly into the type of its kind.
func decode(document []byte) (metav1.Object, error) {
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal(document, &kind); err != nil {
		return nil, err
	}
	into := map[string]metav1.Object{
		"v1/Namespace":       &corev1.Namespace{},
		"v1/ConfigMap":       &corev1.ConfigMap{},
		"v1/Pod":             &corev1.Pod{},
		"batch/v1/Job":       &batchv1.Job{},
		"apps/v1/Deployment": &appsv1.Deployment{}, "apps/v1/StatefulSet": &appsv1.StatefulSet{},
		"k8s.cni.cncf.io/v1/NetworkAttachmentDefinition":      &nadv1.NetworkAttachmentDefinition{},
		"resource.k8s.io/v1/DeviceClass":                      &resourceapi.DeviceClass{},
		"resource.k8s.io/v1/ResourceClaimTemplate":            &resourceapi.ResourceClaimTemplate{},
		"sriovnetwork.openshift.io/v1/SriovNetworkNodePolicy": &policy{},
	}[kind.APIVersion+"/"+kind.Kind]
	if into == nil {
		return nil, fmt.Errorf("unexpected kind %s %s", kind.APIVersion, kind.Kind)
	}
	return into, yaml.UnmarshalStrict(document, into)
}

// policy is a SriovNetworkNodePolicy, whose spec pkg/pools decodes.
type policy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              map[string]any `json:"spec"`
}

// each calls do with every object of some manifests.
func each(t *testing.T, files []translate.File, do func(file string, object metav1.Object)) {
	t.Helper()
	for _, file := range files {
		for _, document := range translate.Documents(file.Data) {
			object, err := decode(document)
			if err != nil {
				t.Errorf("%s: %v", file.Name, err)
				continue
			}
			do(file.Name, object)
		}
	}
}

// TestObjects decodes every object strictly and checks what nadra reads in it.
func TestObjects(t *testing.T) {
	count := 0
	each(t, all(t), func(file string, object metav1.Object) {
		count++
		switch o := object.(type) {
		case *nadv1.NetworkAttachmentDefinition:
			if _, err := attachment.ParseNetwork(o); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		case *resourceapi.DeviceClass:
			for _, c := range o.Spec.Config {
				checkParameters(t, file, c.Opaque)
			}
		case *resourceapi.ResourceClaimTemplate:
			for _, c := range o.Spec.Spec.Devices.Config {
				checkParameters(t, file, c.Opaque)
			}
		}
		switch object.(type) {
		case *corev1.Namespace, *resourceapi.DeviceClass, *corev1.ConfigMap, *policy:
		default:
			if object.GetNamespace() != namespace {
				t.Errorf("%s: %s is in namespace %q, not in %s", file, object.GetName(), object.GetNamespace(), namespace)
			}
		}
	})
	if count < 30 {
		t.Errorf("found only %d objects", count)
	}
}

// checkParameters decodes the parameters of nadra's driver.
func checkParameters(t *testing.T, file string, opaque *resourceapi.OpaqueDeviceConfiguration) {
	t.Helper()
	if opaque == nil || opaque.Driver != v1alpha1.DriverName {
		t.Errorf("%s: a config is not of driver %s", file, v1alpha1.DriverName)
		return
	}
	config, err := v1alpha1.Decode(opaque.Parameters.Raw)
	if err == nil {
		err = config.Validate(nil).ToAggregate()
	}
	if err != nil {
		t.Errorf("%s: %v", file, err)
	}
}

// converted returns what a manifest of annotated/ becomes: the objects that the
// conversion creates, then the manifest.
func converted(t *testing.T, file translate.File) string {
	t.Helper()
	result := translate.Convert(translate.Input{
		Files:   []translate.File{file},
		Context: append(read(t, "networks"), read(t, "pools")...),
		Options: translate.Options{Pools: true},
	})
	for _, f := range result.Findings {
		// Whether nodes share the master of the macvlan example is up to the reader, whom a comment there tells.
		if f.Severity != translate.Info && f.Code != translate.RangeOnEachNode {
			t.Errorf("converting %s: %s", file.Name, f)
		}
	}
	var documents [][]byte
	for _, c := range result.Created {
		documents = append(documents, c.YAML())
	}
	return string(bytes.Join(append(documents, result.Files[0].Data), []byte("---\n")))
}

// TestConverted compares claims/ with what annotated/ is converted to. With -update it
// writes claims/.
func TestConverted(t *testing.T) {
	annotated := read(t, "annotated")
	for _, file := range annotated {
		golden.Check(t, filepath.Join(root, "claims", filepath.Base(file.Name)), converted(t, file))
	}
	if claims := read(t, "claims"); len(claims) != len(annotated) {
		t.Errorf("examples/claims has %d files, and examples/annotated has %d", len(claims), len(annotated))
	}
}

// TestSameNetworks checks that the claims of each workload request the networks and
// values of its annotation.
func TestSameNetworks(t *testing.T) {
	classes := map[string]*resourceapi.DeviceClass{}
	templates := map[string]*resourceapi.ResourceClaimTemplate{}
	pods := map[string]corev1.PodTemplateSpec{}
	each(t, read(t, "claims"), func(file string, object metav1.Object) {
		switch o := object.(type) {
		case *resourceapi.DeviceClass:
			classes[o.Name] = o
		case *resourceapi.ResourceClaimTemplate:
			templates[o.Name] = o
		case *corev1.Pod:
			pods[file] = corev1.PodTemplateSpec{ObjectMeta: o.ObjectMeta, Spec: o.Spec}
		case *appsv1.Deployment:
			pods[file] = o.Spec.Template
		case *appsv1.StatefulSet:
			pods[file] = o.Spec.Template
		case *batchv1.Job:
			pods[file] = o.Spec.Template
		}
	})
	for file, pod := range pods {
		want, err := attachment.ParseSelections(pod.Annotations[attachment.NetworksAnnotation], namespace)
		if err != nil || len(want) == 0 || len(pod.Spec.ResourceClaims) != 1 {
			t.Errorf("%s: %d networks in the annotation (%v), %d claims", file, len(want), err, len(pod.Spec.ResourceClaims))
			continue
		}
		template := templates[*pod.Spec.ResourceClaims[0].ResourceClaimTemplateName]
		requests := attachment.RequestsOfClaim(template.Spec.Spec, namespace, func(name string) *resourceapi.DeviceClass { return classes[name] })
		if requests.Unknown != "" || !attachment.SameNetworks(want, requests.Selections) {
			t.Errorf("%s: the annotation requests %s, the claim %s (unknown: %q)",
				file, attachment.NetworksValue(want), attachment.NetworksValue(requests.Selections), requests.Unknown)
		}
		for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
			if len(c.Resources.Claims) != 1 {
				t.Errorf("%s: container %s references %d claims", file, c.Name, len(c.Resources.Claims))
			}
		}
	}
	if len(pods) != len(read(t, "annotated")) {
		t.Errorf("found %d workloads", len(pods))
	}
}

// TestByHand checks the network that the handwritten claim selects, and that handwritten classes equal those
// of the conversion.
func TestByHand(t *testing.T) {
	converted := map[string]*resourceapi.DeviceClass{}
	each(t, read(t, "claims"), func(_ string, object metav1.Object) {
		if o, ok := object.(*resourceapi.DeviceClass); ok {
			converted[o.Name] = o
		}
	})
	requests := map[string]attachment.ClaimRequests{}
	each(t, read(t, "by-hand"), func(file string, object metav1.Object) {
		switch o := object.(type) {
		case *resourceapi.DeviceClass:
			if diff := cmp.Diff(converted[o.Name], o); diff != "" {
				t.Errorf("%s: class %s (-converted +by hand):\n%s", file, o.Name, diff)
			}
		case *resourceapi.ResourceClaimTemplate:
			requests[o.Name] = attachment.RequestsOfClaim(o.Spec.Spec, namespace, nil)
		}
	})
	got := requests["macvlan-by-hand"]
	if value := attachment.NetworksValue(got.Selections); value != namespace+"/macvlan@data0" || got.Unknown != "" {
		t.Errorf("the claim by hand requests %q (unknown: %q)", value, got.Unknown)
	}
	if _, found := requests["aligned"]; !found {
		t.Error("by-hand has no template aligned")
	}
	if value := attachment.NetworksValue(requests["numa"].Selections); value != namespace+"/sriov" {
		t.Errorf("the claim with CPUs requests %q", value)
	}
}

// TestPools checks that both sources define the pool of the SR-IOV network and nothing else.
func TestPools(t *testing.T) {
	defined := map[string][]pools.Pool{}
	each(t, read(t, "pools"), func(file string, object metav1.Object) {
		switch o := object.(type) {
		case *corev1.ConfigMap:
			found, err := pools.ParseConfig(pools.Source{Object: file}, []byte(o.Data["config.json"]), pools.Options{})
			if err != nil {
				t.Errorf("%s: %v", file, err)
			}
			defined[file] = found
		case *policy:
			raw, err := yaml.Marshal(o)
			if err == nil {
				raw, err = yaml.YAMLToJSON(raw)
			}
			if err != nil {
				t.Fatal(err)
			}
			p, ok, err := pools.ParsePolicy(raw, "intel.com")
			if err != nil || !ok {
				t.Errorf("%s: makes a pool: %v, %v", file, ok, err)
			}
			defined[file] = pools.FromPolicies([]pools.Policy{p}, map[string]string{"kubernetes.io/os": "linux"})
		}
	})
	if len(defined) != 2 {
		t.Errorf("found %d sources of pools", len(defined))
	}
	for file, found := range defined {
		if len(found) != 1 || found[0].ResourceName != pool {
			t.Errorf("%s defines %+v, not %s", file, found, pool)
		}
	}
}

// TestListed checks that the page names every manifest, and the objects of the first one.
func TestListed(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range all(t) {
		name := strings.TrimPrefix(file.Name, "examples/")
		if folder, _, found := strings.Cut(name, "/"); found && folder == "claims" {
			name = "claims/" // one file for each of annotated/
		}
		if !strings.Contains(string(page), name) {
			t.Errorf("examples/README.md does not name %s", name)
		}
	}
	printed := regexp.MustCompile(`resource\.k8s\.io/(\S+) created`).FindAllStringSubmatch(string(page), -1)
	claim, err := os.ReadFile(filepath.Join(root, "claims", "macvlan.yaml"))
	if err != nil || len(printed) != 2 {
		t.Fatalf("the page shows %d created objects of resource.k8s.io (%v)", len(printed), err)
	}
	for _, m := range printed {
		if !strings.Contains(string(claim), "name: "+m[1]+"\n") {
			t.Errorf("examples/README.md shows the creation of %s, which examples/claims/macvlan.yaml does not have", m[1])
		}
	}
}
