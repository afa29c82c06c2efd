package cluster

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestContainerdShipsItsNRI checks that the lanes run containerd with the NRI that it
// ships, because a newer NRI treats late plugins in another way, which would prove nothing
// for users. The other build has the NRI that nadra itself is linked with.
func TestContainerdShipsItsNRI(t *testing.T) {
	root, err := sourceRoot()
	if err != nil {
		t.Fatal(err)
	}
	components := filepath.Join(root, "test/cluster/components")
	b := &planner{ctx: t.Context()}
	version := b.requiredVersion
	shipped := filepath.Join(components, "containerd", goMod)
	out, err := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", containerdModule+"@"+version(shipped, containerdModule)).Output()
	if err != nil {
		t.Fatalf("looking up containerd's go.mod: %v", err)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		t.Fatal(err)
	}
	if want, got := version(filepath.Join(module.Dir, goMod), nriModule), version(shipped, nriModule); want != got {
		t.Errorf("the lanes' containerd has NRI %s, the go.mod that it was released with %s", got, want)
	}
	newest := filepath.Join(components, "containerd", "newest-nri.mod")
	if want, got := version(shipped, containerdModule), version(newest, containerdModule); want != got {
		t.Errorf("the second build is of containerd %s, the first of %s", got, want)
	}
	if want, got := version(filepath.Join(root, goMod), nriModule), version(newest, nriModule); want != got {
		t.Errorf("the second build has NRI %s, nadra %s", got, want)
	}
	if b.err != nil {
		t.Error(b.err)
	}
}
