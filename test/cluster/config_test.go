package cluster

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestContainerdConfig(t *testing.T) {
	rendered, err := containerdConfig(containerdSettings{
		Snapshotter: "native", PauseImage: PauseImage, Runc: "/x/runc", NRITimeout: 1500 * time.Millisecond, Layout: layouts[Elsewhere],
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`snapshotter = "native"`,
		`sandbox = "localhost/pause:1"`,
		`BinaryName = "/x/runc"`,
		`plugin_request_timeout = "1.5s"`,
		`restrict_oom_score_adj = true`,
		`socket_path = "/run/elsewhere/nri.sock"`,
		`bin_dirs = ["/srv/cni/bin"]`,
		`conf_dir = "/srv/cni/net.d"`,
		`cdi_spec_dirs = ["/etc/cdi", "/run/elsewhere-cdi"]`,
	} {
		if !strings.Contains(string(rendered), want) {
			t.Errorf("the configuration lacks %s:\n%s", want, rendered)
		}
	}
}

func TestKubeletConfigOverride(t *testing.T) {
	config := kubeletConfig("10.99.0.7", "/nadra-x/node-7", "/run/r.sock", "/srv/kubelet", map[string]any{"syncFrequency": "1m", "maxPods": 5})
	for field, want := range map[string]any{
		"address":       "10.99.0.7",
		"cgroupRoot":    "/nadra-x/node-7",
		"syncFrequency": "1m",
		"maxPods":       5,
		"failCgroupV1":  false,

		"volumePluginDir": "/srv/kubelet/volume-plugins",

		"containerRuntimeEndpoint": "unix:///run/r.sock",
	} {
		if config[field] != want {
			t.Errorf("%s is %v, want %v", field, config[field], want)
		}
	}
	if again := kubeletConfig("10.99.0.7", "/", "", "", nil); again["syncFrequency"] != "2s" {
		t.Errorf("the default of syncFrequency has become %v", again["syncFrequency"])
	}
}

func TestDefaultNetwork(t *testing.T) {
	rendered, err := json.Marshal(defaultNetwork(familiesOf["dual"].podCIDRs(3)...))
	if err != nil {
		t.Fatal(err)
	}
	if want := `"ranges":[[{"subnet":"10.98.3.0/24"}],[{"subnet":"fd00:98:0:3::/64"}]]`; !strings.Contains(string(rendered), want) {
		t.Errorf("the network lacks %s:\n%s", want, rendered)
	}
}

func TestUsers(t *testing.T) {
	dir := secrets(t.TempDir())
	if err := dir.create(2, familiesOf[""]); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{tokenFile, accountKey, certificateKey, "node-2.kubeconfig"} {
		if info := stat(t, dir.path(name)); info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %o", name, info.Mode().Perm())
		}
	}
	tokens := readText(t, dir.path(tokenFile))
	if !strings.Contains(tokens, `,system:node:node-2,node-2,"system:nodes"`) {
		t.Errorf("node-2 has no user of its own:\n%s", tokens)
	}
}

func TestNodeUsable(t *testing.T) {
	const reported = `{"status":{"nodeInfo":{"bootID":"b"},"conditions":[{"type":"Ready","status":"%"}]}}`
	tests := []struct {
		name, status, boot string
		want               bool
	}{
		{"ready", strings.Replace(reported, "%", "True", 1), "b", true},
		{"not ready", strings.Replace(reported, "%", "False", 1), "b", false},
		{"ready before the reboot", strings.Replace(reported, "%", "True", 1), "c", false},
		{"not reached", `{"spec":{"taints":[{"key":"node.kubernetes.io/unreachable"}]},` + strings.Replace(reported, "%", "True", 1)[1:], "b", false},
		{"cordoned", `{"spec":{"taints":[{"key":"k"},{"key":"node.kubernetes.io/unschedulable"}]},` + strings.Replace(reported, "%", "True", 1)[1:], "b", true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var status nodeStatus
			if err := json.Unmarshal([]byte(test.status), &status); err != nil {
				t.Fatal(err)
			}
			if got, reason := status.usable(test.boot); got != test.want {
				t.Errorf("usable is %t (%v), want %t", got, reason, test.want)
			}
		})
	}
}

func TestNetNSOf(t *testing.T) {
	const sandbox = `{"pid":7,"runtimeSpec":{"linux":{"namespaces":[{"type":"pid"},{"type":"network"%}]}}}`
	path, err := netnsOf(strings.Replace(sandbox, "%", `,"path":"/var/run/netns/cni-1"`, 1))
	if err != nil || path != "/var/run/netns/cni-1" {
		t.Errorf("the network namespace is %q (%v)", path, err)
	}
	for _, info := range []string{"", strings.Replace(sandbox, "%", "", 1)} { // without a namespace, and the host's
		if path, err := netnsOf(info); err == nil {
			t.Errorf("of %q the network namespace is %q", info, path)
		}
	}
}
