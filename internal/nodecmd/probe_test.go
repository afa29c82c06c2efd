package nodecmd

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	nri "github.com/containerd/nri/pkg/api"
	"github.com/google/go-cmp/cmp"

	"github.com/nadra-dev/nadra/internal/probe"
	"github.com/nadra-dev/nadra/pkg/inventory"
)

// tree writes files below a directory with a short name, because paths of sockets are short.
// Names that end in / are directories, content that begins with -> is a link, and files with
// plugins' names are executable.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root, err := os.MkdirTemp("", "np")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		target, isLink := strings.CutPrefix(content, "->")
		mode := os.FileMode(0o644)
		if content == "plugin" {
			mode = 0o755
		}
		switch {
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(path, 0o755)
		case isLink:
			err = os.Symlink(target, path)
		default:
			err = os.WriteFile(path, []byte(content), mode)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

var aHost = map[string]string{
	"proc/sys/kernel/osrelease":            "6.1.0-18-amd64\n",
	"proc/sys/kernel/random/boot_id":       "b0\n",
	"proc/1/mountinfo":                     "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n23 22 0:2 / /etc ro - ext4 /dev/sda2 ro\n24 22 0:3 / /run rw - tmpfs tmpfs rw\n",
	"var/run":                              "->/run",
	"run/cdi/":                             "",
	"run/cni/dhcp.sock":                    "",
	"opt/cni/bin/macvlan":                  "plugin",
	"opt/cni/bin/LICENSE":                  "text",
	"opt/cni/bin/current":                  "->/opt/cni/bin/macvlan",
	"opt/cni/bin/gone":                     "->/nowhere",
	"opt/cni/bin/more/":                    "",
	"etc/cni/net.d/10-pods.conflist":       `{"name":"pods","plugins":[{"type":"ptp"}]}`,
	"etc/cni/net.d/00-multus.conf":         `{"name":"multus","type":"multus-shim"}`,
	"etc/cni/net.d/multus.d/":              "",
	"etc/cni/net.d/05-old.conf.cilium_bak": "{}",
	"sys/class/net/eth0/device":            "->../../../devices/pci",
	"sys/class/net/br0/bridge/":            "",
	"sys/class/net/bond0/bonding/":         "",
	"sys/class/net/eth0.7/uevent":          "DEVTYPE=vlan\nINTERFACE=eth0.7\n",
	"sys/class/net/lo/uevent":              "INTERFACE=lo\n",
}

func links() (map[string]inventory.Link, error) {
	return map[string]inventory.Link{
		"eth0": {AltNames: []string{"enp1s0"}, DefaultRoute: true}, "br0": {}, "bond0": {}, "eth0.7": {}, "lo": {},
	}, nil
}

func optionsFor(root string) ProbeOptions {
	return ProbeOptions{
		Root: root, NRISocket: "/var/run/nri/nri.sock", CDIDirs: []string{"/etc/cdi", "/var/run/cdi"},
		BinDirs: []string{"/opt/cni/bin", "/usr/lib/cni"}, ConfDirs: []string{"/etc/cni/net.d"}, Links: links,
	}
}

func TestProbe(t *testing.T) {
	got := Probe(t.Context(), optionsFor(tree(t, aHost)))
	got.NRI.Error = "" // of the file system
	want := &probe.Report{
		APIVersion: probe.APIVersion, Kind: probe.Kind, Kernel: "6.1.0-18-amd64", BootID: "b0",
		NRI: probe.NRI{Socket: "/var/run/nri/nri.sock"},
		CDI: []probe.Dir{{Path: "/etc/cdi", ReadOnly: true}, {Path: "/var/run/cdi", Found: true}},
		BinDirs: []probe.BinDir{
			{Path: "/opt/cni/bin", Found: true, Plugins: []string{"current", "macvlan"}, NotExecutable: []string{"LICENSE"}},
			{Path: "/usr/lib/cni"},
		},
		ConfDirs: []probe.ConfDir{{
			Path: "/etc/cni/net.d", Found: true, Others: []string{"05-old.conf.cilium_bak", "multus.d"},
			Files: []probe.ConfFile{
				{File: "00-multus.conf", Network: "multus", Plugins: []string{"multus-shim"}, Multus: &probe.MultusSettings{}},
				{File: "10-pods.conflist", Network: "pods", Plugins: []string{"ptp"}},
			},
		}},
		Interfaces: []probe.Interface{
			{Name: "bond0", Kind: probe.Bond},
			{Name: "br0", Kind: probe.Bridge},
			{Name: "eth0", Kind: probe.Physical, AltNames: []string{"enp1s0"}, DefaultRoute: true},
			{Name: "eth0.7", Kind: probe.VLAN},
			{Name: "lo", Kind: probe.Virtual},
		},
		DHCP: true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

// TestProbeNothing checks that a missing file is not an error, and an unreadable one is.
func TestProbeNothing(t *testing.T) {
	o := optionsFor(tree(t, map[string]string{"opt/cni/bin": "a file"}))
	got := Probe(t.Context(), o)
	if len(got.Errors) != 1 || !strings.Contains(got.Errors[0], "/opt/cni/bin") {
		t.Errorf("errors %q", got.Errors)
	}
	if got.NRI.Found || got.NRI.Error == "" || got.DHCP || got.BinDirs[0].Found {
		t.Errorf("report %+v", got)
	}
}

// TestNRIAnswers checks that the probe gets the request timeout of a real NRI, and leaves no
// plugin behind.
func TestNRIAnswers(t *testing.T) {
	root := tree(t, map[string]string{"run/nri/": ""})
	socket := filepath.Join(root, "run/nri/nri.sock")
	synced := false
	runtime, err := adaptation.New("test", "v2.2.6", func(context.Context, adaptation.SyncCB) error { synced = true; return nil },
		func(context.Context, []*nri.ContainerUpdate) ([]*nri.ContainerUpdate, error) { return nil, nil },
		adaptation.WithSocketPath(socket), adaptation.WithPluginPath(root+"/none"), adaptation.WithPluginConfigPath(root+"/none"))
	if err != nil {
		t.Fatal(err)
	}
	adaptation.SetPluginRequestTimeout(61500 * time.Millisecond)
	t.Cleanup(func() { adaptation.SetPluginRequestTimeout(adaptation.DefaultPluginRequestTimeout) })
	if err := runtime.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(runtime.Stop)
	synced = false // it begins with the plugins of its own, of which there are none
	o := optionsFor(root)
	o.NRISocket = "/run/nri/nri.sock"
	// It can come again. The runtime closes the connection before the probe has read all
	// in some of so many tries.
	for range 20 {
		got := Probe(t.Context(), o).NRI
		want := probe.NRI{Socket: o.NRISocket, Found: true, Answers: true, Runtime: "test", RuntimeVersion: "v2.2.6", RequestTimeoutMillis: 61500}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("NRI (-want +got):\n%s", diff)
		}
	}
	if synced {
		t.Error("the probe was taken for a plugin that stays")
	}
}

// TestNRISaysNothing checks that a socket without NRI does not block the probe.
func TestNRISaysNothing(t *testing.T) {
	root := tree(t, map[string]string{"run/nri/": ""})
	l, err := net.Listen("unix", filepath.Join(root, "run/nri/nri.sock"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	o := optionsFor(root)
	o.NRISocket = "/run/nri/nri.sock"
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	got := Probe(ctx, o).NRI
	if !got.Found || got.Answers || got.Error == "" {
		t.Errorf("NRI %+v", got)
	}
}
