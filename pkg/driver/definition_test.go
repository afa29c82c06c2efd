package driver

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/driver/internal/confdir"
	"github.com/nadra-dev/nadra/pkg/driver/internal/drivertest"
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
			drivertest.Same(t, "kept", tt.kept, before == after)
			drivertest.Same(t, "its network", attachment.NetworkRef{Namespace: "default", Name: "blue"}, after.network.Ref)
			drivertest.Same(t, "its pool", now.Annotations[attachment.ResourceNameAnnotation], after.network.ResourceName)
			drivertest.Same(t, "its device", before.device, after.device)
			known.of(nil, files)
			drivertest.Same(t, "remembered of NADs that are gone", 0, len(known.known))
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
	drivertest.Same(t, "what is kept", want, got.(*nadv1.NetworkAttachmentDefinition))
}

// A NAD without a configuration is a network where the node has one for it.
func TestNetworkOfAFile(t *testing.T) {
	root := t.TempDir()
	h := host{links: map[string]link{"lan0": {}}, missing: func([]string) []string { return nil }}
	empty, known := []*nadv1.NetworkAttachmentDefinition{nad("blue", "")}, definitions{}
	look := func() candidate { return h.candidate(known.of(empty, confdir.New(root, "/net.d").Find)[0]) }
	if c := look(); c.unusable == nil || !strings.Contains(c.unusable.Error(), "/net.d") {
		t.Errorf("without a file: %v", c.unusable)
	}
	if err := os.MkdirAll(filepath.Join(root, "net.d"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "net.d/10.conf"), []byte(blueConf[:1]+`"name":"blue",`+blueConf[1:]), 0o600); err != nil {
		t.Fatal(err)
	}
	c := look()
	if c.unusable != nil || c.network.Ref.Name != "blue" || c.network.CNIName != "blue" || c.network.Plugins[0].Master != "lan0" {
		t.Errorf("%+v", c)
	}
}
