package canary

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"

	"github.com/nadra-dev/nadra/internal/probe"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// planOf plans one network on n1 and n2.
func planOf(t *testing.T, config string) *NetworkPlan {
	t.Helper()
	p := NewPlan(Input{NADs: []*nadv1.NetworkAttachmentDefinition{nad("lan", config)}, Offers: offered("lan")})
	if len(p.Networks[0].Pods) != 2 {
		t.Fatalf("plan %+v", p)
	}
	return &p.Networks[0]
}

// two returns two canaries without problems.
func two(n *NetworkPlan) []Result {
	out := make([]Result, 2)
	for i, address := range []string{"10.0.0.2", "10.0.0.3"} {
		other := []string{"10.0.0.3", "10.0.0.2"}[i]
		mac := []string{"02:00:00:00:00:02", "02:00:00:00:00:03"}[i]
		out[i] = Result{
			Pod: n.Pods[i], Ready: 2 * time.Second, By: attachment.OfNadra,
			Status:     &nadv1.NetworkStatus{Name: n.Network, Interface: "net1", IPs: []string{address}, Mac: mac},
			Inspection: &probe.Inspection{Links: []probe.Link{{Name: "eth0"}, {Name: "net1", MAC: strings.ToUpper(mac), Up: true, Running: true, Addresses: []string{address + "/24", "fe80::1/64"}}}},
			Pings:      &probe.Pings{Pings: []probe.Ping{{Address: other, Via: "net1", Method: probe.ICMP, Sent: 5, Received: 5, MedianMicros: 120}}},
		}
	}
	return out
}

func TestEvaluate(t *testing.T) {
	for name, test := range map[string]struct {
		config string
		change func([]Result)
		// pod and ping are the first canary's.
		pod, ping Status
		says      string
		pings     int
	}{
		"no problem":                  {macvlan, func([]Result) {}, OK, OK, "", 2},
		"it is not ready":             {macvlan, func(r []Result) { r[0].Err = errors.New("no node") }, Failed, "", "no node", 0},
		"it lacks the network":        {macvlan, func(r []Result) { r[0].Status = nil }, Failed, "", "network-status", 0},
		"it was not inspected":        {macvlan, func(r []Result) { r[0].Inspection = nil }, Failed, OK, "it was not inspected", 2},
		"the interface is not there":  {macvlan, func(r []Result) { r[0].Inspection.Links = r[0].Inspection.Links[:1] }, Failed, OK, "the pod does not", 2},
		"the interface is down":       {macvlan, func(r []Result) { r[0].Inspection.Links[1].Up = false }, Failed, OK, "net1 is down", 2},
		"it has no carrier":           {macvlan, func(r []Result) { r[0].Inspection.Links[1].Running = false }, Failed, OK, "no carrier", 2},
		"it has another MAC":          {macvlan, func(r []Result) { r[0].Inspection.Links[1].MAC = "x" }, Failed, OK, "net1 has x", 2},
		"it lacks its address":        {macvlan, func(r []Result) { r[0].Inspection.Links[1].Addresses = nil }, Failed, OK, "10.0.0.2, and net1 ", 2},
		"no address was given":        {macvlan, func(r []Result) { r[0].Status.IPs = nil }, Failed, "", "host-local", 0},
		"no address was to be given":  {`{"type": "macvlan"}`, func(r []Result) { r[0].Status.IPs = nil }, OK, "", "", 0},
		"no answer":                   {macvlan, func(r []Result) { r[0].Pings.Pings[0].Received = 0 }, OK, Failed, " 5 requests (icmp)", 2},
		"few answers":                 {macvlan, func(r []Result) { r[0].Pings.Pings[0].Received = 2 }, OK, Lossy, "2 of 5 requests", 2},
		"another way":                 {macvlan, func(r []Result) { r[0].Pings.Pings[0].Via = "eth0" }, OK, Failed, "eth0", 2},
		"it cannot ping":              {macvlan, func(r []Result) { r[0].Pings, r[0].PingErr = nil, errors.New("forbidden") }, OK, Failed, "forbidden", 2},
		"it could not send":           {macvlan, func(r []Result) { r[0].Pings.Pings[0].Error = "network is unreachable" }, OK, Failed, "network is unreachable", 2},
		"it did not try":              {macvlan, func(r []Result) { r[0].Pings.Pings = nil }, OK, Failed, "it was not pinged", 2},
		"the same address":            {macvlan, sameAddress, OK, Failed, "10.0.0.2", 2},
		"the same, on bridges":        {`{"type": "bridge", "isGateway": true, "ipam": {"type": "host-local", "subnet": "10.0.0.0/24"}}`, sameAddress, OK, NotExpected, "separate gateway", 2},
		"reached against expectation": {`{"type": "ptp", "ipam": {"type": "host-local", "subnet": "10.0.0.0/24"}}`, func([]Result) {}, OK, OK, "", 2},
	} {
		t.Run(name, func(t *testing.T) {
			n := planOf(t, test.config)
			results := two(n)
			test.change(results)
			got := n.evaluate(results)
			var messages []string
			messages = append(messages, got.Pods[0].Problems...)
			if len(got.Pings) > 0 {
				messages = append(messages, got.Pings[0].Message)
				if got.Pings[0].Status != test.ping {
					t.Errorf("the ping is %s, want %s", got.Pings[0].Status, test.ping)
				}
			}
			if got.Pods[0].Status != test.pod || len(got.Pings) != test.pings {
				t.Errorf("the canary is %s with %d pings, want %s with %d", got.Pods[0].Status, len(got.Pings), test.pod, test.pings)
			}
			if text := strings.Join(messages, "; "); !strings.Contains(text, test.says) || test.says == "" && strings.Trim(text, "; ") != "" {
				t.Errorf("messages %q, want %q", text, test.says)
			}
		})
	}
}

func sameAddress(r []Result) {
	r[1].Status.IPs, r[1].Inspection.Links[1].Addresses = []string{"10.0.0.2"}, []string{"10.0.0.2/24"}
	r[0].Pings.Pings[0].Address = "10.0.0.2"
}

// A canary pings each address of its own address families once.
func TestTargets(t *testing.T) {
	of := func(ips ...string) Result { return Result{Status: &nadv1.NetworkStatus{IPs: ips}} }
	all := []Result{of("10.0.0.1", "fd00::1"), of("10.0.0.2", "fe80::2"), of("fd00::3/64", "10.0.0.2"), {Err: errors.New("x")}, of()}
	for i, want := range [][]string{{"10.0.0.2", "fd00::3"}, {"10.0.0.1", "10.0.0.2"}, {"10.0.0.1", "fd00::1", "10.0.0.2"}, nil, nil} {
		if diff := cmp.Diff(want, addressesFor(all, i)); diff != "" {
			t.Errorf("canary %d (-want +got):\n%s", i, diff)
		}
	}
}

func TestReportCounts(t *testing.T) {
	n := planOf(t, macvlan)
	results := two(n)
	results[0].Pings.Pings[0].Received = 1
	results[1].Pings.Pings[0].Received = 0
	networks := []NetworkReport{n.evaluate(results), {Network: "a/b", Skipped: "no node offers it"}}
	bad := two(n)
	bad[0].Err = errors.New("no")
	networks = append(networks, n.evaluate(bad))
	got := NewReport("cluster lab", networks, []string{"a/x"}).Summary
	want := Summary{Networks: 3, Skipped: 1, Pods: 4, PodsOK: 3, Pings: 2, Lossy: 1, PingsFailed: 1, Counts: translate.Counts{Warning: 3, Blocker: 2}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
}
