package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// TestSameInputSameArchive builds the image twice, with the arguments in
// another order and the files touched in between.
func TestSameInputSameArchive(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, []byte("x"), 0o700); err != nil {
		t.Fatal(err)
	}
	one, two := filepath.Join(dir, "1.tar"), filepath.Join(dir, "2.tar")
	build(t, "-o", one, "-t", "localhost/a:1", "-entrypoint", "/bin/p,-v", "/bin/p="+program, "/bin/q=@p")
	if err := os.Chtimes(program, fixedTime, fixedTime); err != nil {
		t.Fatal(err)
	}
	build(t, "-o", two, "-t", "localhost/a:1", "-entrypoint", "/bin/p,-v", "bin/q=@p", "bin/p="+program)
	if !bytes.Equal(read(t, one), read(t, two)) {
		t.Error("the same input gave two different archives")
	}
}

func TestImageContent(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	if err := os.WriteFile(data, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "image.tar")
	build(t, "-o", out, "-t", "localhost/a:dev", "-env", "A=1", "-env", "B=2", "/etc/a/data="+data, "/bin/link=@/x")

	tag := name.MustParseReference("localhost/a:dev").(name.Tag)
	image, err := tarball.ImageFromPath(out, &tag)
	if err != nil {
		t.Fatalf("the archive has no image under its name: %v", err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"A=1", "B=2"}; !slices.Equal(config.Config.Env, want) {
		t.Errorf("environment %q, want %q", config.Config.Env, want)
	}
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers (%v), want 1", len(layers), err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"bin/ 755", "etc/ 755", "etc/a/ 755", "tmp/ 1777", "bin/link 777 -> /x", "etc/a/data 644"}
	if got := list(t, content); !slices.Equal(got, want) {
		t.Errorf("layer has %q, want %q", got, want)
	}
}

// Two architectures in one archive: the layout's index has one entry under the
// name, an index of an image for each.
func TestOCI(t *testing.T) {
	dir := t.TempDir()
	for _, arch := range []string{"amd64", "arm64"} {
		if err := os.WriteFile(filepath.Join(dir, "program-"+arch), []byte(arch), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	one, two := filepath.Join(dir, "1.tar"), filepath.Join(dir, "2.tar")
	for _, out := range []string{one, two} {
		build(t, "-oci", "-arch", "amd64,arm64", "-o", out, "-t", "localhost:5000/a/b:1", "/p="+filepath.Join(dir, "program-{arch}"))
	}
	if !bytes.Equal(read(t, one), read(t, two)) {
		t.Error("the same input gave two different archives")
	}
	members := list(t, bytes.NewReader(read(t, one)))
	if len(members) != 9 || !slices.Contains(members, "index.json 644") || !slices.Contains(members, "oci-layout 644") {
		t.Errorf("members %q", members) // two images of manifest, configuration, layer, and their index
	}
	for _, part := range []string{`"io.containerd.image.name": "localhost:5000/a/b:1"`, `"org.opencontainers.image.ref.name": "1"`, `"architecture":"arm64"`, "application/vnd.oci.image.layer.v1.tar+gzip"} {
		if !bytes.Contains(read(t, one), []byte(part)) {
			t.Errorf("the archive lacks %s", part)
		}
	}
	if run([]string{"-oci", "-arch", "riscv64", "-o", one, "-t", "localhost/a:1", "/p=" + filepath.Join(dir, "program-{arch}")}) == nil {
		t.Error("an architecture without its program is no error")
	}
}

func TestBadEntries(t *testing.T) {
	for _, args := range [][]string{{"/a"}, {"/=x"}, {"/a="}, {"/a=x", "a=y"}} {
		if _, err := parseEntries(args); err == nil {
			t.Errorf("parseEntries(%q) gives no error", args)
		}
	}
}
