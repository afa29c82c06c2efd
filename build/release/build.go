package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"compress/gzip"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const versionPackage = "github.com/nadra-dev/nadra/internal/version"

// build builds all programs below work/OS_ARCH.
func (r *release) build() error {
	for _, p := range r.clients {
		if err := r.compile(p, "kubectl-nadra"); err != nil {
			return err
		}
	}
	for _, arch := range r.nodes {
		for _, image := range images {
			compile := r.compile
			if image.tools != "" {
				compile = r.compileTools(image.tools)
			}
			if err := compile(platform{"linux", arch}, image.programs...); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *release) compile(p platform, programs ...string) error {
	var packages []string
	for _, name := range programs {
		packages = append(packages, "./cmd/"+name)
	}
	return r.goBuild(p, ".", " -X "+versionPackage+".release="+r.version+" -X "+versionPackage+".commit="+r.commit, packages...)
}

// compileTools returns a function that builds all tools of the module in build/NAME.
func (r *release) compileTools(name string) func(platform, ...string) error {
	return func(p platform, _ ...string) error { return r.goBuild(p, filepath.Join("build", name), "", "tool") }
}

// goBuild builds packages of a module in the source, with more flags of the linker.
func (r *release) goBuild(p platform, module, flags string, packages ...string) error {
	args := append([]string{
		"-C", filepath.Join(r.source, module), "build", "-trimpath", "-buildvcs=false", "-o", filepath.Join(r.work, p.String()) + "/", "-ldflags=-s -w" + flags,
	}, packages...)
	return r.run([]string{"GOOS=" + p.os, "GOARCH=" + p.arch, "GOFIPS140=" + r.fips140()}, "go", args...)
}

// fips140 returns the value of GOFIPS140 for the compiler.
func (r *release) fips140() string { return cmp.Or(r.fips, "off") }

// callers are the variables by which the caller's environment would change what is compiled.
var callers = []string{"GOFLAGS", "GOAMD64", "GOARM64", "GOEXPERIMENT", "GOFIPS140"}

// run runs a program without the caller's settings for the compiler.
func (r *release) run(env []string, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return slices.Contains(callers, name)
	}), append(env, "CGO_ENABLED=0", "GOWORK=off")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("running %s %s: %w:\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

// images writes an OCI archive of each image for all architectures, and an SBOM for each
// architecture.
func (r *release) images() error {
	mkimage := filepath.Join(r.work, "mkimage")
	if err := r.run(nil, "go", "-C", filepath.Join(r.source, "build", "mkimage"), "build", "-o", mkimage, "."); err != nil {
		return err
	}
	for _, image := range images {
		args := []string{
			"-oci", "-arch", strings.Join(r.nodes, ","), "-o", filepath.Join(r.out, image.name+".oci.tar"), "-t", r.image(image.name),
		}
		if image.tools == "" {
			args = append(args, "-entrypoint", "/"+image.programs[0])
		}
		for _, name := range image.programs {
			args = append(args, "/"+name+"="+filepath.Join(r.work, "linux_{arch}", name))
		}
		if err := r.run(nil, mkimage, args...); err != nil {
			return err
		}
		for _, arch := range r.nodes {
			if err := r.sbom(image.name, platform{"linux", arch}, image.programs...); err != nil {
				return err
			}
		}
	}
	return nil
}

// image returns an image's reference for manifests.
func (r *release) image(name string) string { return r.registry + "/" + name + ":" + r.version }

// archiveName returns the name of kubectl-nadra's archive for a platform.
func (p platform) archiveName() string {
	if p.os == "windows" {
		return "kubectl-nadra_" + p.String() + ".zip"
	}
	return "kubectl-nadra_" + p.String() + ".tar.gz"
}

// file is a file in an archive.
type file struct {
	name    string
	mode    int64
	content []byte
}

// completion is the program by which kubectl completes the arguments of kubectl nadra.
const completion = "kubectl_complete-nadra"

// archives writes kubectl-nadra for all platforms, with its completion and the licence.
func (r *release) archives() error {
	license, err := os.ReadFile(filepath.Join(r.source, "LICENSE"))
	if err != nil {
		return fmt.Errorf("adding the licence: %w", err)
	}
	completes, err := os.ReadFile(filepath.Join(r.source, "cmd", "kubectl-nadra", completion))
	if err != nil {
		return fmt.Errorf("adding the completion: %w", err)
	}
	for _, p := range r.clients {
		program, err := os.ReadFile(filepath.Join(r.work, p.String(), p.exe("kubectl-nadra")))
		if err != nil {
			return fmt.Errorf("packing for %s: %w", p, err)
		}
		pack, files := tarball, []file{{"LICENSE", 0o644, license}, {p.exe("kubectl-nadra"), 0o755, program}}
		if p.os == "windows" { // which runs no scripts of a shell
			pack = zipped
		} else {
			files = append(files, file{completion, 0o755, completes})
		}
		content, err := pack(files)
		if err != nil {
			return fmt.Errorf("packing for %s: %w", p, err)
		}
		if err := r.write(p.archiveName(), content); err != nil {
			return err
		}
		if err := r.sbom("kubectl-nadra", p, "kubectl-nadra"); err != nil {
			return err
		}
	}
	return nil
}

// tarball returns a compressed tar without times and owners.
func tarball(files []file) ([]byte, error) {
	var out bytes.Buffer
	compressed := gzip.NewWriter(&out)
	archive := tar.NewWriter(compressed)
	for _, f := range files {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Size: int64(len(f.content))}
		if err := archive.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := archive.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	if err := compressed.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func zipped(files []file) ([]byte, error) {
	var out bytes.Buffer
	archive := zip.NewWriter(&out)
	for _, f := range files {
		w, err := archive.CreateHeader(&zip.FileHeader{Name: f.name, Method: zip.Deflate})
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
