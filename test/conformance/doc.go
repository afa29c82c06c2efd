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
// All plugins are one program (plugin), which records its input and then becomes the real plugin, or
// stands in for one that this machine cannot run. A rule of package compare assigns each difference
// to a behaviour, by the number of its row. The package also lists the values that cannot be equal,
// such as random MACs, each with its reason.
//
// # Another Multus
//
// Multus is the version that test/cluster/components/multus/go.mod requires. Its main branch is not
// available as a Go module: on 2026-11-25 the module proxy refused the branch, the commits 6597fa65f
// and 47ca9dfd9, and the pseudo-version of 95a093235. So give the lane built programs:
//
//  1. Clone Multus and build it with -buildvcs=true, so that the programs have their version: multus
//     and, for lanes other than conformance, e2e-node and faults, also multus-daemon, multus-shim,
//     install_multus and passthru-cni.
//  2. Run make conformance MULTUS=/path/to/folder.
//
// The suite then reads the section "Newer Multus" of the page in place of the rows with the same
// numbers, and fails if the page does not name the programs' version. It was last run with commit
// 95a0932350f0, on 2026-11-25.
//
// # Files
//
// Cases are in testdata/cases, one file for each theme. The pods of $NADRA_CORPUS, a folder of
// manifests of other projects, are cases, too.
package conformance
