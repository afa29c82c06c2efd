//go:build e2e

package upgrade

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/internal/desk/cli"
	"github.com/nadra-dev/nadra/internal/desk/upgrade"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/test/lab"
)

// refused runs a command that nadra must refuse as unsafe, with a text in its error.
func (f *fixture) refused(text string, args ...string) {
	f.Helper()
	ended, err := f.Nadra(f.Ctx, args...)
	f.Must(err)
	if ended.Code != cli.CodeRefused || !strings.Contains(ended.Err, text) {
		f.Fatalf("kubectl nadra %s ends with %d, want %d and %q:\n%s", strings.Join(args, " "), ended.Code, cli.CodeRefused, text, ended.Err)
	}
}

// order returns the nodes of a plan of two waves.
func (f *fixture) order(plan string) (first, second string) {
	f.Helper()
	text, err := os.ReadFile(plan)
	f.Must(err)
	p, err := upgrade.ParsePlan(text)
	f.Must(err)
	names := p.Movers(p.Waves...)
	if len(p.Waves) != 2 || len(names) != 2 || !slices.Equal(p.Waves[1].Namespaces, []string{namespace}) {
		f.Fatalf("the plan has waves %+v, want one node and then the other with namespace %s", p.Waves, namespace)
	}
	return names[0], names[1]
}

type fixture struct {
	lab.Fixture
	dir  string
	page page
}

// afterFailure cleans up after a test that has failed, for the next one, which the test's own context, by
// then cancelled, would not allow.
func (f *fixture) afterFailure(clean func(*fixture)) {
	f.Cleanup(func() {
		if f.Failed() {
			after := *f
			after.Ctx = context.WithoutCancel(f.Ctx)
			clean(&after)
		}
	})
}

// install applies the stack, and workloads of other projects if there is a corpus.
func (f *fixture) install() {
	f.Helper()
	f.Must(f.Apply(f.Ctx, stack))
	dir := os.Getenv("NADRA_CORPUS")
	if dir == "" {
		f.Log("NADRA_CORPUS is not set: the stack is the test's own only")
		return
	}
	others, err := corpusStack(dir)
	f.Must(err)
	f.Must(f.Apply(f.Ctx, others))
	for _, w := range ofOthers {
		interfaces[w.name] = w.interfaces
	}
	networked = ofStack + len(ofOthers)
}

// installNadra installs nadra beside Multus, which changes nothing for any pod.
func (f *fixture) installNadra() {
	f.Helper()
	f.Kubectl("apply", "-k", filepath.Join(lab.Root(), "manifests", "drop-in"))
	f.Kubectl("-n", "nadra", "rollout", "status", "daemonset/nadra-node", "--timeout=120s")
	f.Must(f.WaitController(f.Ctx))
}

// makeDefault makes pods without an owner label nadra's.
func (f *fixture) makeDefault() {
	f.Helper()
	f.Kubectl("-n", "nadra-system", "patch", "deployment", "nadra-controller", "--type=json",
		`-p=[{"op":"add","path":"/spec/template/spec/containers/0/args/-","value":"--default-owner=nadra"}]`)
	f.Kubectl("-n", "nadra-system", "rollout", "status", "deployment/nadra-controller", "--timeout=120s")
}

func (f *fixture) nodes() []string {
	var out []string
	for _, n := range f.Cluster.Nodes() {
		out = append(out, n.Name())
	}
	return out
}

// nadra runs a command that must succeed, and returns its output.
func (f *fixture) nadra(args ...string) string {
	f.Helper()
	return f.printed(args...).Out
}

// printed runs kubectl nadra, which must succeed, and returns what it has printed.
func (f *fixture) printed(args ...string) lab.Output {
	f.Helper()
	began := time.Now()
	printed, err := f.Nadra(f.Ctx, args...)
	f.Must(err)
	if printed.Code != cli.CodeOK {
		f.Fatalf("kubectl nadra %s ends with %d:\n%s\n%s", strings.Join(args, " "), printed.Code, printed.Out, printed.Err)
	}
	f.Logf("kubectl nadra %s (%s)\n%s", strings.Join(args, " "), time.Since(began).Round(time.Second), printed.Err)
	return printed
}

// file writes the output of a command to a file that the cluster's machines see, and
// returns its path.
func (f *fixture) file(name, content string) string {
	f.Helper()
	path := filepath.Join(f.dir, name)
	f.Must(os.WriteFile(path, []byte(content), 0o644))
	return path
}

