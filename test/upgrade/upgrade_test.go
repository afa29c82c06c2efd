//go:build e2e

package upgrade

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/internal/cli"
	"github.com/nadra-dev/nadra/internal/upgrade"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/test/lab"
)

const namespace = "core"

// stack are workloads of each kind that a node's move has to do with: one that
// may go anywhere, one with names and addresses of its own, one on every node,
// and one without networks, which nobody is to touch.
const stack = `
apiVersion: v1
kind: Namespace
metadata: {name: core}
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: n3, namespace: core}
spec: {config: '{"cniVersion":"1.0.0","name":"n3","type":"macvlan","master":"lan0","mode":"bridge","ipam":{"type":"host-local","subnet":"10.93.0.0/24","rangeStart":"10.93.0.10","rangeEnd":"10.93.0.200"}}'}
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: n6, namespace: core}
spec: {config: '{"cniVersion":"1.0.0","name":"n6","plugins":[{"type":"macvlan","master":"lan0","mode":"bridge","capabilities":{"ips":true},"ipam":{"type":"static"}},{"type":"tuning","mtu":1400}]}'}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: smf, namespace: core}
spec:
  replicas: 2
  selector: {matchLabels: {app: smf}}
  template:
    metadata: {labels: {app: smf}, annotations: {k8s.v1.cni.cncf.io/networks: n3}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: main, image: localhost/test:1, imagePullPolicy: Never, command: [/bin/sleep, infinity]}]
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: upf, namespace: core}
spec:
  replicas: 1
  serviceName: upf
  selector: {matchLabels: {app: upf}}
  template:
    metadata:
      labels: {app: upf}
      annotations: {k8s.v1.cni.cncf.io/networks: '[{"name":"n3","interface":"n3"},{"name":"n6","interface":"n6","ips":["10.96.0.7/24"],"mac":"02:00:00:00:96:07"}]'}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: main, image: localhost/test:1, imagePullPolicy: Never, command: [/bin/sleep, infinity]}]
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: probe, namespace: core}
spec:
  selector: {matchLabels: {app: probe}}
  template:
    metadata: {labels: {app: probe}, annotations: {k8s.v1.cni.cncf.io/networks: n3@net9}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: main, image: localhost/test:1, imagePullPolicy: Never, command: [/bin/sleep, infinity]}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: plain, namespace: core}
spec:
  replicas: 2
  selector: {matchLabels: {app: plain}}
  template:
    metadata: {labels: {app: plain}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: main, image: localhost/test:1, imagePullPolicy: Never, command: [/bin/sleep, infinity]}]
`

// networked are how many pods of the stack have networks.
const networked = 5

