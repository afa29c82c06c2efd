//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/internal/desk/canary"
	"github.com/nadra-dev/nadra/internal/desk/cli"
	"github.com/nadra-dev/nadra/internal/desk/snapshot"
	"github.com/nadra-dev/nadra/internal/probe"
	"github.com/nadra-dev/nadra/pkg/translate"
)

const (
	// blueConf gives any address, and sets a sysctl; fixedConf uses the pod's address.
	blueConf = `{"cniVersion":"1.0.0","plugins":[
{"type":"macvlan","master":"lan-snap","mode":"bridge","ipam":{"type":"host-local","subnet":"10.85.0.0/24","routes":[{"dst":"10.185.0.0/16","gw":"10.85.0.1"}]}},
{"type":"tuning","sysctl":{"net.ipv4.conf.IFNAME.arp_filter":"1"}}]}`
	fixedConf = `{"cniVersion":"1.0.0","type":"macvlan","master":"lan-snap","mode":"bridge","capabilities":{"ips":true,"mac":true},"ipam":{"type":"static"}}`
)

// webYAML is a Deployment of annotated pods.
const webYAML = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: snap}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web}
      annotations: {k8s.v1.cni.cncf.io/networks: blue}
    spec:
      terminationGracePeriodSeconds: 5
      containers:
      - {name: main, image: "localhost/test:1", imagePullPolicy: Never, command: [/bin/sh, -c, "trap 'exit 0' TERM; sleep infinity & wait"]}
`

// TestSnapshot takes snapshots of a real cluster, with facts from its node. Recreated pods
// must have no important difference, changed ones the right codes, and canaries must reach
// each other.
func TestSnapshot(t *testing.T) {
	f := setup(t, "snap")
	f.master("lan-snap")
	t.Cleanup(func() { f.Must(f.RemoveController(f.Ctx)) })
	f.Must(f.InstallController(f.Ctx))
	f.Kubectl("label", "namespace", f.NS, "nadra.dev/owner=nadra")
	f.nad("blue", blueConf)
	f.nad("fixed", fixedConf)
	f.Must(f.Published(f.Ctx, "snap/blue", "snap/fixed"))

	s := &snapshots{fixture: f, dir: t.TempDir()}
	s.named("n3", "10.86.0.5/24", "02:00:00:00:86:05")
	f.Must(f.Apply(f.Ctx, webYAML))
	t.Cleanup(func() { f.Kubectl("-n", f.NS, "delete", "deployment", "web", "--wait=true") })
	s.webRuns(2)

	f.part("two snapshots of one state are equal", s.of((*snapshots).same))
	f.part("a snapshot has the node's facts", s.of((*snapshots).seen))
	f.part("recreated pods have no important difference", s.of((*snapshots).recreated))
	f.part("changes have their codes", s.of((*snapshots).changed))
	f.part("canaries reach each other", s.of((*snapshots).canaries))
	f.part("interrupted canaries are deleted", s.of((*snapshots).interrupted))
}

// snapshots is the fixture of TestSnapshot, with the parts' common files.
type snapshots struct {
	*fixture
	dir string
}

// of makes a test's part of a method.
func (s *snapshots) of(do func(*snapshots)) func(*fixture) {
	return func(f *fixture) { do(&snapshots{fixture: f, dir: s.dir}) }
}

func (s *snapshots) file(name string) string { return filepath.Join(s.dir, name) }

// named creates a pod that requests an interface name, an address and a MAC.
func (s *snapshots) named(iface, ip, mac string) {
	s.Helper()
	element, err := json.Marshal([]map[string]any{{"name": "fixed", "interface": iface, "ips": []string{ip}, "mac": mac}})
	s.Must(err)
	s.createAnnotated("named", string(element))
	_, err = s.Ready(s.Ctx, s.NS, "named", 3*time.Minute)
	s.Must(err)
	_, err = s.NetworkStatus(s.Ctx, s.NS, "named")
	s.Must(err)
}

// webRuns waits until the Deployment has exactly n pods, all with their network in
// network-status.
func (s *snapshots) webRuns(n int) {
	s.Helper()
	s.Eventually(3*time.Minute, func(ctx context.Context) error {
		list, err := s.Kube.CoreV1().Pods(s.NS).List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
		if err != nil {
			return err
		}
		if len(list.Items) != n {
			return fmt.Errorf("%d pods of web, want %d", len(list.Items), n)
		}
		for i := range list.Items {
			p := &list.Items[i]
			if p.Status.Phase != corev1.PodRunning || !strings.Contains(p.Annotations["k8s.v1.cni.cncf.io/network-status"], "snap/blue") {
				return fmt.Errorf("pod %s is %s with network-status %q", p.Name, p.Status.Phase, p.Annotations["k8s.v1.cni.cncf.io/network-status"])
			}
		}
		return nil
	})
}

// run runs kubectl-nadra, checks its exit code and returns its standard output.
func (s *snapshots) run(code int, args ...string) string {
	s.Helper()
	cmd := s.command(s.Ctx, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	var exit *exec.ExitError
	if err := s.node.Run(cmd); err != nil && !errors.As(err, &exit) {
		s.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != code {
		s.Fatalf("%s: exit code %d, want %d:\n%s%s", strings.Join(args, " "), got, code, out.String(), errs.String())
	}
	s.Logf("%s\n%s%s", strings.Join(args, " "), out.String(), errs.String())
	return out.String()
}

func (s *snapshots) take(name string) *snapshot.Snapshot {
	s.Helper()
	s.run(cli.CodeOK, "snapshot", "--probe", "--output-file", s.file(name))
	text, err := os.ReadFile(s.file(name))
	s.Must(err)
	out, err := snapshot.Parse(text)
	s.Must(err)
	s.Must(s.noProbes())
	return out
}

// verify compares the present state with a snapshot.
func (s *snapshots) verify(code int, args ...string) *snapshot.Report {
	s.Helper()
	var r snapshot.Report
	s.Must(json.Unmarshal([]byte(s.run(code, append([]string{"verify", "--against", s.file("before.json"), "-o", "json"}, args...)...)), &r))
	return &r
}

var taken = regexp.MustCompile(`"taken": "[^"]*"`)

