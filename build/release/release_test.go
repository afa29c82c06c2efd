package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"sigs.k8s.io/yaml"
)

const (
	testVersion = "v0.0.1-test.1"
	testCommit  = "0123456789abcdef0123456789abcdef01234567"
)

// small is a release of what this machine has built already, for the most part:
// the clients of Linux, and the images of both architectures.
func small(source, out string) *release {
	r := newRelease()
	r.clients, r.log = []platform{{"linux", "amd64"}, {"linux", "arm64"}}, io.Discard
	r.version, r.commit, r.registry, r.source, r.out = testVersion, testCommit, "registry.example/nadra", source, out
	return r
}

// copyTree copies the tree without what Git and builds keep in it.
func copyTree(t *testing.T, to string) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(root, path)
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", "bin", "dist"}, name):
			return fs.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, name), 0o755)
		case !d.Type().IsRegular():
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), content, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
	return to
}

func read(t *testing.T, path ...string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// unpack reads a compressed tar.
func unpack(t *testing.T, content []byte) map[string][]byte {
	t.Helper()
	plain, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	return untar(t, plain)
}

func untar(t *testing.T, from io.Reader) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for archive := tar.NewReader(from); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if !h.ModTime.IsZero() && h.ModTime.Unix() != 0 {
			t.Errorf("%s has the time %s", h.Name, h.ModTime)
		}
		if out[h.Name], err = io.ReadAll(archive); err != nil {
			t.Fatal(err)
		}
	}
}

// Two folders give the same bytes, except for signatures, and what is in them is what it should be.
func TestRelease(t *testing.T) {
	dir := t.TempDir()
	one := small(copyTree(t, filepath.Join(dir, "one")), filepath.Join(dir, "dist-1"))
	two := small(copyTree(t, filepath.Join(dir, "another", "folder")), filepath.Join(dir, "dist-2"))
	for _, r := range []*release{one, two} {
		r.key = newKey(t, r.source)
		if err := r.make(); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		"SHA256SUMS", "SHA256SUMS.sig", "kubectl-nadra_linux_amd64.cdx.json", "kubectl-nadra_linux_amd64.tar.gz",
		"kubectl-nadra_linux_arm64.cdx.json", "kubectl-nadra_linux_arm64.tar.gz", "nadra-0.0.1-test.1.tgz", "nadra-beside-multus.yaml",
		"nadra-cni-plugins.oci.tar", "nadra-cni-plugins_linux_amd64.cdx.json", "nadra-cni-plugins_linux_arm64.cdx.json",
		"nadra-controller.oci.tar", "nadra-controller_linux_amd64.cdx.json", "nadra-controller_linux_arm64.cdx.json",
		"nadra-driver-only.yaml", "nadra-drop-in-cert-manager.yaml", "nadra-drop-in-cni-plugins.yaml", "nadra-drop-in.yaml",
		"nadra-node.oci.tar", "nadra-node_linux_amd64.cdx.json", "nadra-node_linux_arm64.cdx.json", "nadra-openshift.yaml",
		"nadra.intoto.jsonl", "nadra.provenance.json", "nadra.yaml",
	}
	var got []string
	entries, err := os.ReadDir(one.out)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		got = append(got, e.Name())
		signature := e.Name() == signatureFile || e.Name() == envelopeFile
		if !signature && !bytes.Equal(read(t, one.out, e.Name()), read(t, two.out, e.Name())) {
			t.Errorf("%s differs between two folders", e.Name())
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("files %q, want %q", got, want)
	}
	t.Run("sums", func(t *testing.T) { checkSums(t, one) })
	t.Run("signature", func(t *testing.T) { checkSignature(t, one) })
	t.Run("provenance", func(t *testing.T) { checkProvenance(t, one) })
	t.Run("images", func(t *testing.T) { checkImages(t, one) })
	t.Run("clients", func(t *testing.T) { checkClients(t, one) })
	t.Run("krew", func(t *testing.T) { checkKrew(t, one) })
	t.Run("sbom", func(t *testing.T) { checkSBOM(t, one) })
	t.Run("manifests", func(t *testing.T) { checkManifests(t, one) })
}

func checkSums(t *testing.T, r *release) {
	lines := strings.Split(strings.TrimSpace(string(read(t, r.out, "SHA256SUMS"))), "\n")
	for _, line := range lines {
		sum, name, _ := strings.Cut(line, "  ")
		if got := fmt.Sprintf("%x", sha256.Sum256(read(t, r.out, name))); got != sum {
			t.Errorf("%s is %s, not %s", name, got, sum)
		}
	}
	if len(lines) != 22 {
		t.Errorf("%d sums", len(lines))
	}
}

