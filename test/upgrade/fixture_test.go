//go:build e2e

package upgrade

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
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
	ctx  context.Context
	dir  string
	page page
}

// install applies the stack, and workloads of others where the corpus is at hand.
func (f *fixture) install() {
	f.Helper()
	f.must(f.Apply(f.ctx, stack))
	dir := os.Getenv("NADRA_CORPUS")
	if dir == "" {
		f.Log("NADRA_CORPUS is not set: the stack is the test's own only")
		return
	}
	others, err := corpusStack(dir)
	f.must(err)
	f.must(f.Apply(f.ctx, others))
	for _, w := range ofOthers {
		interfaces[w.name] = w.interfaces
	}
	networked += len(ofOthers)
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

// points are three moments of the move, at random and in their order: each is
// what is said when a step of a node is done. After the last steps of all there is
// nothing left to interrupt.
func (f *fixture) points(nodes ...string) []string {
	f.Helper()
	seed := rand.Uint64()
	if text := os.Getenv("UPGRADE_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		f.must(err)
	}
	var all []string
	for _, node := range nodes {
		for _, step := range upgrade.StepsOf(upgrade.ToNadra) {
			all = append(all, fmt.Sprintf("node %s: %s (", node, step))
		}
	}
	at := rand.New(rand.NewPCG(seed, 0)).Perm(len(all) - 2)[:3]
	slices.Sort(at)
	out := []string{all[at[0]], all[at[1]], all[at[2]]}
	f.Logf("the upgrade is ended after %q; again with UPGRADE_SEED=%d", out, seed)
	return out
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
	want := interfaces[p.Labels["app"]]
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

// givenBack says that a namespace is nobody's by label, and that nadra serves no
// pods of it but those of the DaemonSet, which its nodes decide about.
func (f *fixture) givenBack(name string) {
	f.Helper()
	if label := f.kubectl("get", "namespace", name, "-o", `jsonpath={.metadata.labels.nadra\.dev/owner}`); label != "" {
		f.Errorf("namespace %s was given back, and is %s's by its label", name, label)
	}
	if pods := f.kubectl("-n", name, "get", "pods", "-l", "app!=probe", "-o", `jsonpath={.items[?(@.spec.resourceClaims)].metadata.name}`); pods != "" {
		f.Errorf("namespace %s was given back, and nadra serves %s of it", name, pods)
	}
}

// uids are those of a workload's pods.
func (f *fixture) uids(app string) []string {
	f.Helper()
	out := strings.Fields(f.kubectl("-n", namespace, "get", "pods", "-l", "app="+app, "-o", "jsonpath={.items[*].metadata.uid}"))
	slices.Sort(out)
	return out
}

// files are what plugins and their callers keep for a sandbox, by its ID in
// them or in their names. Not among them are notes of eth0: Multus leaves its own
// behind, and so does the runtime of pods without networks that stay when their node
// moves, and whose DEL is then that of the default network (docs/upgrade.md).
const files = `for f in /var/lib/cni/networks/*/*.*.*.* /var/lib/cni/results/* /var/lib/cni/multus/results/* /var/lib/nadra/cni/results/*; do
case $f in *-eth0) continue;; esac
[ -f $f ] && echo $f $(head -n 1 $f | tr -d '\r' | cut -c 1-64); done; true`

// clean replaces pods, and waits until nothing is left of those that were.
func (f *fixture) clean(owner string, nodes ...string) {
	f.Helper()
	f.replaced()
	f.settled(owner, nodes...)
	f.nothingLeft()
}

// replaced deletes pods of each kind, which come again.
func (f *fixture) replaced() {
	f.Helper()
	f.kubectl("-n", namespace, "delete", "pods", "-l", "app in (smf, upf, csrx, samplepod)", "--timeout=60s")
}

// nothingLeft waits until no node has anything of a sandbox that is no more.
func (f *fixture) nothingLeft() {
	f.Helper()
	for _, n := range f.Cluster.Nodes() {
		f.must(lab.Eventually(f.ctx, 2*time.Minute, func(ctx context.Context) error {
			alive, err := n.Sandboxes(ctx)
			if err != nil {
				return err
			}
			out, err := n.Exec(ctx, "sh", "-c", files)
			if err != nil {
				return err
			}
			for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
				if strings.Contains(line, "last_reserved_ip") || line == "" {
					continue
				}
				if !slices.ContainsFunc(alive, func(id string) bool { return strings.Contains(line, id) }) {
					return fmt.Errorf("left on %s of a sandbox that is no more: %s", n.Name(), line)
				}
			}
			return nil
		}))
	}
}
