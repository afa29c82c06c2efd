// Package version identifies the running build of nadra. build/release sets version and
// commit by the linker; any other build only has what the Go command records.
package version

import "runtime/debug"

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
