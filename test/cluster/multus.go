package cluster

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

const multusModule = "gopkg.in/k8snetworkplumbingwg/multus-cni.v4"

// commitDigits is the number of a commit's digits in a pseudo-version.
const commitDigits = 12

// MultusVariable is the environment variable with a folder of built programs of another
// Multus. They take the place of those of the version in components/multus. Multus' main is
// not available as a Go module.
const MultusVariable = "MULTUS"

// multusVersionVariable chooses another release of Multus, one of those that components/multus has
// a file for, such as 4.2. The default is go.mod's.
const multusVersionVariable = "NADRA_MULTUS"

// BuildMultus builds the program with which the conformance suite compares nadra: multus,
// in the form that runs once for each CNI call ("thin"), and returns its path.
func BuildMultus(ctx context.Context, out io.Writer) (string, error) {
	folder, err := buildMultus(ctx, "multus", out, thinMultus)
	return filepath.Join(folder, thinMultus), err
}

// BuildThickMultus builds the two programs of Multus as most clusters have it, a daemon and
// the shim that the runtime calls, and returns their folder.
func BuildThickMultus(ctx context.Context, out io.Writer) (string, error) {
	return buildMultus(ctx, "multus-thick", out, multusDaemon, multusShim, "install_multus", "passthru-cni")
}

// buildMultus builds commands of Multus, unless MultusVariable names a folder that has them.
// They are no part of a cluster, so Build does not build them.
func buildMultus(ctx context.Context, name string, out io.Writer, commands ...string) (string, error) {
	if folder := os.Getenv(MultusVariable); folder != "" {
		return folder, checkMultus(folder, out, commands)
	}
	root, err := sourceRoot()
	if err != nil {
		return "", err
	}
	dir, modfile := multusComponent(root), modfileOf(os.Getenv(multusVersionVariable))
	b := &planner{ctx: ctx}
	r := b.add(goBuild{
		name: name, version: b.requiredVersion(filepath.Join(dir, modfile), multusModule), dir: dir, modfile: modfile,
		packages: prefixed(multusModule+"/cmd/", commands...),
	})
	if b.err != nil {
		return "", fmt.Errorf("planning to build %s: %w", name, b.err)
	}
	return r.provide(ctx, "components", out)
}

// checkMultus checks that a folder has the commands, and prints their version.
func checkMultus(folder string, out io.Writer, commands []string) error {
	for _, command := range commands {
		version, err := MultusVersion(filepath.Join(folder, command))
		if err != nil {
			return fmt.Errorf("looking for the Multus that %s names: %w", MultusVariable, err)
		}
		fmt.Fprintf(out, "%s of %s is %s\n", command, folder, version)
	}
	return nil
}

// PinnedMultus returns the version of Multus that the tests build.
func PinnedMultus() (string, error) {
	root, err := sourceRoot()
	if err != nil {
		return "", err
	}
	b := &planner{}
	version := b.moduleVersion(multusComponent(root), multusModule)
	return version, b.err
}

func multusComponent(root string) string {
	return filepath.Join(root, "test/cluster/components/multus")
}

// MultusVersion returns the version of a built program of Multus: a release, or the first
// twelve digits of the commit if it was built in a clone of the repository.
func MultusVersion(program string) (string, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return "", fmt.Errorf("reading the version of a program of Multus: %w", err)
	}
	if info.Main.Path != multusModule {
		return "", fmt.Errorf("reading the version of a program of Multus: %s is of the module %s, not %s", program, info.Main.Path, multusModule)
	}
	if info.Main.Version != "(devel)" {
		return info.Main.Version, nil
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	commit := settings["vcs.revision"]
	if len(commit) < commitDigits || settings["vcs.modified"] != "false" {
		return "", fmt.Errorf("reading the version of a program of Multus: %s was not built from a clean clone with -buildvcs=true", program)
	}
	return commit[:commitDigits], nil
}
