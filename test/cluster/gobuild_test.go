package cluster

import (
	"path/filepath"
	"testing"
)

// TestModulesHaveOneVersion checks that Kubernetes and Helm are built with nadra's versions of the modules that they
// share: another version of one small module is enough to compile client-go once more.
func TestModulesHaveOneVersion(t *testing.T) {
	root, err := sourceRoot()
	if err != nil {
		t.Fatal(err)
	}
	// Few packages depend on these, whose versions are those of the release of Kubernetes and of its etcd.
	released := map[string]bool{"github.com/containerd/ttrpc": true, "go.etcd.io/etcd/client/pkg/v3": true}
	nadra, err := requirements(filepath.Join(root, goMod))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"test/chart", "test/cluster/components/kubernetes"} {
		versions, err := requirements(filepath.Join(root, dir, goMod))
		if err != nil {
			t.Fatal(err)
		}
		shared := 0
		for module, version := range versions {
			own, ok := nadra[module]
			if !ok || released[module] || version == "v0.0.0" { // which is replaced
				continue
			}
			if shared++; version != own {
				t.Errorf("%s requires %s %s, nadra %s: go get -C %s %s@%s", dir, module, version, own, dir, module, own)
			}
		}
		if shared < 50 {
			t.Errorf("%s shares only %d modules with nadra", dir, shared)
		}
	}
}
