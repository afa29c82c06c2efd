// Package conformance runs the real Multus beside the real nadra-node and compares their
// results: interfaces, addresses, routes, settings, the input of every CNI plugin,
// network-status, and the leftovers after the end. A difference that docs/reference/compatibility.md
// does not list is a failure, and so is a row of that page that no case shows any more.
//
// Each side gets the same pod, with the same UID and sandbox ID, and a fresh network
// namespace with the same path. The suite runs Multus as a container runtime does. For nadra
// it acts as the scheduler (it allocates the pod's claim), the kubelet (DRA) and the runtime
// (NRI, and the default network). The API server is a real one. Everything happens in the
// namespaces of one of its nodes, so that the machine does not change and nothing stays
// behind.
//
// Cases are in testdata/cases, one file for each theme. The pods of $NADRA_CORPUS, a folder of
// manifests of other projects, are cases, too.
//
//	cases.go           reads the suite's own cases
//	claim.go           claims, allocated as the scheduler would
//	convert.go         claims of a converted manifest
//	corpus.go          cases from a folder of manifests
//	defaultnetwork.go  the cluster's default network
//	links.go           network namespaces, and the node's interfaces
//	multus.go          runs Multus
//	nadra.go           runs nadra-node
//	nadraside.go       acts as kubelet and runtime for nadra-node
//	objects.go         namespaces, NADs and pods
//	observe.go         describes a network namespace, and leftovers
//	running.go         describes pods of other suites
//	side.go            starts and stops the sandbox of one side
//	world.go           the node that both sides run on
package conformance
