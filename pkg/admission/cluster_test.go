package admission

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// cluster has the objects that a decision may read, by kind and namespace/name.
type cluster map[string]any

func key(kind, namespace, name string) string { return kind + " " + namespace + "/" + name }

// clusterOf reads manifests.
func clusterOf(t testing.TB, manifests []byte) cluster {
	t.Helper()
	c := cluster{}
	for _, doc := range bytes.Split(manifests, []byte("---\n")) {
		var m metav1.PartialObjectMetadata
		if err := yaml.Unmarshal(doc, &m); err != nil {
			t.Fatal(err)
		}
		var o any
		switch m.Kind {
		case "":
			continue
		case "NetworkAttachmentDefinition":
			o = &nadv1.NetworkAttachmentDefinition{}
		case "ResourceClaimTemplate":
			o = &resourceapi.ResourceClaimTemplate{}
		case "ResourceClaim":
			o = &resourceapi.ResourceClaim{}
		case "ResourceSlice":
			o = &resourceapi.ResourceSlice{}
		case "DeviceClass":
			o = &resourceapi.DeviceClass{}
		case "RuntimeClass":
			o = &nodev1.RuntimeClass{}
		default:
			o = &m
		}
		if err := yaml.Unmarshal(doc, o); err != nil {
			t.Fatal(err)
		}
		c[key(m.Kind, m.Namespace, m.Name)] = o
	}
	return c
}

func (c cluster) lookups() Lookups {
	labels := func(kind string) func(string) map[string]string {
		return func(name string) map[string]string {
			if m, found := c[key(kind, "", name)].(*metav1.PartialObjectMetadata); found {
				return m.Labels
			}
			return nil
		}
	}
	return Lookups{
		Network: func(ref attachment.NetworkRef) *nadv1.NetworkAttachmentDefinition {
			nad, _ := c[key("NetworkAttachmentDefinition", ref.Namespace, ref.Name)].(*nadv1.NetworkAttachmentDefinition)
			return nad
		},
		Template: func(namespace, name string) *resourceapi.ResourceClaimTemplate {
			t, _ := c[key("ResourceClaimTemplate", namespace, name)].(*resourceapi.ResourceClaimTemplate)
			return t
		},
		RuntimeClass: func(name string) (string, bool) {
			class, found := c[key("RuntimeClass", "", name)].(*nodev1.RuntimeClass)
			if !found {
				return "", false
			}
			return class.Handler, true
		},
		Claim: func(namespace, name string) *resourceapi.ResourceClaim {
			claim, _ := c[key("ResourceClaim", namespace, name)].(*resourceapi.ResourceClaim)
			return claim
		},
		Class: func(name string) *resourceapi.DeviceClass {
			class, _ := c[key("DeviceClass", "", name)].(*resourceapi.DeviceClass)
			return class
		},
		NamespaceLabels: labels("Namespace"), NodeLabels: labels("Node"),
		PoolServer: c.poolServer,
		MultusNodes: func() bool {
			for _, o := range c {
				if m, is := o.(*metav1.PartialObjectMetadata); is && m.Kind == "Node" && m.Labels["nadra.dev/owner"] != "nadra" {
					return true
				}
			}
			return false
		},
	}
}

// poolServer returns what serves a pool by the cluster's ResourceSlices. Without slices, nadra serves
// all pools.
func (c cluster) poolServer(pool string) translate.PoolFacts {
	published := map[string][]string{}
	for _, o := range c {
		s, is := o.(*resourceapi.ResourceSlice)
		if !is {
			continue
		}
		for _, d := range s.Spec.Devices {
			name := *d.Attributes[attachment.AttributeResourceName].StringValue
			published[name] = append(published[name], s.Spec.Driver)
		}
	}
	if len(published) == 0 {
		return translate.PoolFacts{Server: translate.PoolOfNadra}
	}
	return translate.AllocatedBy(pool, "net.nadra.dev", published, nil)
}

// create creates the templates of a decision.
func (c cluster) create(d Decision) {
	for _, template := range d.Templates {
		c[key("ResourceClaimTemplate", template.Namespace, template.Name)] = template
	}
}

// patched applies the edits of a decision.
func (c cluster) patched(t testing.TB, pod []byte, d Decision) []byte {
	t.Helper()
	if len(d.Edits) == 0 {
		return pod
	}
	text, err := json.Marshal(d.Edits)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := jsonpatch.DecodePatch(text)
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	patched, err := patch.Apply(pod)
	if err != nil {
		t.Fatalf("%v: %s of %s", err, text, pod)
	}
	return patched
}

// checkAdmitted checks what must be true of every decision: a refusal begins with a known code, the
// edits result in a pod that determines its templates, and admitting it again changes nothing.
func checkAdmitted(t testing.TB, pod []byte, namespace string, o Options, c cluster) {
	t.Helper()
	d := Pod(pod, namespace, o, c.lookups())
	if (d.Outcome == Refused) != (d.Refusal != "") || d.Outcome == Refused && len(d.Edits)+len(d.Templates) > 0 {
		t.Errorf("outcome and refusal contradict each other: %+v", d)
	}
	if code := reason.In(d.Refusal); d.Outcome == Refused && (code == "" || !strings.HasPrefix(d.Refusal, code.Text(""))) {
		t.Errorf("the refusal does not begin with a code: %s", d.Refusal)
	}
	if d.Outcome == Untouched && len(d.Edits)+len(d.Templates) > 0 {
		t.Errorf("an untouched pod has edits: %+v", d)
	}
	for _, w := range d.Warnings {
		if len(w) > maxWarning {
			t.Errorf("a warning has %d bytes: %s", len(w), w)
		}
	}
	if strings.Contains(d.Refusal, "\n\n") {
		t.Errorf("the refusal has several paragraphs: %q", d.Refusal)
	}
	if d.Outcome == Refused {
		return
	}
	patched := c.patched(t, pod, d)
	made := &corev1.Pod{}
	if err := json.Unmarshal(patched, made); err != nil {
		if len(d.Edits) > 0 {
			t.Errorf("%v: %s", err, patched)
		}
		return
	}
	// The pod that exists determines the same templates, as the controller creates them.
	stored, err := json.Marshal(made)
	if err != nil {
		t.Fatal(err)
	}
	if later := Pod(stored, namespace, o, c.lookups()); !reflect.DeepEqual(later.Templates, d.Templates) {
		t.Errorf("admission refers to templates %v, the admitted pod to %v %s:\n%s", d.Templates, later.Templates, later.Refusal, stored)
	}
	c.create(d)
	again := Pod(patched, namespace, o, c.lookups())
	if again.Outcome == Refused || len(again.Edits)+len(again.Templates) > 0 {
		t.Errorf("admitted again, with %+v, it is %+v:\n%s", d, again, patched)
	}
}