func (s *snapshots) same() {
	s.take("before.json")
	s.take("again.json")
	one, err := os.ReadFile(s.file("before.json"))
	s.Must(err)
	two, err := os.ReadFile(s.file("again.json"))
	s.Must(err)
	if !bytes.Equal(taken.ReplaceAll(one, nil), taken.ReplaceAll(two, nil)) {
		s.Errorf("they differ:\n%s\n%s", one, two)
	}
	if r := s.verify(cli.CodeOK, "--probe", "--strict"); r.Summary.Findings.Total() != 0 || r.Summary.Pods != 3 || r.Summary.Interfaces != 3 {
		s.Errorf("summary %+v", r.Summary)
	}
}

func (s *snapshots) seen() {
	text, err := os.ReadFile(s.file("before.json"))
	s.Must(err)
	before, err := snapshot.Parse(text)
	s.Must(err)
	for i := range before.Pods {
		p := &before.Pods[i]
		if p.Observed == nil || len(p.Observed.Errors) > 0 || len(p.Observed.Links) != 2 {
			s.Fatalf("pod %s: the node saw %+v", p.Name, p.Observed)
		}
		secondary := p.Observed.Links[1] // after eth0
		if p.Name == "named" {
			asked := p.Interfaces[1].Requested
			if secondary.Name != "n3" || secondary.MAC != "02:00:00:00:86:05" || !slices.Equal(secondary.Addresses[:1], []string{"10.86.0.5/24"}) || asked == nil || asked.MAC != secondary.MAC {
				s.Errorf("pod named: %+v, asked %+v", secondary, asked)
			}
			continue
		}
		if *p.Workload != (snapshot.Workload{Kind: "Deployment", Name: "web"}) || p.Interfaces[1].By != snapshot.Nadra {
			s.Errorf("pod %s is of %+v, attached by %q", p.Name, p.Workload, p.Interfaces[1].By)
		}
		if secondary.Kind != "macvlan" || secondary.Mode != "bridge" || secondary.Lower != "lan-snap" || !secondary.OnHost || secondary.Sysctls["ipv4.arp_filter"] != "1" {
			s.Errorf("pod %s: %+v", p.Name, secondary)
		}
		hasRoute := false
		for _, r := range p.Observed.Routes {
			hasRoute = hasRoute || r.To == "10.185.0.0/16" && r.Via == "10.85.0.1" && r.Interface == secondary.Name
		}
		if !hasRoute {
			s.Errorf("pod %s: routes %+v", p.Name, p.Observed.Routes)
		}
	}
}

func (s *snapshots) recreated() {
	s.Must(s.DeletePod(s.Ctx, s.NS, "named"))
	s.named("n3", "10.86.0.5/24", "02:00:00:00:86:05")
	s.Kubectl("-n", s.NS, "rollout", "restart", "deployment/web")
	s.Kubectl("-n", s.NS, "rollout", "status", "deployment/web", "--timeout=120s")
	s.webRuns(2)
	r := s.verify(cli.CodeOK, "--probe", "--fail-on", "warning")
	if r.Summary.Findings.Blocker+r.Summary.Findings.Warning > 0 || r.Summary.Findings.Info == 0 || r.Summary.Pods != 3 || r.Now.Observed != 3 {
		s.Errorf("summary %+v of %+v", r.Summary, r.Now)
	}
	for _, d := range r.Differences {
		if d.Object.Name == "named" && (d.Code == snapshot.MACOther || d.Code == snapshot.AddressOther) {
			s.Errorf("a requested value differs: %s", d.Message)
		}
	}
	s.verify(cli.CodeWarnings, "--probe", "--strict")
	// Without the nodes' facts the result is the same, with one more warning.
	if r := s.verify(cli.CodeOK); r.Summary.Findings.Warning != 1 || !hasCode(r, snapshot.NotCompared, "") {
		s.Errorf("from outside: %+v", r.Summary)
	}
}

