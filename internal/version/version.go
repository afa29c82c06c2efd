// Package version identifies the running build of nadra. build/release sets version and
// commit by the linker; any other build only has what the Go command records.
package version

import (
	"fmt"
	"runtime/debug"
	"slices"
)

// release and commit are set by the linker's -X.
var release, commit string

// Info describes a build. Commit and Go are empty if they are not known.
type Info struct {
	// Version is a release, for example v0.1.0, or the Go command's version of the module.
	Version string
	// Commit is the Git commit.
	Commit string
	// Go is the version of the compiler.
	Go string
}

// Get returns the description of this program's build.
func Get() Info {
	out := Info{Version: "(devel)"}
	if build, ok := debug.ReadBuildInfo(); ok {
		out.Version, out.Go = build.Main.Version, build.GoVersion
		for _, s := range build.Settings {
			if s.Key == "vcs.revision" {
				out.Commit = s.Value
			}
		}
	}
	if release != "" {
		out.Version, out.Commit = release, commit
	}
	return out
}

// String returns the version for people, for example "v0.1.0 (commit 0123abc, go1.26.8)".
func (i Info) String() string {
	if i.Commit == "" {
		return fmt.Sprintf("%s (%s)", i.Version, i.Go)
	}
	return fmt.Sprintf("%s (commit %s, %s)", i.Version, i.Commit, i.Go)
}

// Usage describes the flag --version.
const Usage = "print the version, the commit and the version of Go, and exit"

// Asked reports whether the arguments have the flag --version. Programs look before they parse
// their flags, because required flags may be missing.
func Asked(args []string) bool {
	return slices.ContainsFunc(args, func(a string) bool { return a == "--version" || a == "-version" })
}
