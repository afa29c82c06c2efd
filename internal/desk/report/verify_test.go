package report

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nadra-dev/nadra/internal/desk/canary"
	"github.com/nadra-dev/nadra/internal/desk/snapshot"
	"github.com/nadra-dev/nadra/internal/probe"
	"github.com/nadra-dev/nadra/pkg/translate"
	"github.com/nadra-dev/nadra/test/golden"
)

// upf returns a pod of a StatefulSet with networks of Multus.
func upf(ordinal int, uid, node string) snapshot.Pod {
	at := []string{"10", "11", "12"}[ordinal]
	name := "upf-" + []string{"0", "1", "2"}[ordinal]
	return snapshot.Pod{
		Namespace: "core5g", Name: name, UID: uid, Node: node, Workload: &snapshot.Workload{Kind: "StatefulSet", Name: "upf"}, Ordinal: &ordinal,
		Interfaces: []snapshot.Interface{
			{Network: "k8s-pod-network", Name: "eth0", Default: true, IPs: []string{"10.98.1." + at}, Gateways: []string{"10.98.1.1"}},
			{
				Network: "core5g/n3", Name: "n3", By: snapshot.Multus, IPs: []string{"10.3.0." + at}, MAC: "02:00:00:00:03:" + at, MTU: 9000,
				Requested: &snapshot.Requested{Interface: "n3", IPs: []string{"10.3.0." + at + "/24"}},
			},
			{Network: "core5g/n6", Name: "n6", By: snapshot.Multus, IPs: []string{"10.6.0." + at}, MAC: "1e:00:00:00:06:" + at, MTU: 1500},
		},
	}
}

func osd(name, node string) snapshot.Pod {
	return snapshot.Pod{
		Namespace: "storage", Name: name, UID: name, Node: node, Workload: &snapshot.Workload{Kind: "DaemonSet", Name: "osd"},
		Interfaces: []snapshot.Interface{{Network: "storage/ceph", Name: "net1", By: snapshot.Multus, IPs: []string{"10.8.0.4"}, MTU: 9000}},
	}
}

