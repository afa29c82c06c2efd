// Package orphan decides what deleted pods left behind on a node, and defines how the node reports that. It is pure:
// facts go in, orphans come out. Whatever is, or may be, in use is not an orphan.
package orphan

import (
	"cmp"
	"slices"
	"strings"
)

// Kind is the kind of an orphan.
type Kind string

// The kinds of orphans.
const (
	Claim        Kind = "claim"        // a ResourceClaim with networks of nadra
	Template     Kind = "template"     // a ResourceClaimTemplate created by admission
	Whereabouts  Kind = "whereabouts"  // an address in an IPPool
	Reservation  Kind = "reservation"  // an OverlappingRangeIPReservation of whereabouts
	CNICache     Kind = "cni-cache"    // an attachment in a cache of libcni
	MultusCache  Kind = "multus-cache" // Multus' own record of a sandbox' networks
	HostLocal    Kind = "host-local"   // an address assigned by host-local
	VirtualFuncs Kind = "vf"           // a virtual function with a pod's settings
)

// Action is the way to free an orphan.
type Action string

// The actions. None leaves it to a person.
const (
	None    Action = "none"
	Delete  Action = "delete"  // deletes the object or file
	DEL     Action = "DEL"     // runs the plugins with the arguments of ADD, and removes the file
	Release Action = "release" // releases the address as its IPAM plugin would
)

// Orphan is something that no pod uses any more.
type Orphan struct {
	Kind Kind `json:"kind"`
	// Node is the node that has it; empty for objects of the cluster.
	Node string `json:"node,omitempty"`
	// Object is its path on the node, or [NAMESPACE/]NAME.
	Object string `json:"object"`
	// Network is the CNI network's name, or the pool.
	Network string `json:"network,omitempty"`
	// Address is the address, interface or function that it occupies.
	Address string `json:"address,omitempty"`
	// Pod is the pod that used it, as NAMESPACE/NAME; empty if unknown.
	Pod string `json:"pod,omitempty"`
	// Sandbox is the ID of the sandbox that used it.
	Sandbox string `json:"sandbox,omitempty"`
	// Why explains why it is an orphan and, if Action is None, why it is not freed.
	Why    string `json:"why"`
	Action Action `json:"action"`
	// Done is true if it was freed. Error is the error of freeing it.
	Done  bool   `json:"done,omitempty"`
	Error string `json:"error,omitempty"`
}

// Sort sorts orphans by node and kind, in the order in which they are freed.
func Sort(all []Orphan) {
	order := []Kind{Claim, Template, Whereabouts, Reservation, CNICache, MultusCache, HostLocal, VirtualFuncs}
	slices.SortStableFunc(all, func(a, b Orphan) int {
		return cmp.Or(
			strings.Compare(a.Node, b.Node),
			cmp.Compare(slices.Index(order, a.Kind), slices.Index(order, b.Kind)),
			strings.Compare(a.Object, b.Object),
		)
	})
}

// NodeReport is the report of a node.
type NodeReport struct {
	// Node is the node's name, which the node itself leaves out.
	Node string `json:"node,omitempty"`
	// Sandboxes are the IDs of the container runtime's sandboxes.
	Sandboxes []string `json:"sandboxes"`
	Orphans   []Orphan `json:"orphans"`
	// Kept is the number of files and addresses of unknown sandboxes that are kept,
	// because something else indicates that they are in use.
	Kept int `json:"kept,omitempty"`
	// Errors are the errors of reading parts of the node.
	Errors []string `json:"errors,omitempty"`
	// Refused is the reason, with its code, why the node was not judged.
	Refused string `json:"refused,omitempty"`
}
