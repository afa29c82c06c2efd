package publish

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/test/drivertest"
)

func TestConfDir(t *testing.T) {
	root := t.TempDir()
	folder := filepath.Join(root, "etc/cni/multus/net.d")
	if err := os.MkdirAll(folder, 0o755); err != nil {
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
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	dir := NewConfDir(root, "/etc/cni/multus/net.d")
	for name, want := range map[string]string{"blue": "bridge", "red": "ipvlan"} {
		path, content, err := dir.Find(name)
		if err != nil || !strings.HasPrefix(path, "/etc/cni/multus/net.d/") || !strings.Contains(string(content), want) {
			t.Errorf("%s: %s: %s (%v)", name, path, content, err)
		}
	}
	_, _, err := dir.Find("green")
	drivertest.WantReason(t, err, reason.ConfigMissing, `"green"`, "/etc/cni/multus/net.d", "00-broken.conf", "spec.config")
	_, _, err = NewConfDir(root, "/etc/none").Find("blue")
	drivertest.WantReason(t, err, reason.ConfigMissing, `"blue"`, "/etc/none")
}
