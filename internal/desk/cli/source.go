package cli

import (
	"github.com/nadra-dev/nadra/pkg/translate"
)

// manifestSet has the manifests that a command reads.
type manifestSet struct {
	// Description names the set for people.
	Description string
	Files       []manifest
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

// fileCount returns the number of files that were read. Objects of a cluster come from no file.
func (s *manifestSet) fileCount() int {
	if s.Live {
		return 0
	}
	return len(s.Files)
}

// manifest is a file or an object of a cluster, with its place.
type manifest struct {
	translate.File
	// Rel is its slash-separated path below the argument in which it was found, or the last part of an argument that
	// is a file.
	Rel string
	// OnDisk: Name is the path of a file that can be written.
	OnDisk bool
}

// manifests returns the files as translate takes them.
func (s *manifestSet) manifests() []translate.File {
	out := make([]translate.File, len(s.Files))
	for i, f := range s.Files {
		out[i] = f.File
	}
	return out
}
