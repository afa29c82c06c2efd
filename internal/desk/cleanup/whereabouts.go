package cleanup

import (
	"math/big"
	"net/netip"
	"strings"

	"github.com/nadra-dev/nadra/internal/probe"
)

// pool is an IPPool of whereabouts.
type pool struct {
	Namespace, Name, Range string
	// Allocations are by key: the offset from the range's first address.
	Allocations map[string]allocation
}

// allocation is an address that whereabouts assigned.
type allocation struct {
	// ID is the sandbox' ID, Pod is NAMESPACE/NAME.
	ID, Pod, IfName string
}

// reserved is an OverlappingRangeIPReservation.
type reserved struct {
	Namespace, Name string
	allocation
}

// sandboxes are the sandboxes of all nodes' container runtimes. A pod that was deleted by
// force is gone from the API server, and may still run.
type sandboxes struct {
	IDs map[string]bool
	// Unknown explains why some are missing; empty if IDs is complete.
	Unknown string
}

// leases returns the addresses whose pod is gone, and whose sandbox no node has. It leaves
// out addresses of a pod that was recreated under its name: its new sandbox may have taken
// them over.
func leases(f facts, pods map[string]bool, s sandboxes) []probe.Orphan {
	var out []probe.Orphan
	judge := func(a allocation, o probe.Orphan) {
		if !strings.Contains(a.Pod, "/") || pods[a.Pod] || s.IDs[a.ID] {
			return
		}
		unknown := s.Unknown
		if a.ID == "" {
			unknown = "the allocation does not name it"
		}
		o.Pod, o.Sandbox, o.Why = a.Pod, a.ID, "its pod is gone, and no node has its sandbox"
		if unknown != "" {
			o.Action, o.Why = probe.ActionNone, "its pod is gone; it is unknown whether its sandbox is: "+unknown
		}
		out = append(out, o)
	}
	for _, p := range f.Pools {
		for key, a := range p.Allocations {
			judge(a, probe.Orphan{Kind: probe.OrphanWhereabouts, Object: p.Namespace + "/" + p.Name + "#" + key, Network: p.Range, Address: p.address(key), Action: probe.ActionRelease})
		}
	}
	for _, r := range f.Reservations {
		judge(r.allocation, probe.Orphan{Kind: probe.OrphanReservation, Object: r.Namespace + "/" + r.Name, Address: r.Name, Action: probe.ActionDelete})
	}
	return out
}

// address returns the address of a key, or the key itself if the range is invalid.
func (p pool) address(key string) string {
	prefix, err := netip.ParsePrefix(p.Range)
	distance, ok := new(big.Int).SetString(key, 10)
	if err != nil || !ok || distance.Sign() < 0 {
		return "#" + key
	}
	first := prefix.Masked().Addr().AsSlice()
	sum := new(big.Int).Add(new(big.Int).SetBytes(first), distance).Bytes()
	if len(sum) > len(first) {
		return "#" + key
	}
	out := make([]byte, len(first))
	copy(out[len(first)-len(sum):], sum)
	addr, _ := netip.AddrFromSlice(out)
	return addr.String()
}
