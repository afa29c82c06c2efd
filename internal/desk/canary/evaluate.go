package canary

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"

	"github.com/nadra-dev/nadra/internal/probe"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// Result is the result of a canary.
type Result struct {
	Pod
	// Err is why the canary did not become ready, or could not be inspected.
	Err error
	// Ready is the time that it took to become ready.
	Ready time.Duration
	// By is who attached the network.
	By attachment.Attacher
	// Status is the network's entry in network-status, or nil.
	Status     *nadv1.NetworkStatus
	Inspection *probe.Inspection
	Pings      *probe.Pings
	// PingErr is why it could not ping.
	PingErr error
}

// addresses returns the addresses by which others reach the canary.
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

// target is an address of another canary.
type target struct {
	of      *Result
	address netip.Addr
}

// targets returns the addresses of all other canaries in the address families of canary i.
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

// addressesFor returns the addresses that canary i has to ping, each once. A canary that failed
// has none.
func addressesFor(all []Result, i int) []string {
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

// evaluate evaluates the results of a network's canaries.
func (n *NetworkPlan) evaluate(all []Result) NetworkReport {
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

// pod evaluates a canary.
func (n *NetworkPlan) pod(r *Result) PodReport {
	out := PodReport{Pod: r.Pod, ReadyMillis: r.Ready.Milliseconds()}
	if s := r.Status; s != nil {
		out.Interface, out.IPs, out.MAC, out.By = s.Interface, s.IPs, s.Mac, r.By
	}
	out.Status = OK
	if code, problems := n.problems(r); len(problems) > 0 {
		out.Status, out.Code, out.Problems = Failed, code, problems
	}
	return out
}

// problems returns the problems of a canary itself, and their code.
func (n *NetworkPlan) problems(r *Result) (translate.Code, []string) {
	switch {
	case r.Err != nil:
		return codeNotReady, []string{r.Err.Error()}
	case r.Status == nil:
		return codeNoNetwork, []string{"it runs without the network: network-status does not have it"}
	case r.Inspection == nil:
		return codeNotReady, []string{"it was not inspected"}
	}
	i := slices.IndexFunc(r.Inspection.Links, func(l probe.Link) bool { return l.Name == r.Status.Interface })
	if i < 0 {
		return codeInterface, []string{fmt.Sprintf("network-status has interface %s, and the pod does not", r.Status.Interface)}
	}
	l := r.Inspection.Links[i]
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
		out = append(out, fmt.Sprintf("its IPAM plugin %s assigned no address", n.IPAM))
	}
	return codeInterface, out
}

// ping evaluates the pings from a canary to a target.
func (n *NetworkPlan) ping(from *Result, t target) PingReport {
	out := PingReport{
		From: from.Name, FromNode: from.Node, To: t.of.Name, ToNode: t.of.Node,
		Ping: probe.Ping{Address: t.address.String()},
	}
	answered := false
	if from.Pings != nil {
		for _, p := range from.Pings.Pings {
			if p.Address == out.Address {
				out.Ping, answered = p, true
			}
		}
	}
	why := n.facts.unreachable(from.Node == t.of.Node)
	out.Status, out.Message = outcome(from, t, out.Ping, answered)
	if out.Status != OK && why != "" {
		out.Status, out.Message = NotExpected, why
	}
	return out
}

// outcome returns the status of a ping, and its message unless it is OK.
func outcome(from *Result, t target, p probe.Ping, answered bool) (Status, string) {
	switch {
	case slices.Contains(from.addresses(), t.address):
		return Failed, fmt.Sprintf("both have %s: their nodes assign the same addresses", t.address)
	case from.PingErr != nil:
		return Failed, from.PingErr.Error()
	case !answered:
		return Failed, "it was not pinged"
	case p.Error != "":
		return Failed, p.Error
	case p.Via != "" && from.Status != nil && p.Via != from.Status.Interface:
		return Failed, fmt.Sprintf("packets leave through %s, not through %s: add a route to the network", p.Via, from.Status.Interface)
	case p.Received == 0:
		return Failed, fmt.Sprintf("no answer to %d requests (%s)", p.Sent, p.Method)
	case p.Received < p.Sent:
		return Lossy, fmt.Sprintf("%d of %d requests were answered (%s)", p.Received, p.Sent, p.Method)
	}
	return OK, ""
}