// points returns two random moments of the move, in order. Each is the progress message
// of a finished step of a node, and those of all later steps: a step of some milliseconds may be
// done before the signal of the moment before it arrives, and then no later command prints it.
// The last two steps are excluded, because nothing is left to interrupt after them.
func (f *fixture) points(nodes ...string) [][]string {
	f.Helper()
	seed := f.seed()
	var all []string
	for _, node := range nodes {
		for _, step := range upgrade.NodeSteps[upgrade.ToNadra] {
			all = append(all, fmt.Sprintf("node %s: %s (", node, step))
		}
	}
	at := rand.New(rand.NewPCG(seed, 0)).Perm(len(all) - 2)[:2]
	slices.Sort(at)
	f.Logf("the upgrade is ended after %q; again with UPGRADE_SEED=%d", []string{all[at[0]], all[at[1]]}, seed)
	return [][]string{all[at[0]:], all[at[1]:]}
}

// seed returns the seed of what a test chooses at random: that of UPGRADE_SEED, or a new one.
func (f *fixture) seed() uint64 {
	f.Helper()
	text := os.Getenv("UPGRADE_SEED")
	if text == "" {
		return rand.Uint64()
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	f.Must(err)
	return seed
}

// served waits until all pods with networks run, each with all its networks exactly once,
// and those on the given nodes served by owner.
func (f *fixture) served(owner string, nodes ...string) {
	f.Helper()
	f.Must(lab.Eventually(f.Ctx, 2*time.Minute, func(ctx context.Context) error {
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

// Kubernetes returns the Node objects.
func (f *fixture) Kubernetes() []corev1.Node {
	f.Helper()
	list, err := f.Kube.CoreV1().Nodes().List(f.Ctx, metav1.ListOptions{})
	f.Must(err)
	return list.Items
}

func (f *fixture) serves(ctx context.Context, p *corev1.Pod, owner string, judged bool) error {
	if !lab.IsReady(p) {
		return errors.New("it is not Ready")
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

// givenBack checks that a namespace has no owner's label, and that nadra serves none of its
// pods but those of the DaemonSet, whose nodes decide.
func (f *fixture) givenBack(name string) {
	f.Helper()
	if label := f.Kubectl("get", "namespace", name, "-o", `jsonpath={.metadata.labels.nadra\.dev/owner}`); label != "" {
		f.Errorf("namespace %s was rolled back, and still has the label of %s", name, label)
	}
	if pods := f.Kubectl("-n", name, "get", "pods", "-l", "app!=probe", "-o", `jsonpath={.items[?(@.spec.resourceClaims)].metadata.name}`); pods != "" {
		f.Errorf("namespace %s was rolled back, and nadra still serves its pods %s", name, pods)
	}
}

// uids returns the UIDs of a workload's pods, sorted.
func (f *fixture) uids(app string) []string {
	f.Helper()
	out := strings.Fields(f.Kubectl("-n", namespace, "get", "pods", "-l", "app="+app, "-o", "jsonpath={.items[*].metadata.uid}"))
	slices.Sort(out)
	return out
}

// files lists the files that plugins and their callers keep for a sandbox, with its ID in
// their content or name. It leaves out those of eth0: Multus never deletes its own, and
// neither does the runtime those of pods without networks that stay when their node moves,
// because their DEL is then that of the default network (docs/migrate/upgrade.md).
const files = `for f in /var/lib/cni/networks/*/*.*.*.* /var/lib/cni/results/* /var/lib/cni/multus/results/* /var/lib/nadra/cni/results/*; do
case $f in *-eth0) continue;; esac
[ -f $f ] && echo $f $(head -n 1 $f | tr -d '\r' | cut -c 1-64); done; true`

// clean recreates all pods with networks, and waits until the old ones have left nothing.
func (f *fixture) clean(owner string, nodes ...string) {
	f.Helper()
	f.Kubectl("-n", namespace, "delete", "pods", "-l", "app!=plain", "--timeout=60s")
	f.served(owner, nodes...)
	f.nothingLeft()
}

// deleted deletes pods of some workloads, which recreate them. It does not wait for their end: on a node that is between the
// two, their networks may be detached only when the upgrade goes on.
func (f *fixture) deleted(apps string) {
	f.Helper()
	f.Kubectl("-n", namespace, "delete", "pods", "-l", "app in ("+apps+")", "--wait=false")
}

// nothingLeft waits until no node has files of a sandbox that is gone.
func (f *fixture) nothingLeft() {
	f.Helper()
	for _, n := range f.Cluster.Nodes() {
		f.Must(lab.Eventually(f.Ctx, 2*time.Minute, func(ctx context.Context) error {
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
					return fmt.Errorf("left on %s by a sandbox that is gone: %s", n.Name(), line)
				}
			}
			return nil
		}))
	}
}