func hasCode(r *snapshot.Report, code translate.Code, pod string) bool {
	return slices.ContainsFunc(r.Differences, func(d snapshot.Difference) bool { return d.Code == code && (pod == "" || d.Object.Name == pod) })
}

func (s *snapshots) changed() {
	s.Must(s.DeletePod(s.Ctx, s.NS, "named"))
	s.named("n9", "10.86.0.6/24", "02:00:00:00:86:06")
	s.Kubectl("-n", s.NS, "scale", "deployment/web", "--replicas=1")
	s.webRuns(1)
	s.Kubectl("-n", s.NS, "patch", "net-attach-def", "fixed", "--type=merge", "-p", `{"spec":{"config":"{\"cniVersion\":\"1.0.0\",\"type\":\"macvlan\",\"master\":\"lan-snap\"}"}}`) // no other pod uses it
	r := s.verify(cli.CodeBlockers, "--probe")
	for code, pod := range map[translate.Code]string{
		snapshot.Renamed: "named", snapshot.MACLost: "named", snapshot.AddressLost: "named", snapshot.PodMissing: "", snapshot.NADOther: "",
	} {
		if !hasCode(r, code, pod) {
			s.Errorf("%s is not reported", code)
		}
	}
	s.Must(matches(regexp.MustCompile(`(?m)^snap +po/named +named +NADRA-412 +blocker +.*\bn3\b.*\bn9\b`),
		s.run(cli.CodeBlockers, "verify", "--against", s.file("before.json"), "--probe")))
}

func (s *snapshots) canaries() {
	s.Must(matches(regexp.MustCompile(`(?m)^snap/blue +macvlan,tuning +host-local +2 +2 +0 `),
		s.run(cli.CodeOK, "verify", "--canary", "--nad", "blue", "--per-node", "2", "--dry-run")))
	var r canary.Report
	s.Must(json.Unmarshal([]byte(s.run(cli.CodeOK, "verify", "--canary", "--nad", "blue", "--per-node", "2", "--fail-on", "warning", "-o", "json")), &r))
	if r.Summary.PodsOK != 2 || r.Summary.PingsOK != 2 || r.Summary.Pings != 2 || len(r.LeftBehind) > 0 {
		s.Errorf("report %+v", r)
	}
	for _, n := range r.Networks {
		for _, p := range n.Pods {
			if p.By != "nadra" || !strings.HasPrefix(p.IPs[0], "10.85.0.") {
				s.Errorf("canary %+v", p)
			}
		}
		for _, p := range n.Pings {
			s.Logf("%s to %s by %s (%s): %dus", p.FromNode, p.Address, p.Via, p.Method, p.MedianMicros)
			if p.Via != "net1" || p.Method != probe.ICMP {
				s.Errorf("ping %+v", p)
			}
		}
	}
	s.Must(s.noCanaries(s.Ctx))
	s.run(cli.CodeOK, "verify", "--canary", "--nad", "blue", "--per-node", "2")

	s.run(cli.CodeError, "verify", "--canary", "--nad", "absent")
	s.run(cli.CodeError, "verify", "--canary", "--nad", "blue", "--node", "absent")
}

// noCanaries returns an error if a canary is left.
func (s *snapshots) noCanaries(ctx context.Context) error {
	pods, err := s.Kube.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: canary.Selector()})
	if err == nil && len(pods.Items) > 0 {
		err = fmt.Errorf("%d canaries are left, %s/%s first", len(pods.Items), pods.Items[0].Namespace, pods.Items[0].Name)
	}
	return err
}

func (s *snapshots) interrupted() {
	ctx, interrupt := context.WithCancel(s.Ctx)
	defer interrupt()
	cmd := s.command(ctx, "verify", "--canary", "--nad", "blue")
	var out safeBuffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	done := make(chan error, 1)
	go func() { done <- s.node.Run(cmd) }()
	s.Eventually(time.Minute, func(ctx context.Context) error {
		if s.noCanaries(ctx) == nil {
			return errors.New("there is no canary yet")
		}
		return nil
	})
	interrupt()
	if err := <-done; err != nil && !errors.Is(err, context.Canceled) && !errors.As(err, new(*exec.ExitError)) {
		s.Error(err)
	}
	if code := cmd.ProcessState.ExitCode(); code != cli.CodeError && code != cli.CodeOK { // it may have ended already
		s.Errorf("exit code %d: %s", code, out.String())
	}
	s.Must(s.noCanaries(s.Ctx))
}