// A cluster moves: planned, carried out by a process that is killed again and
// again, compared with what was before; then one node goes back, and forth once
// more; then everything goes back, and forth for good, and Multus is removed.
func TestUpgrade(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	f := &fixture{Lab: theLab, T: t, ctx: ctx, dir: t.TempDir()}
	f.must(f.Apply(ctx, stack))
	f.settled(v1alpha1.OwnerMultus, f.nodes()...)
	plain := f.uids("plain")

	f.kubectl("apply", "-k", filepath.Join(lab.Root(), "manifests", "drop-in"))
	f.kubectl("-n", "nadra", "rollout", "status", "daemonset/nadra-node", "--timeout=120s")
	f.must(f.WaitController(ctx))
	before := f.file("before.json", f.nadra("snapshot", "-A", "--from-nodes"))

	plan := f.file("plan.yaml", f.nadra("upgrade", "plan"))
	first, second := f.order(plan)
	f.nadra("upgrade", "run", "-f", plan, "--dry-run=client")
	f.nadra("upgrade", "run", "-f", plan, "--dry-run=server")
	f.settled(v1alpha1.OwnerMultus, f.nodes()...) // nothing was changed by these

	// Killed without a word, and told to stop: at a step of each node.
	f.runUntil("node "+first+": drain", unix.SIGKILL, "run", "-f", plan, "--yes")
	f.runUntil("node "+first+": unconfigure", unix.SIGINT, "resume", "--yes")
	f.runUntil("node "+second+": evicted", unix.SIGKILL, "resume", "--yes")
	f.nadra("upgrade", "resume", "--yes")
	f.Log(f.nadra("upgrade", "status"))
	f.settled(v1alpha1.OwnerNadra, f.nodes()...)
	f.Log(f.nadra("verify", "--against", before, "--from-nodes"))

	f.nadra("upgrade", "rollback", "--node", first, "--yes")
	f.Log(f.nadra("upgrade", "status"))
	f.settled(v1alpha1.OwnerMultus, first)
	f.nadra("upgrade", "rollback", "--pod", namespace+"/upf-0", "--yes")
	if on := f.kubectl("-n", namespace, "get", "pod", "upf-0", "-o", "jsonpath={.spec.nodeName} {.spec.resourceClaims}"); strings.TrimSpace(on) != first {
		t.Errorf("upf-0 is on %q, want it on %s and Multus'", on, first)
	}
	f.kubectl("-n", namespace, "patch", "statefulset", "upf", "--type=json", `-p=[{"op":"remove","path":"/spec/template/metadata/labels/nadra.dev~1owner"}]`)
	f.kubectl("-n", namespace, "rollout", "status", "statefulset/upf", "--timeout=60s")
	f.nadra("upgrade", "run", "-f", plan, "--yes")
	f.settled(v1alpha1.OwnerNadra, f.nodes()...)

	f.nadra("upgrade", "rollback", "--all", "--yes")
	f.Log(f.nadra("upgrade", "status"))
	f.settled(v1alpha1.OwnerMultus, f.nodes()...)
	f.Log(f.nadra("verify", "--against", before, "--from-nodes"))
	if now := f.uids("plain"); !slices.Equal(plain, now) {
		t.Errorf("pods without networks are %q, and were %q: nobody was to touch them", now, plain)
	}
	strategy := f.kubectl("-n", "kube-system", "get", "daemonset", "kube-multus-ds", "-o", "jsonpath={.spec.updateStrategy.type}{.spec.template.spec.affinity}")
	if strategy != "RollingUpdate" {
		t.Errorf("Multus' DaemonSet has %q, and was without affinity and with RollingUpdate", strategy)
	}

	f.refused("Multus is needed", "upgrade", "finish", "--remove-multus", "--yes")
	f.nadra("upgrade", "run", "-f", plan, "--yes")
	f.settled(v1alpha1.OwnerNadra, f.nodes()...)
	f.refused("NADRA-U20", "upgrade", "finish", "--remove-multus", "--yes") // the controller leaves pods to Multus
	f.kubectl("-n", "nadra-system", "patch", "deployment", "nadra-controller", "--type=json",
		`-p=[{"op":"add","path":"/spec/template/spec/containers/0/args/-","value":"--default-owner=nadra"}]`)
	f.kubectl("-n", "nadra-system", "rollout", "status", "deployment/nadra-controller", "--timeout=120s")
	f.Log(f.nadra("upgrade", "finish"))
	f.Log(f.nadra("upgrade", "finish", "--remove-multus", "--dry-run=server"))
	f.kubectl("-n", "kube-system", "get", "daemonset", "kube-multus-ds") // it is still there
	f.Log(f.nadra("upgrade", "finish", "--remove-multus", "--yes"))
	for _, kind := range []string{"daemonset", "configmap", "serviceaccount", "clusterrole", "clusterrolebinding"} {
		if left := f.kubectl("-n", "kube-system", "get", kind, "-o", "name"); strings.Contains(left, "multus") {
			t.Errorf("left of Multus: %s", left)
		}
	}
	f.kubectl("-n", namespace, "rollout", "restart", "deployment/smf", "daemonset/probe")
	f.settled(v1alpha1.OwnerNadra, f.nodes()...)
	f.Log(f.nadra("verify", "--against", before, "--from-nodes"))
	f.kubectl("delete", "namespace", namespace, "--timeout=120s")
	f.nothingLeft()
}

