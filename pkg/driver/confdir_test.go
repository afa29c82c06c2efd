package driver

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
)

func TestConfDir(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "etc/cni/multus/net.d")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"00-broken.conf":     `{"name":`,
		"10-blue.conf":       `{"name":"blue","type":"macvlan"}`,
		"20-blue.conflist":   `{"name":"blue","plugins":[{"type":"bridge"}]}`,
		"30-red.json":        `{"name":"red","type":"ipvlan"}`,
		"40-red.conf":        `{"name":"red","type":"second"}`,
		"50-green.conf.save": `{"name":"green","type":"bridge"}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := confDir{hostRoot: root, path: "/etc/cni/multus/net.d"}
	for name, want := range map[string]string{"blue": "bridge", "red": "ipvlan"} {
		path, content, err := c.find(name)
		if err != nil || !strings.HasPrefix(path, "/etc/cni/multus/net.d/") || !strings.Contains(string(content), want) {
			t.Errorf("%s: %s: %s (%v)", name, path, content, err)
		}
	}
	_, _, err := c.find("green")
	wantError(t, err, `"green"`, "/etc/cni/multus/net.d", "00-broken.conf", "spec.config")
	_, _, err = confDir{hostRoot: root, path: "/etc/none"}.find("blue")
	wantError(t, err, `"blue"`, "/etc/none")
}

// A NAD without a configuration is a network where the node has one for it.
func TestNetworkOfAFile(t *testing.T) {
	root := t.TempDir()
	h := host{links: map[string]link{"lan0": {}}, missing: func([]string) []string { return nil }}
	empty, known := []*nadv1.NetworkAttachmentDefinition{nad("blue", "")}, definitions{}
	look := func() candidate { return h.candidate(known.of(empty, confDir{hostRoot: root, path: "/net.d"}.find)[0]) }
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
