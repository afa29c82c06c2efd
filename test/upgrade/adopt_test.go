//go:build e2e

package upgrade

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

// staticPods is the folder of the kubelet's own pods, in the node.
const staticPods = "/var/tmp/static-pods"

// unmovable has pods that nobody may evict, or that nothing recreates: NODE is a node.
const unmovable = `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: core}
spec:
  replicas: 2
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}, annotations: {k8s.v1.cni.cncf.io/networks: n3}}
    spec:
      terminationGracePeriodSeconds: 1
      volumes: [{name: data, emptyDir: {}}]
      containers: [{name: main, image: localhost/test:1, imagePullPolicy: Never, command: [/bin/sleep, infinity], volumeMounts: [{name: data, mountPath: /data}]}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: db, namespace: core}
spec: {maxUnavailable: 0, selector: {matchLabels: {app: db}}}
---
apiVersion: v1
kind: Pod
metadata: {name: bare, namespace: core, labels: {app: bare}, annotations: {k8s.v1.cni.cncf.io/networks: n3}}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: main, image: localhost/test:1, imagePullPolicy: Never, command: [/bin/sleep, infinity]}]
---
apiVersion: v1
kind: Pod
metadata: {name: placed, namespace: core, labels: {app: placed}, annotations: {k8s.v1.cni.cncf.io/networks: n3@second}}
spec:
  nodeName: NODE
  terminationGracePeriodSeconds: 1
  containers: [{name: main, image: localhost/test:1, imagePullPolicy: Never, command: [/bin/sleep, infinity]}]
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent, namespace: core}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}, annotations: {k8s.v1.cni.cncf.io/networks: n3}}
    spec:
      terminationGracePeriodSeconds: 1
      tolerations: [{operator: Exists}]
      containers: [{name: main, image: localhost/test:1, imagePullPolicy: Never, command: [/bin/sleep, infinity]}]
`