// refused runs a command that is not safe now, and says why.
func (f *fixture) refused(why string, args ...string) {
	f.Helper()
	said, err := f.Nadra(f.ctx, args...)
	f.must(err)
	if said.Code != cli.CodeRefused || !strings.Contains(said.Err, why) {
		f.Fatalf("kubectl nadra %s ends with %d, want %d and %q:\n%s", strings.Join(args, " "), said.Code, cli.CodeRefused, why, said.Err)
	}
}

// order are the nodes of a plan of two waves.
func (f *fixture) order(plan string) (first, second string) {
	f.Helper()
	text, err := os.ReadFile(plan)
	f.must(err)
	p, err := upgrade.ParsePlan(text)
	f.must(err)
	names := p.NodeNames()
	if len(p.Waves) != 2 || len(names) != 2 || !slices.Equal(p.Waves[1].Namespaces, []string{namespace}) {
		f.Fatalf("the plan has waves %+v, want one node and then the other with namespace %s", p.Waves, namespace)
	}
	return names[0], names[1]
}

type fixture struct {
	*lab.Lab
	*testing.T
	ctx context.Context
	dir string
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) kubectl(args ...string) string {
	f.Helper()
	out, err := f.Cluster.Kubectl(f.ctx, args...)
	f.must(err)
	return out
}

func (f *fixture) nodes() []string {
	var out []string
	for _, n := range f.Cluster.Nodes() {
		out = append(out, n.Name())
	}
	return out
}

// nadra runs a command that has to succeed, and returns what it wrote.
func (f *fixture) nadra(args ...string) string {
	f.Helper()
	began := time.Now()
	said, err := f.Nadra(f.ctx, args...)
	f.must(err)
	if said.Code != cli.CodeOK {
		f.Fatalf("kubectl nadra %s ends with %d:\n%s\n%s", strings.Join(args, " "), said.Code, said.Out, said.Err)
	}
	f.Logf("kubectl nadra %s (%s)\n%s", strings.Join(args, " "), time.Since(began).Round(time.Second), said.Err)
	return said.Out
}

// file keeps what a command wrote, where the cluster's machines see it.
func (f *fixture) file(name, content string) string {
	f.Helper()
	path := filepath.Join(f.dir, name)
	f.must(os.WriteFile(path, []byte(content), 0o644))
	return path
}

// runUntil runs a command, and ends it as soon as it has said something.
func (f *fixture) runUntil(said string, signal unix.Signal, args ...string) {
	f.Helper()
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	machine := f.Cluster.ControlPlane()
	binary := filepath.Join(lab.Root(), "bin", "kubectl-nadra")
	cmd := machine.Command(ctx, binary, append([]string{"upgrade", "--kubeconfig", f.Cluster.Kubeconfig()}, args...)...)
	out := &watcher{until: said, heard: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = out, out
	ended := make(chan error, 1)
	go func() { ended <- machine.Run(cmd) }()
	select {
	case <-out.heard:
	case err := <-ended:
		f.Fatalf("upgrade %s has ended before it said %q: %v\n%s", strings.Join(args, " "), said, err, out)
	}
	f.must(cmd.Process.Signal(signal))
	err := <-ended
	var exit *exec.ExitError
	if signal == unix.SIGINT && (!errors.As(err, &exit) || exit.ExitCode() != cli.CodeInterrupted) {
		f.Errorf("upgrade %s, interrupted: %v, want exit code %d\n%s", strings.Join(args, " "), err, cli.CodeInterrupted, out)
	}
	f.Logf("upgrade %s, ended by %s after %q:\n%s", strings.Join(args, " "), signal, said, out)
}

// watcher closes heard when something was written.
type watcher struct {
	until string
	heard chan struct{}
	once  sync.Once
	mu    sync.Mutex
	text  bytes.Buffer
}

func (w *watcher) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, err := w.text.Write(b)
	if strings.Contains(w.text.String(), w.until) {
		w.once.Do(func() { close(w.heard) })
	}
	return n, err
}

