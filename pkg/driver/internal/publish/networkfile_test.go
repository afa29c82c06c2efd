package publish

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/driver/offer"
	"github.com/nadra-dev/nadra/test/drivertest"
)

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
	h := offer.Host{HasLink: func(name string) bool { return name == "lan0" }, Missing: func(*offer.Definition) []string { return nil }}
	empty, known := []*nadv1.NetworkAttachmentDefinition{drivertest.NAD("blue", "")}, offer.Definitions{}
	find := func() *offer.Definition { return known.Of(empty, NewConfDir(root, "/net.d").Find)[0] }
	if err := h.Check(find()); reason.Of(err) != reason.ConfigMissing || !strings.Contains(err.Error(), "/net.d") {
		t.Errorf("without a file: %v", err)
	}
	if err := os.MkdirAll(filepath.Join(root, "net.d"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "net.d/10.conf"), []byte(drivertest.BlueConf[:1]+`"name":"blue",`+drivertest.BlueConf[1:]), 0o600); err != nil {
		t.Fatal(err)
	}
	d := find()
	if err := h.Check(d); err != nil || d.Network.Ref.Name != "blue" || d.Network.CNIName != "blue" || d.Network.Plugins[0].Master != "lan0" {
		t.Errorf("%v: %+v", err, d)
	}
}
