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
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	"k8s.io/client-go/rest"

	"github.com/nadra-dev/nadra/test/cluster"
)

// TestTwoClusters starts two clusters at the same time, the second one from a network
// namespace with no way out, and checks that they share nothing. It then stops the second
// one and tests everything that this package offers on the first one; the order matters.
func TestTwoClusters(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	artifacts, err := cluster.Build(ctx, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	dirs := []string{newRunFolder(t), newRunFolder(t)}
	before := []leftovers{observe(t, dirs[0]), observe(t, dirs[1])}
	f := fixture{t: t, ctx: ctx, tool: filepath.Join(artifacts.Tool, "nadra-cluster")}
	var started errgroup.Group
	started.Go(func() (err error) {
		f.c, err = cluster.Start(ctx, cluster.Options{Dir: dirs[0], Nodes: 2, Out: t.Output()})
		return err
	})
	started.Go(func() (err error) {
		if _, err = f.runIsolated("", "up", "-dir", dirs[1]); err == nil {
			f.second, err = cluster.Open(dirs[1])
		}
		return err
	})
	if err := started.Wait(); err != nil {
		t.Fatal(err)
	}

	f.run("a second start is refused", f.testSecondStart)
	f.run("the API answers from outside", f.testAPIFromOutside)
	f.run("pods run on all nodes", f.testPods)
	f.run("the clusters share nothing", f.testIsolation)
	f.run("pods do not inherit the environment of components", f.testEnvironment)
	f.run("the second cluster can be stopped", func(t *testing.T) {
		if _, err := f.runIsolated("", "down", "-dir", dirs[1]); err != nil {
			t.Fatal(err)
		}
		before[1].compare(t, observe(t, dirs[1]))
	})
	f.run("pods of two nodes reach each other", f.testPodNetwork)
	f.run("network namespaces can be entered", f.testNetNS)
	f.run("a pod sees the mounts of its node", f.testMountPropagation)
	f.run("components can be restarted", f.testRestart)
	f.run("a node can be rebooted", f.testReboot)
	f.run("nothing is left", func(t *testing.T) {
		if err := f.c.Stop(ctx); err != nil {
			t.Fatal(err)
		}
		before[0].compare(t, observe(t, dirs[0]))
	})
}

// newRunFolder makes a run folder and stops what runs in it when the test ends.
func newRunFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "nadra-e2e-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The context of the test has ended by then.
		if err := cluster.Stop(context.Background(), dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// TestStartFails checks that the error has the reason and the folder of the
// logs, and that nothing else is left. It removes these logs, since only the
// newest are kept and those of real failures are among them.
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
				t.Fatalf("starting gives the error %v, want one that names the wrong setting", err)
			}
			logs := regexp.MustCompile(`all logs are in (/.+)\)`).FindStringSubmatch(err.Error())
			if logs == nil {
				t.Errorf("the error does not say where the logs are: %v", err)
			} else if err := os.RemoveAll(logs[1]); err != nil {
				t.Error(err)
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

// testPods creates the pods of the next tests all at once, because a pod takes
// longer to become ready than the machine is busy with it.
func (f fixture) testPods(t *testing.T) {
	f.apply(t, podOn("one", "node-1")+"---"+podOn("two", "node-2")+"---"+hostPod)
	if _, err := f.runIsolated(podOn("twin", "node-1"), "kubectl", "-dir", f.second.Dir(), "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	f.waitReady(t, "one", "two", "host")
	f.other().waitReady(t, "twin")
}

// testIsolation compares the two clusters, whose nodes and pods have the same
// names and addresses.
func (f fixture) testIsolation(t *testing.T) {
	if one, twin := f.address(t, "one"), f.other().address(t, "twin"); one != twin {
		t.Errorf("the pods have the addresses %s and %s, want the same", one, twin)
	}
	pods := []string{"pod/host pod/one pod/two", "pod/twin"}
	for i, side := range []fixture{f, f.other()} {
		own, foreign := side.c, side.second
		node := own.Node(1)
		if listed := strings.Join(strings.Fields(side.kubectl(t, "get", "pods", "-A", "-o", "name")), " "); listed != pods[i] {
			t.Errorf("the API server lists %q, want %q", listed, pods[i])
		}
		if _, err := os.Stat(filepath.Join(own.Dir(), "kubectl-cache")); err != nil {
			t.Errorf("kubectl does not cache in the run folder: %v", err)
		}
		containers, err := node.Sandboxes(f.ctx)
		if err != nil {
			t.Fatal(err)
		}
		others, err := foreign.Node(1).Sandboxes(f.ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range containers {
			if slices.Contains(others, id) {
				t.Errorf("both runtimes list sandbox %s", id)
			}
		}
		groups := f.onNode(t, node, "cat /proc/[0-9]*/cgroup 2>/dev/null | grep -o 'nadra-[0-9a-f]*' | sort -u")
		if strings.TrimSpace(groups) != groupOf(own.Dir()) {
			t.Errorf("the node has processes in the control groups %q, want only %s", groups, groupOf(own.Dir()))
		}
		f.onNode(t, node, "touch /var/tmp/"+groupOf(own.Dir()))
	}
	for _, c := range []*cluster.Cluster{f.c, f.second} {
		if files := f.onNode(t, c.Node(1), "ls /var/tmp"); strings.TrimSpace(files) != groupOf(c.Dir()) {
			t.Errorf("the node has the files %q in /var/tmp, want its own", files)
		}
	}
}

func (f fixture) testEnvironment(t *testing.T) {
	const kubelet = "tr '\\0' '\\n' < /proc/$(pidof kubelet)/environ"
	if environment := f.onNode(t, f.c.Node(1), kubelet); !strings.Contains(environment, "GOGC=400\nGOMAXPROCS=1\n") {
		t.Errorf("the environment of the kubelet does not save CPU time:\n%s", environment)
	}
	if environment := f.execPod(t, "one", "cat", "/proc/1/environ"); strings.Contains(environment, "GO") {
		t.Errorf("the environment of a container has settings of Go: %q", environment)
	}
}

// testPodNetwork runs after the second cluster was stopped.
func (f fixture) testPodNetwork(t *testing.T) {
	f.execPod(t, "one", "ping", "-c", "1", "-W", "5", f.address(t, "two"))
	f.execPod(t, "two", "ping", "-c", "1", "-W", "5", f.address(t, "one"))
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
	f.createPod(t, "later", "nodeName: node-1")
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
	if err := node.Restart(f.ctx, node.Runtime().Name()); err != nil {
		t.Fatal(err)
	}
	if _, err := node.Sandboxes(f.ctx); err != nil {
		t.Errorf("the runtime counts as working, but its CRI fails: %v", err)
	}
	for _, component := range f.c.ControlPlane().Components() {
		// SIGKILL, because after SIGTERM the API server waits for all its clients.
		if err := f.c.ControlPlane().Kill(f.ctx, component, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if err := f.c.ControlPlane().StartComponent(f.ctx, component); err != nil {
			t.Fatal(err)
		}
	}
	// The scheduler has to bind the pod to the node whose components were restarted.
	f.createPod(t, "restarted", "nodeSelector: {kubernetes.io/hostname: node-1}")
	f.execPod(t, "one", "true") // it has survived everything
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
	address := f.createPod(t, "rebooted", "nodeName: node-2")
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
