package driver

import (
	"errors"
	"testing"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// A definition is kept as long as the NAD says the same.
func TestDefinitionsAreMadeAnewForWhatChanges(t *testing.T) {
	files := func(string) (string, []byte, error) { return "", nil, errors.New("no file") }
	change := func(do func(*nadv1.NetworkAttachmentDefinition)) func() *nadv1.NetworkAttachmentDefinition {
		return func() *nadv1.NetworkAttachmentDefinition {
			n := nad("blue", blueConf)
			n.UID = "first"
			do(n)
			return n
		}
	}
	for name, tt := range map[string]struct {
		nad  func() *nadv1.NetworkAttachmentDefinition
		kept bool
	}{
		"nothing":            {change(func(*nadv1.NetworkAttachmentDefinition) {}), true},
		"a label":            {change(func(n *nadv1.NetworkAttachmentDefinition) { n.Labels = map[string]string{"a": "b"} }), true},
		"another annotation": {change(func(n *nadv1.NetworkAttachmentDefinition) { n.Annotations = map[string]string{"a": "b"} }), true},
		"the configuration":  {change(func(n *nadv1.NetworkAttachmentDefinition) { n.Spec.Config = redConf }), false},
		"no configuration":   {change(func(n *nadv1.NetworkAttachmentDefinition) { n.Spec.Config = "" }), false},
		"a wrong one":        {change(func(n *nadv1.NetworkAttachmentDefinition) { n.Spec.Config = "{" }), false},
		"a NAD of its name":  {change(func(n *nadv1.NetworkAttachmentDefinition) { n.UID = types.UID("second") }), false},
		"the pool to draw of": {change(func(n *nadv1.NetworkAttachmentDefinition) {
			n.Annotations = map[string]string{attachment.ResourceNameAnnotation: "a/b"}
		}), false},
	} {
		t.Run(name, func(t *testing.T) {
			var known definitions
			before := known.of([]*nadv1.NetworkAttachmentDefinition{change(func(*nadv1.NetworkAttachmentDefinition) {})()}, files)[0]
			now := tt.nad()
			after := known.of([]*nadv1.NetworkAttachmentDefinition{now}, files)[0]
			same(t, "kept", tt.kept, before == after)
			same(t, "its network", attachment.NetworkRef{Namespace: "default", Name: "blue"}, after.network.Ref)
			same(t, "its pool", now.Annotations[attachment.ResourceNameAnnotation], after.network.ResourceName)
			same(t, "its device", before.device, after.device)
			known.of(nil, files)
			same(t, "remembered of NADs that are gone", 0, len(known.known))
		})
	}
}

func TestSlimNAD(t *testing.T) {
	fat := nad("blue", blueConf)
	fat.Labels = map[string]string{"app": "web"}
	fat.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "{}", attachment.ResourceNameAnnotation: "intel.com/sriov"}
	fat.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	want := nad("blue", blueConf)
	want.Annotations = map[string]string{attachment.ResourceNameAnnotation: "intel.com/sriov"}
	got, err := slimNAD(fat)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "what is kept", want, got.(*nadv1.NetworkAttachmentDefinition))
}
