// Command release builds all artifacts of one version from a source tree:
//
//	release -version v0.1.0 [-commit HASH] [-registry R] [-key FILE] [-fips140 MODULE] [-platform OS_ARCH] [-source .] [-out dist]
//
// The same tree, version and commit give the same bytes in any directory: no file has a time
// or a path of the machine. Only signatures differ each time.
package main

import (
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/sigstore/sigstore/pkg/signature"
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
	// platform is the only one to build for, as OS_ARCH, or "" for all.
	platform string
	// key is the file of the private key, and signer that key. Without them nothing is signed.
	key    string
	signer signature.Signer
	// fips is the FIPS 140-3 module that programs use, as GOFIPS140 names it, or "".
	fips string
	// log tells the person who releases what was done.
	log io.Writer
}

// images are those released, with the programs in each; the first is run. Those with tools have all tools of build/NAME's
// module, none of which is run.
var images = []struct {
	name     string
	programs []string
	tools    string
}{
	{"nadra-node", []string{"nadra-node", "nadra-gate"}, ""},
	{"nadra-controller", []string{"nadra-controller"}, ""},
	{"nadra-cni-plugins", []string{
		"bandwidth", "bridge", "dhcp", "dummy", "firewall", "host-device", "host-local", "ipvlan", "loopback", "macvlan", "portmap", "ptp", "sbr", "static",
		"tap", "tuning", "vlan", "vrf",
	}, "cni-plugins"},
}

func newRelease() *release {
	return &release{
		log:     os.Stdout,
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
	flags.StringVar(&r.key, "key", "", "file of the private key to sign with; the password of an encrypted one is in "+passwordVariable)
	flags.StringVar(&r.fips, "fips140", "", "Go's FIPS 140-3 module to build with, as GOFIPS140 names it, e.g. v1.0.0; none unless given")
	flags.StringVar(&r.platform, "platform", "", "the only platform to build for, e.g. linux_amd64; all unless given")
	flags.StringVar(&r.source, "source", ".", "the source tree")
	flags.StringVar(&r.out, "out", "dist", "directory to write to, which is replaced")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := r.choose(); err != nil {
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

// choose leaves the chosen platform only.
func (r *release) choose() error {
	if r.platform == "" {
		return nil
	}
	system, arch, found := strings.Cut(r.platform, "_")
	if !found || !slices.Contains(r.clients, platform{system, arch}) || !slices.Contains(r.nodes, arch) {
		return fmt.Errorf("-platform is %q: it must be one of %v", r.platform, r.clients)
	}
	r.clients, r.nodes = []platform{{system, arch}}, []string{arch}
	return nil
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
	if r.key != "" {
		if r.signer, err = loadSigner(r.key, r.source); err != nil {
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
	for _, step := range []func() error{r.build, r.archives, r.images, r.chart, r.manifests, r.krew, r.provenance, r.sums, r.sign} {
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

// digest is a file with its sum.
type digest struct{ name, sha256 string }

// digests returns the sums of all files so far, sorted by name.
func (r *release) digests() ([]digest, error) {
	entries, err := os.ReadDir(r.out) // sorted
	if err != nil {
		return nil, fmt.Errorf("summing up: %w", err)
	}
	var out []digest
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(r.out, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("summing up: %w", err)
		}
		out = append(out, digest{e.Name(), fmt.Sprintf("%x", sha256.Sum256(content))})
	}
	return out, nil
}

const sumsFile = "SHA256SUMS"

// sums writes the sums for sha256sum -c.
func (r *release) sums() error {
	files, err := r.digests()
	if err != nil {
		return err
	}
	var out strings.Builder
	for _, f := range files {
		fmt.Fprintf(&out, "%s  %s\n", f.sha256, f.name)
	}
	return r.write(sumsFile, []byte(out.String()))
}