func (w *watcher) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// settled waits until all pods with networks run, those on some nodes by whom
// they are to be served, each with all of its networks and none of them twice.
func (f *fixture) settled(owner string, nodes ...string) {
	f.Helper()
	f.must(lab.Eventually(f.ctx, 2*time.Minute, func(ctx context.Context) error {
		pods, err := f.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app!=plain"})
		if err != nil {
			return err
		}
		if len(pods.Items) != networked {
			return fmt.Errorf("%d pods, want %d", len(pods.Items), networked)
		}
		for _, p := range pods.Items {
			if err := f.serves(ctx, &p, owner, slices.Contains(nodes, p.Spec.NodeName)); err != nil {
				return fmt.Errorf("pod %s on %s: %w", p.Name, p.Spec.NodeName, err)
			}
		}
		return nil
	}))
	for _, n := range f.Kubernetes() {
		if n.Spec.Unschedulable || len(n.Spec.Taints) > 0 {
			f.Errorf("node %s is left with taints %v", n.Name, n.Spec.Taints)
		}
	}
}

// Kubernetes are the Nodes as the API server has them.
func (f *fixture) Kubernetes() []corev1.Node {
	f.Helper()
	list, err := f.Kube.CoreV1().Nodes().List(f.ctx, metav1.ListOptions{})
	f.must(err)
	return list.Items
}

func (f *fixture) serves(ctx context.Context, p *corev1.Pod, owner string, judged bool) error {
	if !slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	}) || p.DeletionTimestamp != nil {
		return errors.New("it is not ready")
	}
	statuses, err := f.NetworkStatus(ctx, p.Namespace, p.Name)
	if err != nil {
		return err
	}
	want := map[string][]string{"smf": {"net1"}, "upf": {"n3", "n6"}, "probe": {"net9"}}[p.Labels["app"]]
	var have []string
	for _, s := range statuses {
		if !s.Default {
			have = append(have, s.Interface)
		}
	}
	slices.Sort(have)
	if !slices.Equal(want, have) {
		return fmt.Errorf("it has interfaces %q, want %q: %+v", have, want, statuses)
	}
	links, err := f.Exec(ctx, p.Namespace, p.Name, "ls", "/sys/class/net")
	if err != nil {
		return err
	}
	if len(strings.Fields(links)) != len(want)+2 {
		return fmt.Errorf("it has links %q, want lo, eth0 and %q", links, want)
	}
	if nadra := len(p.Spec.ResourceClaims) > 0; judged && nadra != (owner == v1alpha1.OwnerNadra) {
		return fmt.Errorf("it is served by nadra: %t, want %s", nadra, owner)
	}
	return static(p, statuses)
}

// static checks the address and the MAC that the StatefulSet asks for.
func static(p *corev1.Pod, statuses []nadv1.NetworkStatus) error {
	for _, s := range statuses {
		if s.Interface == "n6" && (!slices.Equal(s.IPs, []string{"10.96.0.7"}) || s.Mac != "02:00:00:00:96:07") {
			return fmt.Errorf("n6 of %s has %q and %s", p.Name, s.IPs, s.Mac)
		}
	}
	return nil
}

// uids are those of a workload's pods.
func (f *fixture) uids(app string) []string {
	f.Helper()
	out := strings.Fields(f.kubectl("-n", namespace, "get", "pods", "-l", "app="+app, "-o", "jsonpath={.items[*].metadata.uid}"))
	slices.Sort(out)
	return out
}

// nothingLeft checks that no address is reserved any more on any node, by
// whichever of the two it was.
func (f *fixture) nothingLeft() {
	f.Helper()
	for _, n := range f.Cluster.Nodes() {
		left, err := n.Exec(f.ctx, "sh", "-c", "ls /var/lib/cni/networks/n3 2>/dev/null | grep -v -e lock -e last_reserved || true")
		f.must(err)
		if strings.TrimSpace(string(left)) != "" {
			f.Errorf("addresses of n3 are left reserved on %s: %s", n.Name(), left)
		}
	}
}
