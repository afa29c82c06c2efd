package main

import (
	"archive/tar"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// writeOCI writes an image for several architectures as an OCI image layout, as a tar. {arch}
// in the source of an entry stands for each architecture.
func (s imageSpec) writeOCI(path string, architectures []string) error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range architectures {
		image, err := s.forArch(arch).image()
		if err != nil {
			return fmt.Errorf("making the image for %s: %w", arch, err)
		}
		image = mutate.ConfigMediaType(mutate.MediaType(image, types.OCIManifestSchema1), types.OCIConfigJSON)
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	dir, err := os.MkdirTemp("", "mkimage-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	files, err := layout.Write(dir, mutate.IndexMediaType(empty.Index, types.OCIImageIndex))
	if err != nil {
		return fmt.Errorf("writing the layout: %w", err)
	}
	_, tag, _ := strings.Cut(s.name[strings.LastIndex(s.name, "/")+1:], ":")
	names := layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": tag, "io.containerd.image.name": s.name})
	if err := files.AppendIndex(index, names); err != nil {
		return fmt.Errorf("writing the layout: %w", err)
	}
	return writeTar(path, os.DirFS(dir))
}

// forArch returns the image with the sources for an architecture.
func (s imageSpec) forArch(arch string) imageSpec {
	s.architecture = arch
	entries := make([]entry, len(s.entries))
	for i, e := range s.entries {
		e.source = strings.ReplaceAll(e.source, "{arch}", arch)
		entries[i] = e
	}
	s.entries = entries
	return s
}

// writeTar writes the files of a directory, sorted and without times.
func writeTar(path string, files fs.FS) error {
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	defer out.Close()
	archive := tar.NewWriter(out)
	err = fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(content))}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		_, err = archive.Write(content)
		return err
	})
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := archive.Close(); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return out.Close()
}