const staticPod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"static","namespace":"core","labels":{"app":"static"},"annotations":{"k8s.v1.cni.cncf.io/networks":"n3"}},
"spec":{"terminationGracePeriodSeconds":1,"containers":[{"name":"main","image":"localhost/test:1","imagePullPolicy":"Never","command":["/bin/sleep","infinity"]}]}}`

// ourPods are the apps of this test's own pods, all of which have an address of n3.
var ourPods = []string{"smf", "upf", "probe", "db", "bare", "placed", "agent", "static"}

// TestAdopt moves a cluster to nadra, back, and to nadra again, and removes Multus, while packets are
// sent to every network of every pod. No pod is evicted or restarted, nothing in its network
// namespace changes, and no packet is lost. When the pods end, and after a reboot, nothing is left.
func TestAdopt(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Minute)
	defer cancel()
	f := &fixture{Fixture: lab.Fixture{Lab: theLab, T: t, Ctx: ctx}, dir: t.TempDir()}
	f.installUnmovable()
	pods := f.running()
	before := f.observed(pods)
	packets := f.begin(f.aims(pods), func(app string) bool { return slices.Contains(ourPods, app) })
	same := func(when string) {
		t.Helper()
		if diff := cmp.Diff(before, f.observed(f.running())); diff != "" {
			t.Fatalf("the pods %s (-before +now):\n%s", when, diff)
		}
	}

	f.Kubectl("apply", "-k", filepath.Join(lab.Root(), "manifests", "drop-in"))
	f.Kubectl("-n", "nadra", "rollout", "status", "daemonset/nadra-node", "--timeout=120s")
	f.Must(f.WaitController(ctx))
	plan := f.file("plan.yaml", f.nadra("upgrade", "plan"))
	first, second := f.order(plan)
	summary := f.nadra("upgrade", "plan", "--from", plan, "-o", "markdown")
	if want := fmt.Sprintf("0 pods evicted, %d pods adopted", len(pods)); !strings.Contains(summary, want) {
		t.Errorf("the plan has not %q:\n%s", want, summary)
	}
	points := f.points(false, first, second)
	f.runUntil(points[0], unix.SIGKILL, "run", "-f", plan, "--yes")
	same("after an upgrade that was killed")
	f.killDrivers()
	f.runUntil(points[1], unix.SIGINT, "resume", "--yes")
	f.nadra("upgrade", "resume", "--yes")
	same("on nadra's nodes")
	f.isAdopted(len(pods))

	f.nadra("upgrade", "rollback", "--all", "--yes")
	same("back on Multus' nodes")
	f.nothingTaken()

	f.nadra("upgrade", "run", "-f", plan, "--yes")
	same("on nadra's nodes again")
	f.Kubectl("-n", "nadra-system", "patch", "deployment", "nadra-controller", "--type=json",
		`-p=[{"op":"add","path":"/spec/template/spec/containers/0/args/-","value":"--default-owner=nadra"}]`)
	f.Kubectl("-n", "nadra-system", "rollout", "status", "deployment/nadra-controller", "--timeout=120s")
	f.Log(f.nadra("upgrade", "finish", "--remove-multus", "--yes"))
	same("without Multus")
	sent, lost := packets.end()
	for _, one := range lost {
		t.Errorf("lost: %s", one)
	}

	f.sandboxesAreRemade(first)
	f.Kubectl("-n", namespace, "delete", "statefulsets,deployments,daemonsets,pods", "--all", "--timeout=120s")
	f.sh(f.node(f.nodes()[0]), "rm -f "+staticPods+"/static.json")
	f.nothingLeft()
	f.nothingTaken()
	t.Logf("%d packets were sent to %d addresses", sent, len(packets.flows))
	fmt.Printf("upgrade-lane: pods=%d evicted=0 restarted=0 packets-lost=%d left-behind=0\n", len(pods), len(lost))

	f.Kubectl("delete", "namespace", namespace, "--timeout=120s")
	f.Kubectl("label", "nodes", "--all", "nadra.dev/owner-")
	f.nadra("uninstall", "--yes")
	f.Must(installMultus(ctx, f.Cluster))
}

// installUnmovable installs all workloads, and waits until Multus serves them.
func (f *fixture) installUnmovable() {
	f.Helper()
	f.install()
	f.addUnmovable(networked)
}

// addUnmovable installs the pods that nobody may evict, beside a number of other pods with networks, and
// waits until Multus serves all of them.
func (f *fixture) addUnmovable(others int) {
	f.Helper()
	f.Cleanup(func() { // for the next test
		if f.Failed() {
			f.sh(f.node(f.nodes()[0]), "rm -f "+staticPods+"/static.json")
			f.Kubectl("delete", "namespace", namespace, "--timeout=120s")
		}
	})
	nodes := f.nodes()
	f.Must(f.Apply(f.Ctx, strings.ReplaceAll(unmovable, "NODE", nodes[1])))
	f.Must(lab.WriteHostFile(f.node(nodes[0]), staticPods+"/static.json", []byte(staticPod), 0o644))
	const ofUnmovable = 2 + 1 + 1 + 2 + 1 // db, bare, placed, agent, static
	want := others + ofUnmovable
	f.Eventually(3*time.Minute, func(ctx context.Context) error {
		pods, err := f.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app!=plain"})
		if err != nil {
			return err
		}
		if len(pods.Items) != want {
			return fmt.Errorf("%d pods, want %d", len(pods.Items), want)
		}
		for _, p := range pods.Items {
			if !lab.IsReady(&p) {
				return fmt.Errorf("pod %s is not ready", p.Name)
			}
		}
		return nil
	})
}

// node returns a node by its name.
func (f *fixture) node(name string) *cluster.Node {
	f.Helper()
	for _, n := range f.Cluster.Nodes() {
		if n.Name() == name {
			return n
		}
	}
	f.Fatalf("there is no node %s", name)
	return nil
}

// sh runs a shell script on a node.
func (f *fixture) sh(n *cluster.Node, script string) string {
	f.Helper()
	out, err := n.Exec(f.Ctx, "sh", "-ec", script)
	f.Must(err)
	return string(out)
}

// running returns the pods with networks.
func (f *fixture) running() []corev1.Pod {
	f.Helper()
	list, err := f.Kube.CoreV1().Pods(namespace).List(f.Ctx, metav1.ListOptions{LabelSelector: "app,app!=plain"}) // canaries have no app
	f.Must(err)
	return list.Items
}

// observation is what must not change of a pod.
type observation struct {
	UID        types.UID
	Containers []string // their IDs, which a restart changes
	Sandbox    string
	Namespace  string // interfaces, addresses, routes and rules
}

// passing matches what changes in a network namespace by itself.
var passing = regexp.MustCompile(`(expires|valid_lft|preferred_lft) \d+sec`)

// observed describes pods, by name.
func (f *fixture) observed(pods []corev1.Pod) map[string]observation {
	f.Helper()
	out := map[string]observation{}
	for i := range pods {
		p := &pods[i]
		n := f.NodeOf(p)
		uid := string(p.UID)
		if config := p.Annotations["kubernetes.io/config.hash"]; config != "" { // a static pod
			uid = config
		}
		sandbox, err := n.PodSandbox(f.Ctx, uid)
		f.Must(err)
		o := observation{UID: p.UID, Sandbox: sandbox.ID}
		for _, c := range p.Status.ContainerStatuses {
			o.Containers = append(o.Containers, fmt.Sprintf("%s restarted %d times", c.ContainerID, c.RestartCount))
		}
		f.Eventually(20*time.Second, func(ctx context.Context) error {
			out, err := n.Exec(ctx, "nsenter", "--net="+sandbox.NetNS, "sh", "-ec",
				"ip -o -d link; ip -o addr; ip -4 route show table all; ip -6 route show table all; ip rule; ip -6 rule")
			if err == nil && strings.Contains(string(out), " tentative") { // the kernel still looks for another owner of an IPv6 address
				err = fmt.Errorf("an address of pod %s is tentative", p.Name)
			}
			o.Namespace = passing.ReplaceAllString(string(out), "")
			return err
		})
		out[p.Name] = o
	}
	return out
}

// aims returns the addresses of pods on their networks.
func (f *fixture) aims(pods []corev1.Pod) []aim {
	f.Helper()
	var out []aim
	for i := range pods {
		p := &pods[i]
		statuses, err := f.NetworkStatus(f.Ctx, p.Namespace, p.Name)
		f.Must(err)
		for _, s := range statuses {
			for _, ip := range s.IPs {
				if v4 := net.ParseIP(ip).To4(); v4 != nil && !s.Default {
					if link, bridge := f.linkOf(s.Name); link != "" {
						out = append(out, aim{p.Labels["app"], f.NodeOf(p), link, bridge, v4})
					}
				}
			}
		}
	}
	return out
}

// linkOf returns the link of the node that a network is on, by its NAD: a master or a bridge.
func (f *fixture) linkOf(network string) (name string, bridge bool) {
	f.Helper()
	ns, nad, _ := strings.Cut(network, "/")
	config := f.Kubectl("-n", ns, "get", "net-attach-def", nad, "-o", "jsonpath={.spec.config}")
	if match := bridgeName.FindStringSubmatch(config); match != nil {
		return match[1], true
	}
	for _, m := range masters {
		if strings.Contains(config, `"`+m+`"`) {
			return m, false
		}
	}
	return "", false // the plugin takes the node's own interface
}

// bridgeName matches the bridge of a configuration.
var bridgeName = regexp.MustCompile(`"bridge": *"([^"]+)" *,`)