// verifyReport returns the report of a move in which a pod has lost networks, another waits,
// and a DaemonSet's pods have a smaller MTU.
func verifyReport(t *testing.T) *snapshot.Report {
	t.Helper()
	networks := []snapshot.Network{
		{Namespace: "core5g", Name: "n3", Plugins: []string{"macvlan"}, IPAM: []string{"static"}},
		{Namespace: "core5g", Name: "n6", Plugins: []string{"macvlan"}, IPAM: []string{"whereabouts"}, Subnets: []string{"10.6.0.0/24"}, Digest: "a"},
		{Namespace: "storage", Name: "ceph", Plugins: []string{"macvlan"}},
	}
	was := &snapshot.Snapshot{
		Source: "cluster lab", Taken: "2026-11-21T20:00:00Z", Networks: networks,
		Pods: []snapshot.Pod{upf(0, "u0", "worker-1"), upf(1, "u1", "worker-2"), upf(2, "u2", "worker-2"), osd("osd-a1", "worker-1"), osd("osd-b2", "worker-2")},
	}
	zero, one := upf(0, "u7", "worker-1"), upf(1, "u8", "worker-1")
	for _, p := range []*snapshot.Pod{&zero, &one} {
		for i := range p.Interfaces[1:] {
			p.Interfaces[i+1].By = snapshot.Nadra
		}
		p.Interfaces[1].MAC, p.Interfaces[2].MAC, p.Interfaces[2].IPs = "02:00:00:00:03:77", "1e:00:00:00:06:77", []string{"10.6.0.77"}
	}
	one.Interfaces[1].IPs = []string{"10.3.0.99"}
	one.Interfaces = one.Interfaces[:2]
	one.Lacking = []snapshot.Lack{{Network: "core5g/n6", Interface: "n6", State: "Failed", Reason: "no free address in 10.6.0.0/24"}}
	a, b := osd("osd-x9", "worker-1"), osd("osd-y8", "worker-2")
	a.Interfaces[0].MTU, b.Interfaces[0].MTU = 1500, 1500
	changed := append([]snapshot.Network{}, networks...)
	changed[1].Digest = "b"
	now := &snapshot.Snapshot{
		Source: "cluster lab", Taken: "2026-11-21T21:30:00Z", Networks: changed,
		Pods:       []snapshot.Pod{zero, one, a, b, {Namespace: "core5g", Name: "extra", Node: "worker-1", Interfaces: []snapshot.Interface{{Network: "core5g/n3", Name: "net1"}}}},
		NotRunning: []snapshot.NotRunning{{Namespace: "core5g", Name: "upf-2", Phase: "Pending", Why: "0/2 nodes are available: 2 cannot allocate all claims."}},
	}
	r, err := snapshot.Compare(was, now, snapshot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// sameReport returns a report with only expected differences.
func sameReport(t *testing.T) *snapshot.Report {
	t.Helper()
	was := &snapshot.Snapshot{Pods: []snapshot.Pod{upf(0, "u0", "worker-1")}}
	now := &snapshot.Snapshot{Pods: []snapshot.Pod{upf(0, "u9", "worker-2")}}
	r, err := snapshot.Compare(was, now, snapshot.Options{Ignore: []translate.Code{snapshot.NodeOther}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func canaryReport() *canary.Report {
	of := func(network, node, name, ip string) canary.PodReport {
		return canary.PodReport{
			Pod: canary.Pod{Namespace: "core5g", Name: name, Node: node}, Status: canary.OK, By: "nadra", Interface: "net1",
			IPs: []string{ip}, MAC: "02:00:00:00:00:01", ReadyMillis: 2140,
		}
	}
	ping := func(from, to, address string, received int, status canary.Status, message string) canary.PingReport {
		p := canary.PingReport{From: "c-" + from, FromNode: from, To: "c-" + to, ToNode: to, Status: status, Message: message}
		p.Ping = probe.Ping{Address: address, Via: "net1", Method: probe.ICMP, Sent: 5, Received: received}
		if received > 0 {
			p.MedianMicros = 180
		}
		return p
	}
	failed := canary.PodReport{
		Pod: canary.Pod{Namespace: "core5g", Name: "c-worker-3", Node: "worker-3"}, Status: canary.Failed, Code: "NADRA-470",
		Problems: []string{"it is not ready after 2m0s: the kubelet has not started it; FailedCreatePodSandBox: no free address"},
	}
	return canary.NewReport("cluster lab", []canary.NetworkReport{
		{
			Network: "core5g/n3", Plugins: []string{"macvlan"}, IPAM: "host-local",
			Pods: []canary.PodReport{of("n3", "worker-1", "c-worker-1", "10.3.0.4"), of("n3", "worker-2", "c-worker-2", "10.3.0.5"), failed},
			Pings: []canary.PingReport{
				ping("worker-1", "worker-2", "10.3.0.5", 5, canary.OK, ""),
				ping("worker-2", "worker-1", "10.3.0.4", 3, canary.Lossy, "3 of 5 requests were answered (icmp)"),
			},
		},
		{
			Network: "core5g/n6", Plugins: []string{"bridge"}, IPAM: "host-local",
			Pods: []canary.PodReport{of("n6", "worker-1", "c-worker-1", "10.6.0.2"), of("n6", "worker-1", "c-worker-1b", "10.6.0.3"), of("n6", "worker-2", "c-worker-2", "10.6.0.2")},
			Pings: []canary.PingReport{
				ping("worker-1", "worker-2", "10.6.0.2", 0, canary.NotExpected, "the bridge is a separate gateway on each node"),
				ping("worker-2", "worker-1", "10.6.0.2", 0, canary.Failed, "no answer to 5 requests (icmp)"),
			},
		},
		{Network: "core5g/n9", Plugins: []string{"bridge"}, IPAM: "static", Skipped: "every pod of it has address 10.9.0.5/24: a canary would take it from running pods"},
	}, []string{"core5g/c-worker-3"})
}

func canaryPlan() *canary.Plan {
	return &canary.Plan{
		APIVersion: canary.APIVersion, Kind: canary.PlanKind, Source: "cluster lab", Pods: 4, Addresses: 4, Devices: 1,
		Networks: []canary.NetworkPlan{
			{Network: "core5g/n3", Plugins: []string{"macvlan"}, IPAM: "host-local", Addresses: 3, Pods: []canary.Pod{{Node: "worker-1"}, {Node: "worker-2"}, {Node: "worker-3"}}},
			{Network: "core5g/n9", Plugins: []string{"bridge"}, IPAM: "static", Skipped: "every pod of it has address 10.9.0.5/24: a canary would take it from running pods"},
			{Network: "ran/vf", Plugins: []string{"sriov"}, IPAM: "whereabouts", Pool: "intel.com/sriov", Addresses: 1, Devices: 1, Pods: []canary.Pod{{Node: "worker-1"}}},
		},
	}
}

func TestVerifyGolden(t *testing.T) {
	for _, format := range Verify.Names() {
		for name, r := range map[string]*snapshot.Report{"verify": verifyReport(t), "verify-same": sameReport(t)} {
			var b strings.Builder
			if err := Verify.Write(&b, format, r); err != nil {
				t.Fatal(err)
			}
			golden.Check(t, filepath.Join("testdata", name+"."+format), b.String())
		}
		var b strings.Builder
		if err := Canary.Write(&b, format, canaryReport()); err != nil {
			t.Fatal(err)
		}
		golden.Check(t, filepath.Join("testdata", "canary."+format), b.String())
	}
	for _, format := range CanaryPlan.Names() {
		var b strings.Builder
		if err := CanaryPlan.Write(&b, format, canaryPlan()); err != nil {
			t.Fatal(err)
		}
		golden.Check(t, filepath.Join("testdata", "plan."+format), b.String())
	}
}

// TestOutputIsDocumented checks that the pages show the golden files.
func TestOutputIsDocumented(t *testing.T) {
	for name, where := range map[string]string{
		"verify.table": "snapshot.md", "canary.table": "canaries.md", "plan.table": "canaries.md",
	} {
		page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "migrate", where))
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(page), "\n"+string(text)+"```\n") {
			t.Errorf("docs/migrate/%s does not show %s", where, name)
		}
	}
}

func TestCanaryFormats(t *testing.T) {
	if !slices.Equal(Canary.Names(), Verify.Names()) || !slices.Equal(CanaryPlan.Names(), Verify.Names()) {
		t.Errorf("verify has %v, with canaries %v, and %v for their plan", Verify.Names(), Canary.Names(), CanaryPlan.Names())
	}
}

// TestVerifyIsRobust checks that errors of the writer are returned, and escape sequences
// shown.
func TestVerifyIsRobust(t *testing.T) {
	hostile := &snapshot.Report{
		Was: snapshot.Side{Source: "x\x1b"},
		Differences: []snapshot.Difference{
			{
				Finding: translate.Finding{
					Code: snapshot.MTUOther, Severity: translate.Blocker, Object: translate.ObjectRef{Kind: "Pod", Namespace: "a\x1b", Name: "p\x1b"}, Message: "m\x1b[31m\nx",
				},
				Workload: &snapshot.Workload{Kind: "K\x1b", Name: "w\x1b"}, Interface: "i\x1b", Network: "n\x1b",
			},
			{Finding: translate.Finding{Code: snapshot.NADOther, Severity: translate.Warning, Object: translate.ObjectRef{Name: "n\x1b"}, Message: "m\x1b"}},
		},
		Workloads: []snapshot.WorkloadResult{{Namespace: "a\x1b", Workload: snapshot.Workload{Kind: "K\x1b", Name: "w\x1b"}}},
	}
	dirty := canary.NewReport("x\x1b", []canary.NetworkReport{{
		Network: "n\x1b", Skipped: "s\x1b",
		Pods:  []canary.PodReport{{Pod: canary.Pod{Node: "n\x1b", Name: "p\x1b"}, Status: canary.Failed, IPs: []string{"i\x1b"}, Problems: []string{"p\x1b"}}},
		Pings: []canary.PingReport{{From: "p\x1b", FromNode: "n\x1b", ToNode: "n\x1b", Ping: probe.Ping{Address: "a\x1b"}, Status: canary.Failed, Message: "m\x1b"}},
	}}, []string{"l\x1b"})
	for _, format := range Verify.Names() {
		if err := Verify.Write(&full{100}, format, verifyReport(t)); !errors.Is(err, errFull) {
			t.Errorf("%s: the error is %v", format, err)
		}
		if err := Canary.Write(&full{100}, format, canaryReport()); !errors.Is(err, errFull) {
			t.Errorf("%s: the error is %v", format, err)
		}
		var b strings.Builder
		if err := errors.Join(Verify.Write(&b, format, hostile), Canary.Write(&b, format, dirty)); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(b.String(), "\x1b") {
			t.Errorf("%s: an escape sequence:\n%q", format, b.String())
		}
	}
	if err := Verify.Write(&strings.Builder{}, "csv", verifyReport(t)); err == nil || !strings.Contains(err.Error(), "table, json, yaml") {
		t.Errorf("the error is %v", err)
	}
	if err := CanaryPlan.Write(&strings.Builder{}, "junit", canaryPlan()); err == nil || !strings.Contains(err.Error(), "table, json, yaml") {
		t.Errorf("the error is %v", err)
	}
}
