package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

const home = "https://github.com/nadra-dev/nadra"

// plugin is the used part of krew's manifest.
type plugin struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   map[string]string `json:"metadata"`
	Spec       pluginSpec        `json:"spec"`
}

type pluginSpec struct {
	Version          string           `json:"version"`
	Homepage         string           `json:"homepage"`
	ShortDescription string           `json:"shortDescription"`
	Description      string           `json:"description"`
	Platforms        []pluginPlatform `json:"platforms"`
}

type pluginPlatform struct {
	Selector pluginSelector `json:"selector"`
	URI      string         `json:"uri"`
	SHA256   string         `json:"sha256"`
	Bin      string         `json:"bin"`
}

type pluginSelector struct {
	MatchLabels map[string]string `json:"matchLabels"`
}

// krew writes the manifest for `kubectl krew install --manifest` and for krew's index, with the
// archives' checksums.
func (r *release) krew() error {
	out := plugin{
		APIVersion: "krew.googlecontainertools.github.com/v1alpha2", Kind: "Plugin", Metadata: map[string]string{"name": "nadra"},
		Spec: pluginSpec{
			Version: r.version, Homepage: home,
			ShortDescription: "Move from Multus to Dynamic Resource Allocation",
			Description: "Says what moving from Multus to claims of Dynamic Resource Allocation means for a\n" +
				"cluster or its manifests, converts these, and moves a cluster node by node.\n",
		},
	}
	for _, p := range r.clients {
		content, err := os.ReadFile(filepath.Join(r.out, p.archiveName()))
		if err != nil {
			return fmt.Errorf("writing krew's manifest: %w", err)
		}
		out.Spec.Platforms = append(out.Spec.Platforms, pluginPlatform{
			Selector: pluginSelector{map[string]string{"os": p.os, "arch": p.arch}},
			URI:      home + "/releases/download/" + r.version + "/" + p.archiveName(),
			SHA256:   fmt.Sprintf("%x", sha256.Sum256(content)),
			Bin:      p.exe("kubectl-nadra"),
		})
	}
	text, err := yaml.Marshal(out)
	if err != nil {
		return fmt.Errorf("writing krew's manifest: %w", err)
	}
	return r.write("nadra.yaml", text)
}
