// Package bundle makes a support archive of a cluster. It never reads Secrets. The same objects, logs and metrics give
// the same archive, and it has only what fields.yaml lists: a field that is not in it, and a text that a user or a
// plugin wrote, cannot get into the archive.
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
