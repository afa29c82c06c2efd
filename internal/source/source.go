// Package source reads manifests for the commands: files, folders, standard
// input, addresses, kustomizations, and a live cluster.
package source

import (
	"github.com/nadra-dev/nadra/pkg/translate"
)

// Set is what was read.
type Set struct {
	// Description says for people what it is.
	Description string
	Files       []File
	// Live is set where the files are objects of a cluster.
	Live bool
	// Context is what is known besides, and is not to be converted.
	Context []translate.File
	// Options are what the source knows that its manifests do not say.
	Options translate.Options
}

// File is a manifest and where it belongs.
type File struct {
	translate.File
	// Root is the argument that it was found under.
	Root string
	// Rel is its slash-separated path below Root; for a Root that is a file,
	// its last part.
	Rel string
	// OnDisk is set where Name is the path of a file that can be written.
	OnDisk bool
}

// Manifests are the files as translate takes them.
func (s *Set) Manifests() []translate.File {
	out := make([]translate.File, len(s.Files))
	for i, f := range s.Files {
		out[i] = f.File
	}
	return out
}
