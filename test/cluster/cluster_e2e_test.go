//go:build e2e

package cluster_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/rest"

	"github.com/nadra-dev/nadra/test/cluster"
)

// TestCluster takes one cluster of two nodes through all that this package
// offers; the order matters.
func TestCluster(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "nadra-e2e-")
	if err != nil {
		t.Fatal(err)
	}
	before := observe(t, dir)
	c, err := cluster.Start(ctx, cluster.Options{Dir: dir, Nodes: 2, Out: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// As a test ends its context, but not the cluster.
		if err := cluster.Stop(context.Background(), dir); err != nil {
			t.Error(err)
		}
	})
	f := fixture{t: t, ctx: ctx, c: c}

	f.run("a second start is refused", f.testSecondStart)
	f.run("the API answers from outside", f.testAPIFromOutside)
	f.run("pods of two nodes reach each other", f.testPods)
	f.run("network namespaces can be entered", f.testNetNS)
	f.run("a pod sees the mounts of its node", f.testMountPropagation)
	f.run("components can be restarted", f.testRestart)
	f.run("a node can be rebooted", f.testReboot)
	f.run("nothing is left", func(t *testing.T) {
		if err := c.Stop(ctx); err != nil {
			t.Fatal(err)
		}
		before.compare(t, observe(t, dir))
	})
}

// TestStartFails wants to know why, and nothing to be left.
func TestStartFails(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	for name, options := range map[string]cluster.Options{
		"API server": {APIServerArgs: []string{"--no-such-flag"}},
		"kubelet":    {KubeletConfig: map[string]any{"syncFrequency": "no-such-flag"}},
	} {
		t.Run(name, func(t *testing.T) {
			options.Dir = filepath.Join(t.TempDir(), "run")
			before := observe(t, options.Dir)
			t.Cleanup(func() {
				if err := cluster.Stop(context.Background(), options.Dir); err != nil {
					t.Error(err)
				}
			})
			_, err := cluster.Start(t.Context(), options)
			if err == nil || !strings.Contains(err.Error(), "no-such-flag") {
				t.Errorf("starting gives the error %v, want one that names the wrong setting", err)
			}
			before.compare(t, observe(t, options.Dir))
		})
	}
}

func (f fixture) testSecondStart(t *testing.T) {
	_, err := cluster.Start(f.ctx, cluster.Options{Dir: f.c.Dir()})
	if !errors.Is(err, cluster.ErrRunning) {
		t.Errorf("starting again gives %v, want ErrRunning", err)
	}
	opened, err := cluster.Open(f.c.Dir())
	if err != nil {
		t.Fatal(err)
	}
	if got := len(opened.Nodes()); got != 2 {
		t.Errorf("the opened cluster has %d nodes, want 2", got)
	}
}

func (f fixture) testAPIFromOutside(t *testing.T) {
	config, err := f.c.RESTConfig()
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Get(config.Host + "/api/v1/nodes/node-2")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	if response.StatusCode != http.StatusOK || !strings.Contains(string(body), `"node-2"`) {
		t.Errorf("GET node-2: %s: %.200s", response.Status, body)
	}
}

func (f fixture) testPods(t *testing.T) {
	one := f.createPod(t, "one", 1)
	two := f.createPod(t, "two", 2)
	f.execPod(t, "one", "ping", "-c", "1", "-W", "5", two)
	f.execPod(t, "two", "ping", "-c", "1", "-W", "5", one)
	for _, pod := range []string{"one", "two"} {
		f.execPod(t, pod, "sh", "-c", "nc -w 5 10.97.0.1 443 </dev/null")
	}
}

func (f fixture) testNetNS(t *testing.T) {
	node := f.c.Node(1)
	paths, err := node.PodNetNSPaths()
	if err != nil || len(paths) != 1 {
		t.Fatalf("network namespaces %q (%v), want one", paths, err)
	}
	path := "/var" + paths[0] // as containerd calls it, through a link
	ns, err := node.PodNetNS(path)
	if err != nil {
		t.Fatal(err)
	}
	ns.Close()
	outside, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	var address string
	err = node.DoInNetNS(path, func() error {
		eth0, err := net.InterfaceByName("eth0")
		if err != nil {
			return err
		}
		addresses, err := eth0.Addrs()
		address = addresses[0].String()
		return err
	})
	if err != nil || !strings.HasPrefix(address, "10.98.1.") {
		t.Errorf("address of the pod %q (%v), want one of node-1", address, err)
	}
	after, err := net.Interfaces()
	if err != nil || len(after) != len(outside) {
		t.Errorf("afterwards there are %d interfaces (%v), before %d", len(after), err, len(outside))
	}
}

func (f fixture) testMountPropagation(t *testing.T) {
	f.apply(t, hostPod)
	f.waitReady(t, "host")
	f.createPod(t, "later", 1)
	if mounts := f.execPod(t, "host", "cat", "/proc/mounts"); !strings.Contains(mounts, "/host/run/netns/cni-") {
		t.Errorf("the pod does not see the network namespaces of its node:\n%s", mounts)
	}
	path, err := f.c.Node(1).HostPath("/opt/cni/bin/mark")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("here"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := f.execPod(t, "host", "cat", "/host/opt/cni/bin/mark"); got != "here" {
		t.Errorf("the pod reads %q", got)
	}
	if _, err := f.c.Node(2).Exec(f.ctx, "ls", "/opt/cni/bin/mark"); err == nil {
		t.Error("node-2 has the file of node-1")
	}
}

func (f fixture) testRestart(t *testing.T) {
	node := f.c.Node(1)
	if err := node.Kill(f.ctx, cluster.Kubelet, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if node.Running(cluster.Kubelet) {
		t.Error("kubelet still runs")
	}
	if err := node.StartComponent(f.ctx, cluster.Kubelet); err != nil {
		t.Fatal(err)
	}
	if err := node.Restart(f.ctx, cluster.Containerd); err != nil {
		t.Fatal(err)
	}
	if _, err := node.Sandboxes(f.ctx); err != nil {
		t.Errorf("containerd is said to work, and its CRI does not: %v", err)
	}
	f.createPod(t, "restarted", 1)
	for _, component := range f.c.ControlPlane().Components() {
		// A crash: asked nicely, the API server waits for all its clients.
		if err := f.c.ControlPlane().Kill(f.ctx, component, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if err := f.c.ControlPlane().StartComponent(f.ctx, component); err != nil {
			t.Fatal(err)
		}
	}
	f.createPod(t, "scheduled", 0)
	f.execPod(t, "one", "true") // it has survived all of it
}

func (f fixture) testReboot(t *testing.T) {
	node := f.c.Node(2)
	before := bootID(t, f.ctx, node)
	if err := node.Reboot(f.ctx); err != nil {
		t.Fatal(err)
	}
	if after := bootID(t, f.ctx, node); after == before {
		t.Errorf("the boot ID is still %s", after)
	}
	address := f.createPod(t, "rebooted", 2)
	f.execPod(t, "one", "ping", "-c", "1", "-W", "5", address)
}

func bootID(t *testing.T, ctx context.Context, node *cluster.Node) string {
	t.Helper()
	seen, err := node.Exec(ctx, "cat", "/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Fatal(err)
	}
	id, err := node.BootID()
	if err != nil {
		t.Fatal(err)
	}
	if id != strings.TrimSpace(string(seen)) {
		t.Errorf("node %s sees boot ID %q, want %q", node.Name(), seen, id)
	}
	return id
}
