//go:build e2e

package cluster_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nadra-dev/nadra/test/cluster"
)

// fixture is a running cluster, with the tests' operations on it.
type fixture struct {
	t         *testing.T
	ctx       context.Context
	tool      string // nadra-cluster
	c, second *cluster.Cluster
}

// other returns the fixture with the clusters exchanged.
func (f fixture) other() fixture {
	f.c, f.second = f.second, f.c
	return f
}

// run runs a subtest. The later ones build on it.
func (f fixture) run(name string, test func(*testing.T)) {
	f.t.Helper()
	if !f.t.Run(name, test) {
		for _, c := range []*cluster.Cluster{f.c, f.second} {
			if logs, err := c.SaveLogs("e2e-cluster"); err == nil {
				f.t.Log("logs are in", logs)
			}
		}
		f.t.FailNow()
	}
}

// runIsolated runs nadra-cluster in a new network namespace, which has only lo, and that is
// down. It returns nadra-cluster's output.
func (f fixture) runIsolated(input string, args ...string) (string, error) {
	cmd := exec.CommandContext(f.ctx, f.tool, args...)
	cmd.Stdin = strings.NewReader(input)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
	output, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("running %q in a network namespace of its own: %w\n%s", cmd.Args, err, output)
	}
	return string(output), err
}

const podManifest = `
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  %s
  terminationGracePeriodSeconds: 0
  containers:
  - {name: main, image: "localhost/test:1", imagePullPolicy: Never}
`

// hostPod is a pod with the host's view, as a driver of the node has it.
const hostPod = `
apiVersion: v1
kind: Pod
metadata: {name: host}
spec:
  nodeName: node-1
  hostNetwork: true
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: localhost/test:1
    imagePullPolicy: Never
    securityContext: {privileged: true}
    volumeMounts: [{name: host, mountPath: /host, mountPropagation: HostToContainer}]
  volumes: [{name: host, hostPath: {path: /}}]
`

func podOn(name, node string) string { return fmt.Sprintf(podManifest, name, "nodeName: "+node) }

// createPod creates a pod and returns its address when it is ready. place is
// the field of its spec that decides about the node.
func (f fixture) createPod(t *testing.T, name, place string) string {
	t.Helper()
	f.apply(t, fmt.Sprintf(podManifest, name, place))
	f.waitReady(t, name)
	return f.address(t, name)
}

func (f fixture) address(t *testing.T, pod string) string {
	t.Helper()
	return f.kubectl(t, "get", "pod", pod, "-o", "jsonpath={.status.podIP}")
}

func (f fixture) apply(t *testing.T, manifest string) {
	t.Helper()
	if _, err := f.c.KubectlInput(f.ctx, manifest, "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
}

func (f fixture) waitReady(t *testing.T, pods ...string) {
	t.Helper()
	if _, err := f.c.Kubectl(f.ctx, append([]string{"wait", "--for=condition=Ready", "--timeout=60s", "pod"}, pods...)...); err != nil {
		events, _ := f.c.Kubectl(f.ctx, append([]string{"describe", "pod"}, pods...)...)
		t.Fatalf("%v\n%s", err, events)
	}
}

func (f fixture) execPod(t *testing.T, pod string, command ...string) string {
	t.Helper()
	return f.kubectl(t, append([]string{"exec", pod, "--"}, command...)...)
}

func (f fixture) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	output, err := f.c.Kubectl(f.ctx, args...)
	if err != nil {
		t.Fatal(err)
	}
	return output
}

// onNode runs a shell command on a node.
func (f fixture) onNode(t *testing.T, node *cluster.Node, command string) string {
	t.Helper()
	output, err := node.Exec(f.ctx, "sh", "-c", command)
	if err != nil {
		t.Fatal(err)
	}
	return string(output)
}

// groupOf returns the name of the control group of the cluster in a run folder.
func groupOf(dir string) string { return fmt.Sprintf("nadra-%.4x", sha256.Sum256([]byte(dir))) }

// leftovers is what a cluster must not leave on the real machine.
type leftovers struct {
	processes, mounts, groups, links, namespaces []string
	folder                                       bool
}

// observe returns the state of the real machine.
func observe(t *testing.T, dir string) leftovers {
	t.Helper()
	var seen leftovers
	environments, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range environments {
		if content, _ := os.ReadFile(path); strings.Contains(string(content), "NADRA_CLUSTER="+dir+"\x00") {
			seen.processes = append(seen.processes, path)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	seen.mounts = strings.Split(string(mounts), "\n")
	for _, pattern := range []string{"/sys/fs/cgroup/*/", "/sys/fs/cgroup/"} {
		groups, err := filepath.Glob(pattern + groupOf(dir))
		if err != nil {
			t.Fatal(err)
		}
		seen.groups = append(seen.groups, groups...)
	}
	links, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		seen.links = append(seen.links, link.Name)
	}
	seen.namespaces, _ = filepath.Glob("/run/netns/*")
	_, err = os.Stat(dir)
	seen.folder = err == nil
	return seen
}

func (before leftovers) compare(t *testing.T, after leftovers) {
	t.Helper()
	if after.folder {
		t.Error("the run folder is left")
	}
	for what, lists := range map[string][2][]string{
		"processes":          {before.processes, after.processes},
		"mounts":             {before.mounts, after.mounts},
		"control groups":     {before.groups, after.groups},
		"links":              {before.links, after.links},
		"network namespaces": {before.namespaces, after.namespaces},
	} {
		if !slices.Equal(lists[0], lists[1]) {
			t.Errorf("%s before:\n%s\nand after:\n%s", what, strings.Join(lists[0], "\n"), strings.Join(lists[1], "\n"))
		}
	}
}
