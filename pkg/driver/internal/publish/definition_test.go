package publish

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/driver/internal/drivertest"
)

// TestDefinitionsAreKept checks that a definition is kept while its NAD does not change.
func TestDefinitionsAreKept(t *testing.T) {
	files := func(string) (string, []byte, error) { return "", nil, errors.New("no file") }
	change := func(do func(*nadv1.NetworkAttachmentDefinition)) func() *nadv1.NetworkAttachmentDefinition {
		return func() *nadv1.NetworkAttachmentDefinition {
			n := drivertest.NAD("blue", drivertest.BlueConf)
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
		"the configuration":  {change(func(n *nadv1.NetworkAttachmentDefinition) { n.Spec.Config = drivertest.RedConf }), false},
		"no configuration":   {change(func(n *nadv1.NetworkAttachmentDefinition) { n.Spec.Config = "" }), false},
		"a wrong one":        {change(func(n *nadv1.NetworkAttachmentDefinition) { n.Spec.Config = "{" }), false},
		"a NAD of its name":  {change(func(n *nadv1.NetworkAttachmentDefinition) { n.UID = types.UID("second") }), false},
		"the resource pool": {change(func(n *nadv1.NetworkAttachmentDefinition) {
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
			drivertest.Same(t, "its ID", before.id, after.id)
			known.of(nil, files)
			drivertest.Same(t, "definitions of NADs that are gone", 0, len(known.known))
		})
	}
}

func TestSlimNAD(t *testing.T) {
	fat := drivertest.NAD("blue", drivertest.BlueConf)
	fat.Labels = map[string]string{"app": "web"}
	fat.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "{}", attachment.ResourceNameAnnotation: "intel.com/sriov"}
	fat.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	want := drivertest.NAD("blue", drivertest.BlueConf)
	want.Annotations = map[string]string{attachment.ResourceNameAnnotation: "intel.com/sriov"}
	got, err := attachment.SlimObject(fat)
	if err != nil {
		t.Fatal(err)
	}
	drivertest.Same(t, "what is kept", want, got.(*nadv1.NetworkAttachmentDefinition))
}

// TestNetworkOfAFile checks that a NAD without a configuration is usable if the node has
// the configuration in a file.
func TestNetworkOfAFile(t *testing.T) {
	root := t.TempDir()
	h := host{links: map[string]Link{"lan0": {}}, missing: func([]string) []string { return nil }}
	empty, known := []*nadv1.NetworkAttachmentDefinition{drivertest.NAD("blue", "")}, definitions{}
	find := func() *definition { return known.of(empty, NewConfDir(root, "/net.d").Find)[0] }
	if err := h.check(find()); reason.Of(err) != reason.ConfigMissing || !strings.Contains(err.Error(), "/net.d") {
		t.Errorf("without a file: %v", err)
	}
	if err := os.MkdirAll(filepath.Join(root, "net.d"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "net.d/10.conf"), []byte(drivertest.BlueConf[:1]+`"name":"blue",`+drivertest.BlueConf[1:]), 0o600); err != nil {
		t.Fatal(err)
	}
	d := find()
	if err := h.check(d); err != nil || d.network.Ref.Name != "blue" || d.network.CNIName != "blue" || d.network.Plugins[0].Master != "lan0" {
		t.Errorf("%v: %+v", err, d)
	}
}
