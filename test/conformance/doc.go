// Package conformance runs the real Multus beside the real nadra-node and
// compares what they leave behind: interfaces, addresses, routes, settings,
// what every CNI plugin was given, network-status, and what is left after the
// end. A difference that docs/compatibility.md does not list is a failure, and
// so is a row of that page which no case shows any more.
//
// Each side gets the same pod, with the same UID and sandbox ID, and a fresh
// network namespace of the same path. Multus is run as a container runtime runs
// it. For nadra the suite is the scheduler (it allocates the pod's claim), the
// kubelet (DRA) and the runtime (NRI, and the default network). The API server
// is a real one; everything happens in the namespaces of one of its nodes, so
// that the machine is not touched and nothing stays behind.
//
// Cases are in testdata/cases, one file for each theme, and the pods of
// $NADRA_CORPUS, a folder of other people's manifests.
package conformance
