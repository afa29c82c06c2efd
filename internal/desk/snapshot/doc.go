// Package snapshot records which networks the pods of a cluster have, and compares two such records. It reads the
// cluster, and runs a pod on each node to inspect it.
package snapshot

// APIVersion is the API version of snapshots and reports. Fields are added within a
// version, never renamed or removed.
const APIVersion = "nadra.dev/v1alpha1"

// The kinds of this package's files.
const (
	Kind       = "Snapshot"
	reportKind = "VerifyReport"
)
