// Package source reads manifests for the commands.
package source

import (
	"github.com/nadra-dev/nadra/pkg/translate"
)

// Set is a set of manifests.
type Set struct {
	// Description names the set for people.
	Description string
	Files       []File
	// Live: the files are objects of a cluster.
	Live bool
	// Context has other manifests, which must not be converted.
	Context []translate.File
	// Beside has files of the same folders that are not part of the input: kustomizations, and the
	// objects that earlier conversions created.
	Beside []translate.File
	// Options are what the source knows besides its manifests.
	Options translate.Options
}

// FileCount returns the number of files that were read. Objects of a cluster come from no file.
func (s *Set) FileCount() int {
	if s.Live {
		return 0
	}
	return len(s.Files)
}

// File is a manifest with its place.
type File struct {
	translate.File
	// Rel is its slash-separated path below the argument in which it was found, or the last part of an argument that
	// is a file.
	Rel string
	// OnDisk: Name is the path of a file that can be written.
	OnDisk bool
}

// Manifests returns the files as translate takes them.
func (s *Set) Manifests() []translate.File {
	out := make([]translate.File, len(s.Files))
	for i, f := range s.Files {
		out[i] = f.File
	}
	return out
}
