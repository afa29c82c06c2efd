package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/nadra-dev/nadra/test/cluster"
)

// apply applies a folder of manifests, by its name, with the driver's directories where the
// nodes have them.
func apply(ctx context.Context, c *cluster.Cluster, name string) error {
	dir := filepath.Join(Root(), "manifests", name)
	if c.Layout().Name != "" {
		var err error
		if dir, err = overlay(c, dir); err != nil {
			return fmt.Errorf("writing a kustomize overlay of manifests/%s: %w", name, err)
		}
	}
	if _, err := c.Kubectl(ctx, "apply", "-k", dir); err != nil {
		return fmt.Errorf("installing manifests/%s: %w", name, err)
	}
	return nil
}

// overlay writes a kustomization of other manifests for the nodes' layout, as a user would,
// and returns its folder.
func overlay(c *cluster.Cluster, manifests string) (string, error) {
	dir := filepath.Join(c.Dir(), "manifests", filepath.Base(manifests))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	resource, err := filepath.Rel(dir, manifests)
	if err != nil {
		return "", err
	}
	text := kustomization(resource, c.Layout())
	if c.Layout().PluginImage {
		text += fmt.Sprintf("components: [%s]\n", filepath.Join(filepath.Dir(resource), "components", "cni-plugins"))
	}
	return dir, os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o644)
}

// kustomization renders an overlay of a resource that gives the DaemonSet the flags and the
// mounts of a layout. It fails, by "op: test", if the DaemonSet has its volumes in another
// order.
func kustomization(resource string, layout cluster.Layout) string {
	var b strings.Builder
	fmt.Fprintf(&b, "resources: [%s]\npatches:\n  - target: {kind: DaemonSet, name: nadra-node}\n    patch: |-\n", resource)
	const spec = "/spec/template/spec"
	for _, flag := range layout.Flags() {
		fmt.Fprintf(&b, "      - {op: add, path: %s/containers/0/args/-, value: %q}\n", spec, flag)
	}
	volumes := []struct{ name, path string }{
		{"state", layout.State},
		{"plugins", layout.Kubelet + "/plugins"},
		{"registry", layout.Kubelet + "/plugins_registry"},
		{"nri", filepath.Dir(layout.NRISocket)},
		{"cdi", layout.CDI},
	}
	for i, v := range volumes {
		at := i + 1 // the first is the host's root
		fmt.Fprintf(&b, "      - {op: test, path: %s/volumes/%d/name, value: %s}\n", spec, at, v.name)
		fmt.Fprintf(&b, "      - {op: replace, path: %s/volumes/%d/hostPath/path, value: %s}\n", spec, at, v.path)
		fmt.Fprintf(&b, "      - {op: test, path: %s/containers/0/volumeMounts/%d/name, value: %s}\n", spec, at, v.name)
		fmt.Fprintf(&b, "      - {op: replace, path: %s/containers/0/volumeMounts/%d/mountPath, value: %s}\n", spec, at, v.path)
	}
	return b.String()
}
