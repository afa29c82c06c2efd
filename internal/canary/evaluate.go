package canary

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
)

// Result is what one canary has given.
type Result struct {
	Pod
	// Err is why it did not get to be ready, or could not be asked.
	Err error
	// Ready is how long it took.
	Ready time.Duration
	// Claimed says that it has a claim: nadra serves it.
	Claimed bool
	// Status is the network's entry of network-status; nil where there is none.
	Status *nadv1.NetworkStatus
	Look   *Look
	Pings  *Pings
	// PingErr is why it could not ping.
	PingErr error
}

// addresses are those that others are to reach the canary by.
func (r *Result) addresses() []netip.Addr {
	if r.Status == nil {
		return nil
	}
	var out []netip.Addr
	for _, text := range r.Status.IPs {
		text, _, _ = strings.Cut(text, "/")
		if a, err := netip.ParseAddr(text); err == nil && !a.IsLinkLocalUnicast() {
			out = append(out, a.Unmap())
		}
	}
	return out
}

// target is an address of another canary that one has to ping.
type target struct {
	of      *Result
	address netip.Addr
}

// targets are what a canary has to ping: the addresses of all others in the
// families that it has itself.
func targets(all []Result, i int) []target {
	own := all[i].addresses()
	var out []target
	for j := range all {
		if j == i || all[j].Err != nil {
			continue
		}
		for _, a := range all[j].addresses() {
			if slices.ContainsFunc(own, func(o netip.Addr) bool { return o.Is4() == a.Is4() }) {
				out = append(out, target{&all[j], a})
			}
		}
	}
	return out
}

// Targets are the addresses that a canary has to ping, each once; none for one
// that failed.
func Targets(all []Result, i int) []string {
	if all[i].Err != nil {
		return nil
	}
	var out []string
	for _, t := range targets(all, i) {
		if a := t.address.String(); !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}

// Evaluate judges what the canaries of a network have given.
func (n *NetworkPlan) Evaluate(all []Result) NetworkReport {
	out := NetworkReport{Network: n.Network, Plugins: n.Plugins, IPAM: n.IPAM, Skipped: n.Skipped}
	for i := range all {
		out.Pods = append(out.Pods, n.pod(&all[i]))
	}
	for i := range all {
		if all[i].Err != nil {
			continue
		}
		for _, t := range targets(all, i) {
			out.Pings = append(out.Pings, n.ping(&all[i], t))
		}
	}
	return out
}

func (n *NetworkPlan) pod(r *Result) PodReport {
	out := PodReport{Pod: r.Pod, ReadyMillis: r.Ready.Milliseconds()}
	if s := r.Status; s != nil {
		out.Interface, out.IPs, out.MAC = s.Interface, s.IPs, s.Mac
		out.By = "multus"
		if r.Claimed {
			out.By = "nadra"
		}
	}
	out.Problems = n.problems(r)
	out.Status = OK
	if len(out.Problems) > 0 {
		out.Status = Failed
	}
	return out
}

// problems are what is wrong with a canary itself.
func (n *NetworkPlan) problems(r *Result) []string {
	switch {
	case r.Err != nil:
		return []string{r.Err.Error()}
	case r.Status == nil:
		return []string{"it runs without the network: network-status does not have it, so that nobody has attached it"}
	case r.Look == nil:
		return []string{"it was not asked"}
	}
	i := slices.IndexFunc(r.Look.Links, func(l Link) bool { return l.Name == r.Status.Interface })
	if i < 0 {
		return []string{fmt.Sprintf("network-status has interface %s, and the pod does not", r.Status.Interface)}
	}
	l := r.Look.Links[i]
	var out []string
	switch {
	case !l.Up:
		out = append(out, l.Name+" is down")
	case !l.Running:
		out = append(out, l.Name+" has no carrier")
	}
	if r.Status.Mac != "" && !strings.EqualFold(r.Status.Mac, l.MAC) {
		out = append(out, fmt.Sprintf("network-status has MAC address %s, and %s has %s", r.Status.Mac, l.Name, l.MAC))
	}
	for _, a := range r.addresses() {
		if !slices.ContainsFunc(l.Addresses, func(text string) bool { return strings.HasPrefix(text, a.String()+"/") }) {
			out = append(out, fmt.Sprintf("network-status has %s, and %s does not", a, l.Name))
		}
	}
	if len(r.addresses()) == 0 && n.facts.addresses > 0 {
		out = append(out, fmt.Sprintf("its IPAM plugin %s gave no address", n.IPAM))
	}
	return out
}

func (n *NetworkPlan) ping(from *Result, t target) PingReport {
	out := PingReport{
		From: from.Name, FromNode: from.Node, To: t.of.Name, ToNode: t.of.Node,
		Ping: Ping{Address: t.address.String()},
	}
	answered := false
	if from.Pings != nil {
		for _, p := range from.Pings.Pings {
			if p.Address == out.Address {
				out.Ping, answered = p, true
			}
		}
	}
	why := n.facts.Unreachable(from.Node == t.of.Node)
	out.Status, out.Message = outcome(from, t, out.Ping, answered)
	if out.Status != OK && why != "" {
		out.Status, out.Message = NotExpected, why
	}
	return out
}

func outcome(from *Result, t target, p Ping, answered bool) (Status, string) {
	switch {
	case slices.Contains(from.addresses(), t.address):
		return Failed, fmt.Sprintf("both have %s: their nodes give out the same addresses", t.address)
	case from.PingErr != nil:
		return Failed, from.PingErr.Error()
	case !answered:
		return Failed, "it was not tried"
	case p.Error != "":
		return Failed, p.Error
	case p.Via != "" && from.Status != nil && p.Via != from.Status.Interface:
		return Failed, fmt.Sprintf("the way there is by %s, not by %s: add a route to the network", p.Via, from.Status.Interface)
	case p.Received == 0:
		return Failed, fmt.Sprintf("no answer to %d requests (%s)", p.Sent, p.Method)
	case p.Received < p.Sent:
		return Lossy, fmt.Sprintf("%d of %d requests were answered (%s)", p.Received, p.Sent, p.Method)
	}
	return OK, ""
}
