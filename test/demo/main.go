// Command demo shows what nadra does. It starts the real cluster, installs nadra and
// attaches pods to networks, with NADs and annotations as users of Multus write them: two are converted, and those of a
// chart get their claims from the webhook.
// `make demo` runs it; test/e2e asserts what it shows. All of it is in main.go.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	started := time.Now()
	l, err := start(ctx)
	if err != nil {
		return err
	}
	s := &stage{ctx: ctx, lab: l}
	s.clear()
	s.networks()
	s.pods()
	s.showPods()
	s.dropIn()
	s.chart()
	s.leave()
	if s.err != nil {
		return fmt.Errorf("%w\n\nThe driver's log ends with:\n%s", s.err, l.DriverLog(ctx))
	}
	s.next(time.Since(started))
	return nil
}

// start starts the default cluster, or uses the running one.
func start(ctx context.Context) (*lab.Lab, error) {
	title("A real cluster: etcd, API server, scheduler, kubelet, container runtime, runc, CNI plugins")
	l, err := lab.Start(ctx, cluster.Options{}, os.Stdout)
	if !errors.Is(err, cluster.ErrRunning) {
		return l, err
	}
	fmt.Println("it is running already (`make cluster-down` stops it); installing nadra as it is now")
	c, err := cluster.Open("")
	if err != nil {
		return nil, err
	}
	return lab.Refresh(ctx, c)
}

// stage shows commands and their output, until one fails.
type stage struct {
	ctx context.Context
	lab *lab.Lab
	err error
}

// title sets a heading, in bold on a terminal.
func title(text string) {
	if fi, err := os.Stdout.Stat(); err == nil && fi.Mode()&os.ModeCharDevice != 0 {
		text = "\033[1m" + text + "\033[0m"
	}
	fmt.Printf("\n# %s\n\n", text)
}

// kubectl shows a command and what it prints.
func (s *stage) kubectl(args ...string) {
	if s.err != nil {
		return
	}
	fmt.Println("$ kubectl " + shell(args))
	out, err := s.lab.Cluster.Kubectl(s.ctx, args...)
	fmt.Println(strings.TrimRight(out, "\n") + "\n")
	s.err = err
}

// nadra shows a command of the plugin that reads files, and its output.
func (s *stage) nadra(args ...string) { s.plugin(args) }

// nadraLive shows a command of the plugin that reads the cluster, and its output.
func (s *stage) nadraLive(args ...string) { s.plugin(args, "--kubeconfig", s.lab.Cluster.Kubeconfig()) }

// plugin shows a command of the plugin, without its hidden arguments, and its output.
func (s *stage) plugin(args []string, hidden ...string) {
	if s.err != nil {
		return
	}
	fmt.Println("$ kubectl nadra " + shell(args))
	printed, err := s.lab.Nadra(s.ctx, slices.Concat(args, hidden)...)
	fmt.Println(strings.TrimRight(printed.Out+printed.Err, "\n") + "\n")
	if s.err = err; err == nil && printed.Code != 0 {
		s.err = fmt.Errorf("kubectl nadra %s: exit code %d", args[0], printed.Code)
	}
}

// difference shows the differences of two files.
func (s *stage) difference(before, after string) {
	if s.err != nil {
		return
	}
	args := []string{"-u", before, after}
	fmt.Println("$ diff " + shell(args))
	out, err := exec.CommandContext(s.ctx, "diff", args...).Output()
	fmt.Println(strings.TrimRight(string(out), "\n") + "\n")
	if !errors.As(err, new(*exec.ExitError)) { // it has found differences
		s.err = err
	}
}

// node runs a command on the node and shows it with its output.
func (s *stage) node(command string) {
	if s.err != nil {
		return
	}
	fmt.Println("node-1# " + command)
	out, err := s.lab.Cluster.Node(1).Exec(s.ctx, "sh", "-c", command)
	fmt.Println(strings.TrimRight(string(out), "\n") + "\n")
	s.err = err
}

// clear removes the objects of an earlier demo from a running cluster, and creates the
// master of the macvlan NAD.
func (s *stage) clear() {
	if s.err == nil {
		_, s.err = s.lab.Cluster.Kubectl(s.ctx, "delete", "--ignore-not-found", "-f", manifest("pods"), "-f", manifest("chart"), "-f", manifest("networks"))
		s.err = errors.Join(s.err, os.RemoveAll(converted()))
	}
	if s.err == nil {
		_, s.err = s.lab.Cluster.Node(1).Exec(s.ctx, "sh", "-c",
			"ip link show lan0 >/dev/null 2>&1 || { ip link add lan0 type veth peer name lan0-wire && ip link set lan0 up && ip link set lan0-wire up; }")
	}
}

func (s *stage) networks() {
	title("Two NetworkAttachmentDefinitions, exactly as Multus users write them")
	s.kubectl("apply", "-f", manifest("networks"))
	s.kubectl("get", "net-attach-def", "macvlan-conf", "-o", "jsonpath={.spec.config}")
	title("nadra offers them on the node")
	if s.err == nil {
		s.err = s.lab.Published(s.ctx, "default/macvlan-conf", "default/storage")
	}
	s.nadraLive("get", "networks")
}

