package main

import (
	"bytes"
	"fmt"
	"io"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// imageSpec describes the content of an archive.
type imageSpec struct {
	name         string
	architecture string
	entrypoint   []string
	env          []string
	entries      []entry
	layerType    types.MediaType
}

// write writes the image to an archive.
func (s imageSpec) write(path string) error {
	tag, err := name.NewTag(s.name, name.StrictValidation)
	if err != nil {
		return fmt.Errorf("reading image name: %w", err)
	}
	image, err := s.image()
	if err != nil {
		return err
	}
	if err := tarball.WriteToFile(path, tag, image); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

func (s imageSpec) image() (v1.Image, error) {
	content, err := layer(s.entries)
	if err != nil {
		return nil, err
	}
	only, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content)), nil
	}, tarball.WithMediaType(s.layerType))
	if err != nil {
		return nil, fmt.Errorf("making the layer: %w", err)
	}
	image, err := mutate.AppendLayers(empty.Image, only)
	if err != nil {
		return nil, fmt.Errorf("adding the layer: %w", err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", s.architecture
	config.Config.Entrypoint, config.Config.Env = s.entrypoint, s.env
	return mutate.ConfigFile(image, config)
}
