// Command release builds all artifacts of one version from a source tree:
//
//	release -version v0.1.0 [-commit HASH] [-registry R] [-source .] [-out dist]
//
// The same tree, version and commit give the same bytes in any directory: no file has a time
// or a path of the machine.
//
//	main.go       flags, platforms and checksums
//	build.go      programs, images and archives
//	manifests.go  manifests and the chart
//	krew.go       krew's manifest
//	sbom.go       SBOMs
package main

import (
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// platform is an operating system with an architecture.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "_" + p.arch }

// exe returns a program's file name on the platform.
func (p platform) exe(name string) string {
	if p.os == "windows" {
		return name + ".exe"
	}
	return name
}

// release is the state of a release while it is built.
type release struct {
	version, commit, registry string
	// source is the tree, out where the results go, and work what they are made of.
	source, out, work string
	// clients are what kubectl-nadra is for, and nodes the architectures of images.
	clients []platform
	nodes   []string
}

// images are those released, with the programs in each; the first is run.
var images = []struct {
	name     string
	programs []string
}{
	{"nadra-node", []string{"nadra-node", "nadra-gate"}},
	{"nadra-controller", []string{"nadra-controller"}},
}

func newRelease() *release {
	return &release{
		clients: []platform{{"darwin", "amd64"}, {"darwin", "arm64"}, {"linux", "amd64"}, {"linux", "arm64"}, {"windows", "amd64"}},
		nodes:   []string{"amd64", "arm64"},
	}
}

func run(args []string) error {
	r := newRelease()
	flags := flag.NewFlagSet("release", flag.ExitOnError)
	flags.StringVar(&r.version, "version", "", "the version, e.g. v0.1.0")
	flags.StringVar(&r.commit, "commit", "", "the commit that it is made of; Git's HEAD of the source unless given")
	flags.StringVar(&r.registry, "registry", "ghcr.io/nadra-dev", "where the images will be")
	flags.StringVar(&r.source, "source", ".", "the source tree")
	flags.StringVar(&r.out, "out", "dist", "directory to write to, which is replaced")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if r.commit == "" {
		commit, err := r.head()
		if err != nil {
			return err
		}
		r.commit = commit
	}
	return r.make()
}

// head returns the tree's commit. It rejects a tree with uncommitted changes.
func (r *release) head() (string, error) {
	git := func(args ...string) (string, error) {
		out, err := exec.Command("git", append([]string{"-C", r.source}, args...)...).Output()
		if err != nil {
			return "", fmt.Errorf("reading the commit from git: %w: name it with -commit", err)
		}
		return strings.TrimSpace(string(out)), nil
	}
	changed, err := git("status", "--porcelain")
	if err != nil {
		return "", err
	}
	if changed != "" {
		return "", fmt.Errorf("%s has uncommitted changes: commit them first:\n%s", r.source, changed)
	}
	return git("rev-parse", "HEAD")
}

var versions = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`)

func (r *release) make() (err error) {
	if !versions.MatchString(r.version) {
		return fmt.Errorf("-version is %q: it must be like v0.1.0 or v0.1.0-rc.1", r.version)
	}
	for _, path := range []*string{&r.source, &r.out} {
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	if r.work, err = os.MkdirTemp("", "nadra-release-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.work)) }()
	if err := errors.Join(os.RemoveAll(r.out), os.MkdirAll(r.out, 0o755)); err != nil {
		return fmt.Errorf("making %s: %w", r.out, err)
	}
	for _, step := range []func() error{r.build, r.archives, r.images, r.chart, r.manifests, r.krew, r.sums} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (r *release) write(name string, content []byte) error {
	if err := os.WriteFile(filepath.Join(r.out, name), content, 0o644); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return nil
}

// sums writes SHA256SUMS for sha256sum -c.
func (r *release) sums() error {
	entries, err := os.ReadDir(r.out) // sorted
	if err != nil {
		return fmt.Errorf("summing up: %w", err)
	}
	var out strings.Builder
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(r.out, e.Name()))
		if err != nil {
			return fmt.Errorf("summing up: %w", err)
		}
		fmt.Fprintf(&out, "%x  %s\n", sha256.Sum256(content), e.Name())
	}
	return r.write("SHA256SUMS", []byte(out.String()))
}