func (s *stage) pods() {
	inputs := []string{"-n", "default", "-f", manifest("networks"), "-f", manifest("pods")}
	title("Two pods that ask for both by annotation. What would become of them?")
	s.nadra(append([]string{"scan"}, inputs...)...)
	title("They are converted: the annotation stays, and a claim has the same request")
	s.nadra(append([]string{"convert", "--output-dir", converted()}, inputs...)...)
	s.difference(manifest("pods"), filepath.Join(converted(), "pods.yaml"))
	s.kubectl("apply", "-f", converted())
	s.kubectl("wait", "--for=condition=Ready", "--timeout=90s", "pod/alice", "pod/bob")
}

func (s *stage) showPods() {
	title("Inside a pod: eth0 from the cluster, net1 and net2 from the NADs")
	s.kubectl("exec", "alice", "--", "ip", "addr")
	title("Two pods talk over net1")
	var address string
	if s.err == nil {
		address, s.err = s.lab.Address(s.ctx, "default", "bob", "default/macvlan-conf")
	}
	s.kubectl("exec", "alice", "--", "ping", "-c", "2", "-I", "net1", address)
	title("What consumers of Multus read: the network-status annotation")
	s.kubectl("get", "pod", "alice", "-o", `jsonpath={.metadata.annotations.k8s\.v1\.cni\.cncf\.io/network-status}`)
	title("And the claim's own status")
	s.kubectl("get", "resourceclaims", "-o", `jsonpath={range .items[*]}{.metadata.name}{"\n"}{range .status.devices[*]}{"  "}{.conditions[0].type}={.conditions[0].status}{"  "}{.networkData.interfaceName}{"  "}{.networkData.ips[*]}{"  "}{.networkData.hardwareAddress}{"\n"}{end}{end}`)
}

func (s *stage) dropIn() {
	title("Nobody needs to convert anything: nadra in Multus' place")
	if s.err == nil {
		fmt.Print("$ kubectl label nodes --all nadra.dev/owner=nadra\n$ kubectl apply -k manifests/drop-in\n\n")
		s.err = s.lab.InstallController(s.ctx)
	}
	s.kubectl("label", "namespace", "default", "nadra.dev/owner=nadra", "--overwrite")
}

func (s *stage) chart() {
	title("A chart's Deployment is applied as it is, and the webhook gives each pod its claim")
	s.kubectl("apply", "-f", manifest("chart"))
	s.kubectl("rollout", "status", "deployment/web", "--timeout=90s")
	s.kubectl("get", "pods", "-l", "app=web", "-o", `custom-columns=POD:.metadata.name,NETWORKS:.metadata.annotations.k8s\.v1\.cni\.cncf\.io/networks,CLAIM:.status.resourceClaimStatuses[0].resourceClaimName`)
	s.nadraLive("get", "attachments")
	s.kubectl("delete", "deployment", "web", "--cascade=foreground")
}

func (s *stage) leave() {
	const leases = "ls /var/lib/cni/networks/macvlan-conf /var/lib/cni/networks/storage | grep -E '^[0-9]+\\.' || echo none"
	title("The addresses that host-local has handed out")
	s.node(leases)
	title("The pods are deleted, and the addresses are free again")
	s.kubectl("delete", "pod", "alice", "bob")
	s.node(leases)
}

func (s *stage) next(took time.Duration) {
	title(fmt.Sprintf("That was nadra, in %d s. What to try next", int(took.Seconds())))
	fmt.Print(`The cluster is still up:

  bin/nadra-cluster kubectl apply -f bin/demo               the pods again
  bin/nadra-cluster kubectl nadra get attachments           who has which network
  bin/kubectl-nadra explain NADRA-010                       what a finding means
  bin/nadra-cluster kubectl describe pod alice              the events, Multus' AddedInterface among them
  bin/nadra-cluster kubectl -n nadra logs ds/nadra-node     what the driver says
  bin/nadra-cluster exec -- ip link                         a shell command on the node
  make cluster-down                                         nothing of it is left
  make e2e                                                  all of this as tests, and much more

How it works: docs/concepts/how-it-works.md
`)
}

// converted returns the folder of the converted manifests.
func converted() string { return filepath.Join(lab.Root(), "bin", "demo") }

func manifest(name string) string {
	return filepath.Join(lab.Root(), "test", "demo", "manifests", name+".yaml")
}

// shell quotes arguments as a person would type them.
func shell(args []string) string {
	out := make([]string, len(args))
	for i, a := range args {
		if rel, err := filepath.Rel(lab.Root(), a); err == nil && filepath.IsAbs(a) {
			a = rel
		}
		if strings.ContainsAny(a, " {}$\\\"\t\n") {
			a = "'" + a + "'"
		}
		out[i] = a
	}
	return strings.Join(out, " ")
}
