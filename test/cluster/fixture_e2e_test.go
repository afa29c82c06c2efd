//go:build e2e

package cluster_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nadra-dev/nadra/test/cluster"
)

// fixture is a running cluster and what the tests do with it.
type fixture struct {
	t   *testing.T
	ctx context.Context
	c   *cluster.Cluster
}

// run runs a subtest. The later ones build on it.
func (f fixture) run(name string, test func(*testing.T)) {
	f.t.Helper()
	if !f.t.Run(name, test) {
		if logs, err := f.c.SaveLogs("e2e-cluster"); err == nil {
			f.t.Log("logs are in", logs)
		}
		f.t.FailNow()
	}
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

// hostPod is what a driver of the node looks like.
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

// createPod creates a pod on a node, 0 meaning any, and returns its address
// when it is ready.
func (f fixture) createPod(t *testing.T, name string, node int) string {
	t.Helper()
	place := ""
	if node > 0 {
		place = "nodeName: " + f.c.Node(node).Name()
	}
	f.apply(t, fmt.Sprintf(podManifest, name, place))
	f.waitReady(t, name)
	return f.kubectl(t, "get", "pod", name, "-o", "jsonpath={.status.podIP}")
}

func (f fixture) apply(t *testing.T, manifest string) {
	t.Helper()
	if _, err := f.c.KubectlInput(f.ctx, manifest, "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
}

func (f fixture) waitReady(t *testing.T, pod string) {
	t.Helper()
	if _, err := f.c.Kubectl(f.ctx, "wait", "--for=condition=Ready", "--timeout=60s", "pod/"+pod); err != nil {
		events, _ := f.c.Kubectl(f.ctx, "describe", "pod", pod)
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

// leftovers is what a cluster must not leave on the real machine.
type leftovers struct {
	processes, mounts, groups, links, namespaces []string
	folder                                       bool
}

// observe looks at the real machine.
func observe(t *testing.T, dir string) leftovers {
	t.Helper()
	var seen leftovers
	environments, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range environments {
		if content, _ := os.ReadFile(path); strings.Contains(string(content), "NADRA_CLUSTER="+dir) {
			seen.processes = append(seen.processes, path)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	seen.mounts = strings.Split(string(mounts), "\n")
	group := fmt.Sprintf("nadra-%.4x", sha256.Sum256([]byte(dir)))
	for _, pattern := range []string{"/sys/fs/cgroup/*/", "/sys/fs/cgroup/"} {
		groups, err := filepath.Glob(pattern + group)
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
