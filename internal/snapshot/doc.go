// Package snapshot records which networks the pods of a cluster have, and compares
// two such records. It is pure: objects and what nodes observed go in, a Snapshot
// comes out; two Snapshots go in, a Report of differences comes out.
// internal/snapshotread reads the cluster.
//
//	doc.go               the API version and kinds
//	snapshot.go          the types of a snapshot
//	encode.go            encodes and parses snapshots
//	input.go             what snapshots are built from; reads it from files, too
//	build.go             builds a snapshot
//	workload.go          the workload and the ordinal of a pod
//	interfaces.go        a pod's interfaces, requests and devices
//	environment.go       a pod's variables of device plugins
//	network.go           the NetworkAttachmentDefinitions that pods use
//	observed.go          what nodes observed of pods
//	compare.go           compares two snapshots
//	pair.go              finds the successor of each pod
//	podpair.go           a pod and its successor: which interfaces correspond
//	comparepod.go        compares two pods: node, networks, names, order
//	compareinterface.go  compares addresses, MTU, DNS and devices of interfaces
//	comparedefault.go    compares default routes as network-status has them
//	comparelinks.go      compares interfaces, sysctls and VFs as nodes observed them
//	comparerouting.go    compares routes and rules as nodes observed them
//	comparevariables.go  compares variables
//	report.go            the report of a comparison
//	codes.go             the codes of differences
//	rules.go             explains the codes
package snapshot

// APIVersion is the API version of snapshots and reports. Fields are added within a
// version, never renamed or removed.
const APIVersion = "nadra.dev/v1alpha1"

// The kinds of this package's files.
const (
	Kind       = "Snapshot"
	ReportKind = "VerifyReport"
)
