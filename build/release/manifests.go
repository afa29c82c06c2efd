package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// localImage returns the reference of an image in the tree's manifests, for images that were
// built locally.
func localImage(name string) string { return "localhost/" + name + ":dev" }

// withImages replaces local images by those of the version. It fails if the text has none.
func (r *release) withImages(name string, text []byte) ([]byte, error) {
	found := false
	for _, image := range images {
		local := []byte(localImage(image.name))
		found = found || bytes.Contains(text, local)
		text = bytes.ReplaceAll(text, local, []byte(r.image(image.name)))
	}
	switch {
	case !found:
		return nil, fmt.Errorf("%s has no image such as %s", name, localImage("nadra-node"))
	case bytes.Contains(text, []byte("localhost/")):
		return nil, fmt.Errorf("%s has an image that is not released", name)
	}
	return text, nil
}

// overlays are rendered, for kubectl apply -f: the modes, and modes with components.
var overlays = []string{
	"manifests/beside-multus", "manifests/driver-only", "manifests/drop-in",
	"build/release/overlays/drop-in-cert-manager", "build/release/overlays/drop-in-cni-plugins", "build/release/overlays/openshift",
}

func (r *release) manifests() error {
	for _, overlay := range overlays {
		built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join(r.source, overlay))
		if err != nil {
			return fmt.Errorf("rendering %s: %w", overlay, err)
		}
		text, err := built.AsYaml()
		if err != nil {
			return fmt.Errorf("rendering %s: %w", overlay, err)
		}
		if text, err = r.withImages(overlay, text); err != nil {
			return err
		}
		if err := r.write("nadra-"+filepath.Base(overlay)+".yaml", text); err != nil {
			return err
		}
	}
	return nil
}

var chartVersions = regexp.MustCompile(`(?m)^(version|appVersion): .*$`)

// chart packs the chart as helm package does, but without times.
func (r *release) chart() error {
	number := strings.TrimPrefix(r.version, "v")
	root := os.DirFS(filepath.Join(r.source, "manifests", "chart"))
	var files []file
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		switch name {
		case "Chart.yaml":
			if n := len(chartVersions.FindAll(content, -1)); n != 2 {
				return fmt.Errorf("%s has %d lines of version and appVersion, not 2", name, n)
			}
			content = chartVersions.ReplaceAllFunc(content, func(line []byte) []byte {
				if bytes.HasPrefix(line, []byte("app")) {
					return []byte("appVersion: " + r.version)
				}
				return []byte("version: " + number)
			})
		case "values.yaml":
			if content, err = r.withImages(name, content); err != nil {
				return err
			}
		}
		files = append(files, file{"nadra/" + name, 0o644, content})
		return nil
	})
	if err != nil {
		return fmt.Errorf("packing the chart: %w", err)
	}
	content, err := tarball(files)
	if err != nil {
		return fmt.Errorf("packing the chart: %w", err)
	}
	return r.write("nadra-"+number+".tgz", content)
}
