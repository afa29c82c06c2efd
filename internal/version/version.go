// Package version says which nadra runs. A release is told by the linker, as
// build/release does; what somebody has built otherwise knows only what the Go
// command notes.
package version

import "runtime/debug"

// release and commit are set by the linker's -X.
var release, commit string

// Info is what is known of a build; what is not is empty, but the version.
type Info struct {
	// Version is a release's, e.g. v0.1.0, or the Go command's word for it.
	Version string
	// Commit is that of Git.
	Commit string
	// Go is the version of the compiler.
	Go string
}

// Get returns what is known of this program.
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
