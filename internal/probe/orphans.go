package probe

import (
	"cmp"
	"slices"
	"strings"
)

// OrphanKind is the kind of an orphan.
type OrphanKind string

// The kinds of orphans.
const (
	OrphanClaim       OrphanKind = "claim"        // a ResourceClaim with networks of nadra
	OrphanTemplate    OrphanKind = "template"     // a ResourceClaimTemplate created by admission
	OrphanWhereabouts OrphanKind = "whereabouts"  // an address in an IPPool
	OrphanReservation OrphanKind = "reservation"  // an OverlappingRangeIPReservation of whereabouts
	OrphanCNICache    OrphanKind = "cni-cache"    // an attachment in a cache of libcni
	OrphanMultusCache OrphanKind = "multus-cache" // Multus' own record of a sandbox' networks
	OrphanHostLocal   OrphanKind = "host-local"   // an address assigned by host-local
	OrphanVF          OrphanKind = "vf"           // a virtual function with a pod's settings
)

// Action is the way to free an orphan.
type Action string

// The actions. ActionNone leaves it to a person.
const (
	ActionNone    Action = "none"
	ActionDelete  Action = "delete"  // deletes the object or file
	ActionDEL     Action = "DEL"     // runs the plugins with the arguments of ADD, and removes the file
	ActionRelease Action = "release" // releases the address as its IPAM plugin would
)

// Orphan is something that no pod uses any more.
type Orphan struct {
	Kind OrphanKind `json:"kind"`
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
	// Why explains why it is an orphan and, if Action is ActionNone, why it is not freed.
	Why    string `json:"why"`
	Action Action `json:"action"`
	// Done is true if it was freed. Error is the error of freeing it.
	Done  bool   `json:"done,omitempty"`
	Error string `json:"error,omitempty"`
}

// SortOrphans sorts orphans by node and kind, in the order in which they are freed.
func SortOrphans(all []Orphan) {
	order := []OrphanKind{OrphanClaim, OrphanTemplate, OrphanWhereabouts, OrphanReservation, OrphanCNICache, OrphanMultusCache, OrphanHostLocal, OrphanVF}
	slices.SortStableFunc(all, func(a, b Orphan) int {
		return cmp.Or(
			strings.Compare(a.Node, b.Node),
			cmp.Compare(slices.Index(order, a.Kind), slices.Index(order, b.Kind)),
			strings.Compare(a.Object, b.Object),
		)
	})
}

// OrphanReport is the report of a node about its orphans.
type OrphanReport struct {
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
