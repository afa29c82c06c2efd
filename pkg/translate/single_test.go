package translate

import (
	"encoding/json"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

func lookup(resourceName string) func(attachment.NetworkRef) *nadv1.NetworkAttachmentDefinition {
	return func(ref attachment.NetworkRef) *nadv1.NetworkAttachmentDefinition {
		if ref != (attachment.NetworkRef{Namespace: "shop", Name: "lan"}) {
			return nil
		}
		nad := &nadv1.NetworkAttachmentDefinition{Spec: nadv1.NetworkAttachmentDefinitionSpec{Config: `{"type": "bridge"}`}}
		nad.Namespace, nad.Name = ref.Namespace, ref.Name
		if resourceName != "" {
			nad.Annotations = map[string]string{attachment.ResourceNameAnnotation: resourceName}
		}
		return nad
	}
}

const onePod = `{"metadata": {"generateName": "web-", "ownerReferences": [{"kind": "ReplicaSet", "name": "web"}],
	"annotations": {"k8s.v1.cni.cncf.io/networks": "lan"}},
	"spec": {"containers": [{"name": "a", "resources": {"limits": {"intel.com/vf": "1"}}}, {"name": "b"}]}}`

func TestPod(t *testing.T) {
	got, err := Pod([]byte(onePod), Options{Namespace: "shop", AllNetworks: true, Pools: true, Lookup: lookup("intel.com/vf")})
	if err != nil {
		t.Fatal(err)
	}
	if readiness(got.Findings) != Ready || len(got.Templates) != 1 || got.Templates[0].Namespace != "shop" {
		t.Fatalf("got %+v", got)
	}
	patch, err := json.Marshal(got.Edits)
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"op":"remove","path":"/spec/containers/0/resources/limits"},` +
		`{"op":"add","path":"/spec/containers/0/resources/claims","value":[{"name":"nadra"}]},` +
		`{"op":"add","path":"/spec/containers/1/resources","value":{"claims":[{"name":"nadra"}]}},` +
		`{"op":"add","path":"/spec/resourceClaims","value":[{"name":"nadra","resourceClaimTemplateName":"` + got.Templates[0].Name + `"}]},` +
		`{"op":"add","path":"/spec/containers/0/volumeMounts","value":[{"name":"podnetinfo","mountPath":"/etc/podnetinfo","readOnly":true}]},` +
		`{"op":"add","path":"/spec/containers/1/volumeMounts","value":[{"name":"podnetinfo","mountPath":"/etc/podnetinfo","readOnly":true}]},` +
		`{"op":"add","path":"/spec/volumes","value":[{"name":"podnetinfo","downwardAPI":{"items":[` +
		`{"path":"labels","fieldRef":{"fieldPath":"metadata.labels"}},{"path":"annotations","fieldRef":{"fieldPath":"metadata.annotations"}}]}}]}]`
	if diff := cmp.Diff(want, string(patch)); diff != "" {
		t.Error(diff)
	}
}

func TestPodRefused(t *testing.T) {
	for name, o := range map[string]Options{
		"no such network": {Namespace: "other", AllNetworks: true, Lookup: lookup("")},
		"no pools":        {Namespace: "shop", AllNetworks: true, Lookup: lookup("intel.com/vf")},
	} {
		got, err := Pod([]byte(onePod), o)
		if err != nil || readiness(got.Findings) != Stays || got.Edits != nil || got.Templates != nil || len(got.Findings) != 1 {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
	if _, err := Pod([]byte("{"), Options{}); err == nil {
		t.Error("an incomplete pod is accepted")
	}
}

// TestPodAsConvert checks that Pod and Convert change a pod in the same way.
func TestPodAsConvert(t *testing.T) {
	asConvert(t, `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "annotations": {"k8s.v1.cni.cncf.io/networks": "lan"}}, "spec": {"containers": [{"name": "a"}]}}`,
		Options{Namespace: "shop", Lookup: lookup("")})
	asConvert(t, `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "annotations": {"k8s.v1.cni.cncf.io/networks": "lan"}},
		"spec": {"containers": [{"name": "a", "env": [], "resources": {"limits": {"hugepages-1Gi": "1Gi", "intel.com/vf": 1}}}, {"name": "b", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
		"volumes": [{"name": "v"}]}}`,
		Options{Namespace: "shop", Pools: true, Lookup: lookup("intel.com/vf")})
}

func asConvert(t *testing.T, pod string, o Options) {
	t.Helper()
	one, err := Pod([]byte(pod), o)
	if err != nil {
		t.Fatal(err)
	}
	all := Convert(Input{Files: []File{{"p.json", []byte(pod)}}, Options: o})
	text, err := json.Marshal(one.Edits)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := jsonpatch.DecodePatch(text)
	if err != nil {
		t.Fatal(err)
	}
	patched, err := patch.Apply([]byte(pod))
	if err != nil {
		t.Fatal(err)
	}
	if !jsonpatch.Equal(patched, all.Files[0].Data) {
		t.Errorf("the edits %s give\n%s\nnot\n%s", text, patched, all.Files[0].Data)
	}
}
