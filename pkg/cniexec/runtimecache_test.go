package cniexec

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containernetworking/cni/libcni"
	"github.com/google/go-cmp/cmp"
)

// TestDefaultNetwork checks what is read of a runtime's cache: the entry of a sandbox's eth0, and nothing
// if there is none or several. A torn file is an error.
func TestDefaultNetwork(t *testing.T) {
	w := newWorld(t)
	dir := filepath.Join(w.dir, "host", "results")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	entry := func(network, id, ifName string) string {
		return `{"kind":"cniCacheV1","containerId":"` + id + `","ifName":"` + ifName + `","networkName":"` + network + `","result":{"cniVersion":"1.0.0"}}`
	}
	for name, content := range map[string]string{
		"cni-loopback-aa-lo": entry("cni-loopback", "aa", "lo"), "blue-aa-eth0": entry("blue", "aa", "eth0"), "red-baa-eth0": entry("red", "baa", "eth0"),
		"blue-bb-eth0": entry("blue", "bb", "eth0"), "red-bb-eth0": entry("red", "bb", "eth0"),
		"blue-cc-eth0": entry("blue", "cc", "eth0")[:40],
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for id, want := range map[string]string{"aa": "blue", "bb": "", "dd": ""} {
		got := ""
		c, err := w.DefaultNetwork(id)
		if c != nil {
			got = c.Network
		}
		if err != nil || got != want {
			t.Errorf("sandbox %s: network %q, %v, want %q", id, got, err, want)
		}
	}
	if c, err := w.DefaultNetwork("cc"); err == nil || c != nil {
		t.Errorf("a torn file: %+v, %v", c, err)
	}
}

// TestForgetDefaultRoutes checks a result that a runtime's own libcni has written, by what that
// libcni then passes to CHECK and DEL.
func TestForgetDefaultRoutes(t *testing.T) {
	for name, tt := range map[string]struct {
		routes string
		want   []string
	}{
		"both families": {`[{"dst":"0.0.0.0/0","gw":"10.1.0.1"},{"dst":"10.2.0.0/16"},{"dst":"::/0","mtu":1400},{"dst":"::0/0"}]`, []string{"10.2.0.0/16"}},
		"only one":      {`[{"dst":"0.0.0.0/0"}]`, nil},
		"no default":    {`[{"dst":"10.2.0.0/16"}]`, []string{"10.2.0.0/16"}},
		"no routes":     {`null`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.plugin(t, "p", `cat >$DIR/p.$CNI_COMMAND; [ $CNI_COMMAND != ADD ] || echo '`+
				`{"cniVersion":"1.0.0","interfaces":[{"name":"eth0","sandbox":"<&>"}],"ips":[{"address":"10.1.0.5/24","interface":0}],"routes":`+tt.routes+`}'`)
			runtime := libcni.NewCNIConfigWithCacheDir([]string{w.bin}, filepath.Join(w.dir, "host"), nil)
			list, err := libcni.NetworkConfFromBytes(conflist("p").Conflist)
			if err != nil {
				t.Fatal(err)
			}
			conf := func(id string) *libcni.RuntimeConf {
				return &libcni.RuntimeConf{ContainerID: id, NetNS: "/proc/self/ns/net", IfName: "eth0", Args: [][2]string{{"K8S_POD_NAME", "<web>"}}}
			}
			for _, id := range []string{"aa", "bb"} {
				if _, err := runtime.AddNetworkList(t.Context(), list, conf(id)); err != nil {
					t.Fatal(err)
				}
			}
			other := filepath.Join(w.dir, "host", "results", "blue-bb-eth0")
			untouched := read(t, other)
			for range 2 {
				if err := w.ForgetDefaultRoutes("aa"); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(untouched, read(t, other)); diff != "" {
				t.Errorf("the result of another sandbox (-before +after):\n%s", diff)
			}
			if err := runtime.CheckNetworkList(t.Context(), list, conf("aa")); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, w.routesGivenTo(t, "CHECK")); diff != "" {
				t.Errorf("routes for CHECK (-want +got):\n%s", diff)
			}
			if err := runtime.DelNetworkList(t.Context(), list, conf("aa")); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, w.routesGivenTo(t, "DEL")); diff != "" {
				t.Errorf("routes for DEL (-want +got):\n%s", diff)
			}
			if got := read(t, filepath.Join(w.dir, "p.DEL")); !strings.Contains(got, `"sandbox":"`) || !strings.Contains(got, "10.1.0.5/24") {
				t.Errorf("the rest of the result is not as it was: %s", got)
			}
		})
	}
}

// TestForgetDefaultRoutesWithoutAResult checks a sandbox of which the runtime keeps no result, and
// one whose result cannot be read.
func TestForgetDefaultRoutesWithoutAResult(t *testing.T) {
	w := newWorld(t)
	if err := w.ForgetDefaultRoutes("aa"); err != nil {
		t.Errorf("no directory: %v", err)
	}
	damage(t, w.foreign[0], "blue-bb-eth0")
	if err := w.ForgetDefaultRoutes("aa"); err != nil {
		t.Errorf("no result: %v", err)
	}
	if err := w.ForgetDefaultRoutes("bb"); err == nil || !strings.Contains(err.Error(), "blue-bb-eth0") {
		t.Errorf("a damaged result: %v", err)
	}
	long := `{"result":{"routes":[{"dst":"0.0.0.0/0"}]}}` + strings.Repeat(" ", maxCacheFile)
	if err := os.WriteFile(filepath.Join(w.dir, "host", "results", "blue-cc-eth0"), []byte(long), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := w.ForgetDefaultRoutes("cc"); err == nil || !strings.Contains(err.Error(), "blue-cc-eth0") {
		t.Errorf("a huge result: %v", err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// routesGivenTo returns the destinations of the routes in the prevResult that the plugin got.
func (w *world) routesGivenTo(t *testing.T, verb string) []string {
	t.Helper()
	var conf struct {
		PrevResult struct {
			Routes []struct{ Dst string }
		}
	}
	if err := json.Unmarshal([]byte(read(t, filepath.Join(w.dir, "p."+verb))), &conf); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, r := range conf.PrevResult.Routes {
		out = append(out, r.Dst)
	}
	return out
}
