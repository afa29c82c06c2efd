// Package bundle makes a support archive. It is pure: it takes objects, logs and metrics, which
// package bundleread reads, and returns the archive's bytes. The same input gives the same
// archive.
//
// The archive has only what fields.yaml lists: a field that is not in it, and a text that a user
// or a plugin wrote, cannot get into the archive.
//
//	bundle.go     the archive and its index
//	fields.yaml   the fields and texts that the archive may have
//	rules.go      the rules of fields.yaml
//	reduce.go     reduces objects
//	logs.go       reduces logs and metrics
//	addresses.go  replaces addresses by pseudonyms
package bundle

// Mark begins what replaces something that is left out.
const Mark = "[redacted"

// APIVersion and Kind are those of the index.
const (
	APIVersion = "nadra.dev/v1alpha1"
	Kind       = "BundleIndex"
)

// Kinds of what is left out, which the index counts.
const (
	unlisted = "fields" // fields that fields.yaml does not list
	odd      = "values" // values of listed fields that their rule does not allow
	prose    = "texts"  // messages, of which only known phrases are kept
)
