package cluster

import (
	"strings"
	"testing"
	"time"
)

func TestCRIOConfig(t *testing.T) {
	rendered, err := render("crio.toml", crioTemplate, crioSettings{
		Driver: "vfs", PauseImage: PauseImage, Runc: "/x/runc", Pinns: "/x/pinns", Conmon: "/x/conmon", Policy: "/x/policy", NRITimeout: 1500 * time.Millisecond, Layout: layouts[Elsewhere],
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`storage_driver = "vfs"`, `pause_image = "localhost/pause:1"`, `runtime_path = "/x/runc"`, `pinns_path = "/x/pinns"`,
		`monitor_path = "/x/conmon"`, `signature_policy = "/x/policy"`, `nri_listen = "/run/elsewhere/nri.sock"`, `plugin_dirs = ["/srv/cni/bin"]`, `nri_plugin_request_timeout = "1.5s"`,
	} {
		if !strings.Contains(string(rendered), want) {
			t.Errorf("the configuration lacks %s:\n%s", want, rendered)
		}
	}
}

func TestWithoutUnmounted(t *testing.T) {
	const head, memory = "#subsys_name\thierarchy\tnum_cgroups\tenabled\n", "memory\t0\t1\t1\n"
	for hugetlb, want := range map[string]string{
		"hugetlb\t0\t1\t1\n": head + memory,
		"hugetlb\t7\t1\t1\n": head + "hugetlb\t7\t1\t1\n" + memory,
	} {
		if got := string(withoutUnmounted([]byte(head + hugetlb + memory))); got != want {
			t.Errorf("of %q is left %q, want %q", hugetlb, got, want)
		}
	}
}

func TestRuntimeVariable(t *testing.T) {
	for value, ok := range map[string]bool{"": true, "containerd": true, "crio": true, "cri-o": false} {
		t.Setenv(RuntimeVariable, value)
		if err := checkRuntimeVariable(); (err == nil) != ok {
			t.Errorf("%q: %v", value, err)
		}
	}
}