func checkImages(t *testing.T, r *release) {
	for _, image := range images {
		dir := t.TempDir()
		for name, content := range untar(t, bytes.NewReader(read(t, r.out, image.name+".oci.tar"))) {
			path := filepath.Join(dir, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content, 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		files, err := layout.ImageIndexFromPath(dir)
		if err != nil {
			t.Fatal(err)
		}
		top, err := files.IndexManifest()
		if err != nil || len(top.Manifests) != 1 || top.Manifests[0].Annotations["io.containerd.image.name"] != r.image(image.name) {
			t.Fatalf("%s: %+v (%v)", image.name, top, err)
		}
		index, err := files.ImageIndex(top.Manifests[0].Digest)
		if err != nil {
			t.Fatal(err)
		}
		manifest, err := index.IndexManifest()
		if err != nil || len(manifest.Manifests) != len(r.nodes) {
			t.Fatalf("%s: %+v (%v)", image.name, manifest, err)
		}
		for _, m := range manifest.Manifests {
			one, err := index.Image(m.Digest)
			if err != nil {
				t.Fatal(err)
			}
			checkImage(t, one, m.Platform.Architecture, image.programs, image.tools == "")
		}
	}
}

// checkImage checks the programs of an image; of one that runs, also that they run, and that it runs the first.
func checkImage(t *testing.T, image v1.Image, arch string, programs []string, runs bool) {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Architecture != arch || config.OS != "linux" || runs && config.Config.Entrypoint[0] != "/"+programs[0] || !runs && len(config.Config.Entrypoint) > 0 {
		t.Errorf("configuration %+v", config)
	}
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers (%v)", len(layers), err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	files := untar(t, content)
	for _, name := range programs {
		program, err := elf.NewFile(bytes.NewReader(files[name]))
		if err != nil {
			t.Fatalf("%s for %s: %v", name, arch, err)
		}
		want := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[arch]
		if program.Machine != want {
			t.Errorf("%s is for %s, not %s", name, program.Machine, want)
		}
		if libraries, err := program.ImportedLibraries(); err != nil || len(libraries) > 0 {
			t.Errorf("%s needs %v (%v), which the image lacks", name, libraries, err)
		}
		if runs {
			checkRuns(t, arch, name, files[name])
		}
	}
}

func checkClients(t *testing.T, r *release) {
	for _, p := range r.clients {
		files := unpack(t, read(t, r.out, p.archiveName()))
		if !bytes.Contains(files["LICENSE"], []byte("Apache License")) {
			t.Errorf("%s has no licence", p.archiveName())
		}
		if p.os != "windows" && !bytes.Contains(files[completion], []byte("kubectl-nadra __complete")) {
			t.Errorf("%s has no completion for kubectl", p.archiveName())
		}
		program := files["kubectl-nadra"]
		for _, path := range []string{r.source, r.work, os.Getenv("HOME") + "/"} {
			if bytes.Contains(program, []byte(path)) {
				t.Errorf("the program of %s knows the folder %s", p, path)
			}
		}
		checkRuns(t, p.arch, "kubectl-nadra", program)
	}
}

// krew refuses a manifest by these rules (internal/index/validation in krew).
func checkKrew(t *testing.T, r *release) {
	var p plugin
	if err := yaml.UnmarshalStrict(read(t, r.out, "nadra.yaml"), &p); err != nil {
		t.Fatal(err)
	}
	if errs := krewRefuses(p); len(errs) > 0 {
		t.Errorf("krew refuses it: %q", errs)
	}
	for _, one := range p.Spec.Platforms {
		content := read(t, r.out, filepath.Base(one.URI))
		if got := fmt.Sprintf("%x", sha256.Sum256(content)); got != one.SHA256 {
			t.Errorf("%s is %s, not %s", one.URI, got, one.SHA256)
		}
		if unpack(t, content)[one.Bin] == nil {
			t.Errorf("%s has no %s", one.URI, one.Bin)
		}
	}
}

func krewRefuses(p plugin) []string {
	var out []string
	refuse := func(when bool, why string) {
		if when {
			out = append(out, why)
		}
	}
	refuse(p.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || p.Kind != "Plugin", "apiVersion or kind")
	refuse(!regexp.MustCompile(`^[\w-]+$`).MatchString(p.Metadata["name"]), "name")
	refuse(p.Spec.ShortDescription == "" || strings.ContainsAny(p.Spec.ShortDescription, "\r\n"), "shortDescription")
	refuse(!regexp.MustCompile(`^v\d+\.\d+\.\d+`).MatchString(p.Spec.Version), "version")
	refuse(len(p.Spec.Platforms) == 0, "no platform")
	seen := map[string]bool{}
	for _, one := range p.Spec.Platforms {
		labels := one.Selector.MatchLabels
		refuse(len(labels) != 2 || labels["os"] == "" || labels["arch"] == "", "selector")
		refuse(seen[labels["os"]+"/"+labels["arch"]], "two platforms with one selector")
		seen[labels["os"]+"/"+labels["arch"]] = true
		refuse(!strings.HasPrefix(one.URI, "https://"), "uri")
		refuse(!strings.HasSuffix(one.URI, ".tar.gz") && !strings.HasSuffix(one.URI, ".zip"), "the kind of archive")
		refuse(!regexp.MustCompile(`^[a-f0-9]{64}$`).MatchString(one.SHA256), "sha256")
		refuse(one.Bin == "" || filepath.IsAbs(one.Bin) || strings.Contains(one.Bin, ".."), "bin")
		refuse((labels["os"] == "windows") != strings.HasSuffix(one.Bin, ".exe"), "bin of windows")
	}
	return out
}

// TestPlatform chooses the only platform of a release.
func TestPlatform(t *testing.T) {
	for _, tt := range []struct {
		platform, clients, nodes string
		valid                    bool
	}{
		{"", "[darwin_amd64 darwin_arm64 linux_amd64 linux_arm64 windows_amd64]", "[amd64 arm64]", true},
		{"linux_arm64", "[linux_arm64]", "[arm64]", true},
		{"linux_riscv64", "", "", false},
		{"amd64", "", "", false},
	} {
		r := newRelease()
		r.platform = tt.platform
		err := r.choose()
		if (err == nil) != tt.valid {
			t.Errorf("%q: %v", tt.platform, err)
		}
		if clients, nodes := fmt.Sprint(r.clients), fmt.Sprint(r.nodes); tt.valid && (clients != tt.clients || nodes != tt.nodes) {
			t.Errorf("%q: clients %s, nodes %s", tt.platform, clients, nodes)
		}
		if tt.platform != "" && !strings.HasSuffix(r.command(), " PLATFORM="+tt.platform) {
			t.Errorf("%q: the provenance's command is %q", tt.platform, r.command())
		}
	}
}

// krew's manifest has all platforms of a real release.
func TestKrewPlatforms(t *testing.T) {
	r := newRelease()
	r.version, r.out = testVersion, t.TempDir()
	for _, p := range r.clients {
		if err := r.write(p.archiveName(), []byte(p.String())); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.krew(); err != nil {
		t.Fatal(err)
	}
	var p plugin
	if err := yaml.UnmarshalStrict(read(t, r.out, "nadra.yaml"), &p); err != nil {
		t.Fatal(err)
	}
	if errs := krewRefuses(p); len(errs) > 0 || len(p.Spec.Platforms) != 5 {
		t.Errorf("%d platforms, %q", len(p.Spec.Platforms), errs)
	}
}

func checkSBOM(t *testing.T, r *release) {
	for name, library := range map[string]string{
		"kubectl-nadra_linux_amd64": "github.com/spf13/cobra", "nadra-node_linux_arm64": "github.com/containerd/nri", "nadra-controller_linux_amd64": "sigs.k8s.io/controller-runtime",
		"nadra-cni-plugins_linux_arm64": "github.com/containernetworking/plugins",
	} {
		var bom cyclonedx.BOM
		if err := json.Unmarshal(read(t, r.out, name+".cdx.json"), &bom); err != nil {
			t.Fatal(err)
		}
		has := func(name string) bool {
			return slices.ContainsFunc(*bom.Components, func(c cyclonedx.Component) bool {
				return c.Name == name && c.Version != "" && strings.HasPrefix(c.PackageURL, "pkg:golang/"+name+"@")
			})
		}
		if bom.BOMFormat != cyclonedx.BOMFormat || bom.Metadata.Component.Version != testVersion || !has(library) || !has("std") {
			t.Errorf("%s: %+v", name, bom.Metadata)
		}
	}
}

func checkManifests(t *testing.T, r *release) {
	chart := unpack(t, read(t, r.out, "nadra-0.0.1-test.1.tgz"))
	for file, part := range map[string]string{
		"nadra/Chart.yaml":                               "\nversion: 0.0.1-test.1\nappVersion: " + testVersion + "\n",
		"nadra/values.yaml":                              "  image: registry.example/nadra/nadra-controller:" + testVersion + "\n",
		"nadra/templates/node-daemonset.yaml":            "kind: DaemonSet",
		"nadra/values.schema.json":                       "{",
		"nadra/crds/network-attachment-definitions.yaml": "kind: CustomResourceDefinition",
	} {
		if !strings.Contains(string(chart[file]), part) {
			t.Errorf("%s lacks %q:\n%.500s", file, part, chart[file])
		}
	}
	for name, images := range map[string]int{"beside-multus": 3, "driver-only": 1, "drop-in": 3, "drop-in-cert-manager": 2, "drop-in-cni-plugins": 3, "openshift": 3} {
		text := string(read(t, r.out, "nadra-"+name+".yaml"))
		if n := strings.Count(text, "image: registry.example/nadra/"); n != images || strings.Contains(text, "localhost/") {
			t.Errorf("%s has %d images of the release:\n%.500s", name, n, text)
		}
	}
}

func TestVersionIsChecked(t *testing.T) {
	for _, version := range []string{"", "0.1.0", "v1", "v0.1.0 x", "v0.1.0/../x"} {
		r := newRelease()
		r.version, r.out = version, filepath.Join(t.TempDir(), "dist")
		if err := r.make(); err == nil {
			t.Errorf("%q is taken for a version", version)
		}
	}
}
