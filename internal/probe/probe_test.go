package probe

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDecode(t *testing.T) {
	want := Report{APIVersion: APIVersion, Kind: Kind, Kernel: "6.1.0", Interfaces: []Interface{{Name: "eth0", Kind: Physical, AltNames: []string{"enp1s0"}}}}
	line, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decode[Report]([]byte("some warning\n"+string(line)+"\n"), Kind)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&want, got); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	for name, test := range map[string]struct{ log, want string }{
		"nothing":         {"", "the output is empty"},
		"an error":        {"nadra-node: no such flag\n", "nadra-node: no such flag"},
		"half a report":   {`{"apiVersion": `, "unexpected end"},
		"another version": {`{"apiVersion":"nadra.dev/v9","kind":"NodeProbe"}`, `apiVersion "nadra.dev/v9" and kind "NodeProbe" are not nadra.dev/v1alpha1 NodeProbe: use an image`},
	} {
		if _, err := Decode[Report]([]byte(test.log), Kind); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q", name, err, test.want)
		}
	}
}

func TestHas(t *testing.T) {
	r := Report{
		BinDirs:    []BinDir{{Plugins: []string{"bridge"}, NotExecutable: []string{"vlan"}}, {Plugins: []string{"macvlan"}}},
		Interfaces: []Interface{{Name: "eth0", AltNames: []string{"enp1s0"}}},
	}
	for name, want := range map[string]bool{"bridge": true, "macvlan": true, "vlan": false} {
		if got := r.HasPlugin(name); got != want {
			t.Errorf("plugin %s: %v", name, got)
		}
	}
	for name, want := range map[string]bool{"eth0": true, "enp1s0": true, "eth1": false} {
		if got := r.HasInterface(name); got != want {
			t.Errorf("interface %s: %v", name, got)
		}
	}
}

func TestParseConf(t *testing.T) {
	for name, test := range map[string]struct {
		content string
		want    ConfFile
	}{
		"a plugin": {`{"cniVersion":"1.0.0","name":"lan","type":"macvlan"}`, ConfFile{Network: "lan", Plugins: []string{"macvlan"}}},
		"a list":   {`{"name":"pods","plugins":[{"type":"ptp"},{"type":"portmap"}]}`, ConfFile{Network: "pods", Plugins: []string{"ptp", "portmap"}}},
		"thin Multus": {
			`{"name":"multus","type":"multus","namespaceIsolation":true,"globalNamespaces":"default,shared","delegates":[{"type":"ptp"}]}`,
			ConfFile{Network: "multus", Plugins: []string{"multus"}, Multus: &MultusSettings{NamespaceIsolation: true, GlobalNamespaces: "default,shared", Delegates: 1}},
		},
		"the shim in a list": {
			`{"name":"multus","plugins":[{"type":"multus-shim","clusterNetwork":"/host/etc/cni/net.d/10-ptp.conflist"}]}`,
			ConfFile{Network: "multus", Plugins: []string{"multus-shim"}, Multus: &MultusSettings{ClusterNetwork: "/host/etc/cni/net.d/10-ptp.conflist"}},
		},
		"no JSON": {`name: lan`, ConfFile{Error: "invalid character 'a' in literal null (expecting 'u')"}},
	} {
		test.want.File = "10.conf"
		if diff := cmp.Diff(test.want, ParseConf("10.conf", []byte(test.content))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestSettingsOver checks that the daemon's settings override those of the shim's file.
func TestSettingsOver(t *testing.T) {
	daemon := &MultusSettings{NamespaceIsolation: true, DefaultNetworks: []string{"lan"}, SystemNamespaces: []string{}, BinDir: "/opt/cni/bin", Delegates: 2}
	shim := &MultusSettings{ClusterNetwork: "pods", BinDir: "/bin", DefaultNetworks: []string{"wan"}, SystemNamespaces: []string{"kube-system"}}
	want := &MultusSettings{
		NamespaceIsolation: true, DefaultNetworks: []string{"lan"}, SystemNamespaces: []string{}, BinDir: "/opt/cni/bin", Delegates: 2,
		ClusterNetwork: "pods",
	}
	if diff := cmp.Diff(want, daemon.Over(shim)); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
	if shim.NamespaceIsolation || shim.DefaultNetworks[0] != "wan" {
		t.Error("the file's settings were changed")
	}
	var none *MultusSettings
	if none.Over(shim) != shim || daemon.Over(nil) != daemon {
		t.Error("settings alone are not as they are")
	}
}

func TestReadOnly(t *testing.T) {
	mounts := []byte(`22 1 8:1 / / ro,relatime shared:1 - ext4 /dev/sda1 ro
23 22 0:21 / /var rw,relatime shared:2 - ext4 /dev/sda2 rw
24 22 0:22 / /run rw,nosuid - tmpfs tmpfs rw
25 24 0:23 / /run/locked rw - tmpfs tmpfs rw
26 25 0:24 / /run/locked ro - tmpfs tmpfs ro
short line
`)
	for path, want := range map[string]bool{
		"/etc/cdi": true, "/var/run/cdi": false, "/run/cdi": false, "/runaway": true, "/run/locked/cdi": true, "/": true,
	} {
		if got := ReadOnly(mounts, path); got != want {
			t.Errorf("%s is read-only: %v", path, got)
		}
	}
	if ReadOnly(nil, "/run/cdi") {
		t.Error("nothing is known, and it is read-only")
	}
}