// killDrivers kills nadra's driver on every node, and waits until the next one serves.
func (f *fixture) killDrivers() {
	f.Helper()
	for _, n := range f.Cluster.Nodes() {
		f.sh(n, `for p in $(ls /proc | grep '^[0-9]'); do [ "$(cat /proc/$p/comm 2>/dev/null)" = nadra-node ] && kill -9 $p; done; true`)
	}
	f.Kubectl("-n", "nadra", "rollout", "status", "daemonset/nadra-node", "--timeout=120s")
}

// isAdopted checks what nadra says of adopted pods.
func (f *fixture) isAdopted(pods int) {
	f.Helper()
	status := f.nadra("upgrade", "status")
	f.Log(status)
	if want := fmt.Sprintf("%d pods still have networks that Multus attached", pods); !strings.Contains(status, want) {
		f.Errorf("status has not %q:\n%s", want, status)
	}
	for _, p := range f.running() {
		if len(p.Spec.ResourceClaims) > 0 {
			f.Errorf("pod %s has a claim", p.Name)
		}
	}
	for _, n := range f.Cluster.Nodes() {
		if left := f.sh(n, scratch); left != "" {
			f.Errorf("Multus still has these sandboxes on %s: %s", n.Name(), left)
		}
	}
}

// scratch and taken list the sandboxes that Multus has, and that nadra has taken.
const (
	scratch = `cd /var/lib/cni/multus 2>/dev/null && find . -maxdepth 1 -type f; true`
	taken   = `ls /var/lib/cni/multus/nadra 2>/dev/null || true`
)

// nothingTaken waits until nadra has no sandbox of Multus.
func (f *fixture) nothingTaken() {
	f.Helper()
	for _, n := range f.Cluster.Nodes() {
		f.Eventually(time.Minute, func(ctx context.Context) error {
			left, err := n.Exec(ctx, "sh", "-ec", taken)
			if err == nil && len(left) > 0 {
				err = fmt.Errorf("on %s nadra still has these sandboxes of Multus: %s", n.Name(), left)
			}
			return err
		})
	}
}

// sandboxesAreRemade reboots a node with adopted pods. They get new sandboxes, with their networks by
// the annotation, and what the old ones had is released.
func (f *fixture) sandboxesAreRemade(name string) {
	f.Helper()
	f.Must(f.node(name).Reboot(f.Ctx))
	f.servedAgain(name)
	f.nothingLeft()
}

// servedAgain waits until the pods of a node that was booted have their networks again.
func (f *fixture) servedAgain(name string) {
	f.Helper()
	f.Eventually(4*time.Minute, func(ctx context.Context) error {
		for _, p := range f.running() {
			if p.Spec.NodeName != name {
				continue
			}
			if !lab.IsReady(&p) {
				return fmt.Errorf("pod %s is not ready after its node was booted", p.Name)
			}
			if want, known := interfaces[p.Labels["app"]]; known {
				links, err := f.Exec(ctx, p.Namespace, p.Name, "ls", "/sys/class/net")
				if err != nil {
					return err
				}
				if len(strings.Fields(links)) != len(want)+2 {
					return fmt.Errorf("pod %s has links %q after its node was booted, want lo, eth0 and %q", p.Name, links, want)
				}
			}
		}
		return nil
	})
}
