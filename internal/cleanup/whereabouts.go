package cleanup

import (
	"fmt"
	"math/big"
	"net/netip"
	"strings"
)

// Pool is an IPPool of whereabouts.
type Pool struct {
	Namespace, Name, Range string
	// Allocations are by their key: the distance from the range's first address.
	Allocations map[string]Allocation
}

// Allocation is an address that whereabouts has given out.
type Allocation struct {
	// ID is that of the sandbox, Pod is NAMESPACE/NAME.
	ID, Pod, IfName string
}

// Reserved is an OverlappingRangeIPReservation.
type Reserved struct {
	Namespace, Name string
	Allocation
}

// Sandboxes are those that the nodes' runtimes know. A pod that was deleted by
// force is gone for the API server, and may run on.
type Sandboxes struct {
	IDs map[string]bool
	// Unknown says why these are not all; empty when they are.
	Unknown string
}

// leases are orphans where neither the pod nor, on any node, the sandbox is
// there. Of a pod that was made anew under its name nothing is said: its new
// sandbox may have taken the address over.
func leases(f Facts, pods map[string]bool, s Sandboxes) []Orphan {
	var out []Orphan
	judge := func(a Allocation, o Orphan) {
		if !strings.Contains(a.Pod, "/") || pods[a.Pod] || s.IDs[a.ID] {
			return
		}
		o.Pod, o.Sandbox, o.Why = a.Pod, a.ID, "its pod is gone, and no node has its sandbox"
		if s.Unknown != "" || a.ID == "" {
			o.Action, o.Why = None, "its pod is gone; whether its sandbox is, is not known: "+s.Unknown
			if a.ID == "" {
				o.Why = "its pod is gone; whether its sandbox is, is not known: it names none"
			}
		}
		out = append(out, o)
	}
	for _, p := range f.Pools {
		for key, a := range p.Allocations {
			judge(a, Orphan{Kind: Whereabouts, Object: p.Namespace + "/" + p.Name + "#" + key, Network: p.Range, Address: p.address(key), Action: Release})
		}
	}
	for _, r := range f.Reservations {
		judge(r.Allocation, Orphan{Kind: Reservation, Object: r.Namespace + "/" + r.Name, Address: r.Name, Action: Delete})
	}
	return out
}

// address is that of a key; the key itself where that cannot be told.
func (p Pool) address(key string) string {
	prefix, err := netip.ParsePrefix(p.Range)
	distance, ok := new(big.Int).SetString(key, 10)
	if err != nil || !ok || distance.Sign() < 0 {
		return fmt.Sprintf("#%s", key)
	}
	first := prefix.Masked().Addr().AsSlice()
	sum := new(big.Int).Add(new(big.Int).SetBytes(first), distance).Bytes()
	if len(sum) > len(first) {
		return fmt.Sprintf("#%s", key)
	}
	out := make([]byte, len(first))
	copy(out[len(first)-len(sum):], sum)
	addr, _ := netip.AddrFromSlice(out)
	return addr.String()
}
