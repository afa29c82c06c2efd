// Package cleanup says what pods that are gone have left behind: facts in,
// orphans out. What is in use, or may be, is none. internal/cleanuphost has the
// facts of a node and carries out what is decided there; internal/cleanuprun
// does the same with the cluster's objects.
package cleanup

import (
	"cmp"
	"slices"
	"strings"
)

// Kind is what an orphan is.
type Kind string

// The kinds of orphans.
const (
	Claim        Kind = "claim"        // a ResourceClaim with networks of nadra
	Template     Kind = "template"     // a ResourceClaimTemplate that admission has made
	Whereabouts  Kind = "whereabouts"  // an address in an IPPool
	Reservation  Kind = "reservation"  // an OverlappingRangeIPReservation of whereabouts
	CNICache     Kind = "cni-cache"    // an attachment in a cache of libcni
	MultusCache  Kind = "multus-cache" // Multus' own note of a sandbox' networks
	HostLocal    Kind = "host-local"   // an address that host-local has given out
	VirtualFuncs Kind = "vf"           // a virtual function with settings of a pod
)

// Action is how an orphan is freed.
type Action string

// The actions. None means that a person has to.
const (
	None    Action = "none"
	Delete  Action = "delete"  // the object or file
	DEL     Action = "DEL"     // by the plugins, with what ADD was given; the file goes with it
	Release Action = "release" // the address, as its IPAM plugin would
)

// Orphan is something that is held for nobody.
type Orphan struct {
	Kind Kind `json:"kind"`
	// Node is whose disk or hardware it is on; empty for objects of the cluster.
	Node string `json:"node,omitempty"`
	// Object is its path on the node, or [NAMESPACE/]NAME.
	Object string `json:"object"`
	// Network is what it is of: the CNI network's name, or the pool.
	Network string `json:"network,omitempty"`
	// Address is what it keeps from others, in the words of its kind.
	Address string `json:"address,omitempty"`
	// Pod is whose it was, as NAMESPACE/NAME; empty where nobody knows.
	Pod string `json:"pod,omitempty"`
	// Sandbox is the ID of the sandbox that it was for.
	Sandbox string `json:"sandbox,omitempty"`
	// Why is why it is one, and where nothing is done about it, why not.
	Why    string `json:"why"`
	Action Action `json:"action"`
	// Done says that it was freed; Error why that has failed.
	Done  bool   `json:"done,omitempty"`
	Error string `json:"error,omitempty"`
}

// Sort sorts by node and kind, in the order in which one frees them.
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

// NodeReport is what a node says.
type NodeReport struct {
	// Node is its name; the node itself leaves it out.
	Node string `json:"node,omitempty"`
	// Sandboxes are the IDs of those that the container runtime has.
	Sandboxes []string `json:"sandboxes"`
	Orphans   []Orphan `json:"orphans"`
	// Kept is how many things of sandboxes that the runtime does not know are
	// left alone since something else speaks for them.
	Kept int `json:"kept,omitempty"`
	// Errors are about what could not be looked at.
	Errors []string `json:"errors,omitempty"`
	// Refused says why the node was not judged.
	Refused string `json:"refused,omitempty"`
}
