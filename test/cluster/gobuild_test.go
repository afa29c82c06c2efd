package cluster

import (
	"os"
	"path/filepath"
	"strings"
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
	nadra := requirements(t, filepath.Join(root, goMod))
	for _, dir := range []string{"test/chart", "test/cluster/components/kubernetes"} {
		shared := 0
		for module, version := range requirements(t, filepath.Join(root, dir, goMod)) {
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

// requirements returns the versions that a go.mod requires, by module.
func requirements(t *testing.T, modfile string) map[string]string {
	t.Helper()
	content, err := os.ReadFile(modfile)
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for line := range strings.Lines(string(content)) {
		fields := strings.Fields(strings.TrimPrefix(line, "require "))
		if len(fields) >= 2 && strings.HasPrefix(fields[1], "v") {
			versions[fields[0]] = fields[1]
		}
	}
	return versions
}
