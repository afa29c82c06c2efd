package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	keyA = "-aaaaaaaaaaaaaaaa"
	keyB = "-bbbbbbbbbbbbbbbb"
	keyC = "-cccccccccccccccc"
	day  = 24 * time.Hour
)

func TestOutdated(t *testing.T) {
	now := time.Now()
	unused := func(path string, age time.Duration) cached { return cached{path: path, used: now.Add(-age)} }
	var logs []cached
	for i := range 12 {
		logs = append(logs, unused(fmt.Sprintf("logs/e2e-%02d", i), time.Duration(i)*time.Hour))
	}
	running := unused("components/runc"+keyB, 9*day)
	running.busy = true
	tests := []struct {
		name string
		all  []cached
		want []string
	}{
		{"the only build of a name", []cached{unused("components/runc"+keyA, 99*day)}, nil},
		{"the last used build of a name", []cached{
			unused("components/runc"+keyB, 9*day), unused("components/runc"+keyA, 8*day), unused("components/runc"+keyC, 10*day),
		}, []string{"components/runc" + keyB, "components/runc" + keyC}},
		{"a build used within a week", []cached{unused("vm/kernel"+keyA, 0), unused("vm/kernel"+keyB, 7*day)}, nil},
		{"a build that a process uses", []cached{unused("components/runc"+keyA, 0), running}, nil},
		{"a name that begins like another", []cached{unused("components/containerd"+keyA, 9*day), unused("components/containerd-newest"+keyB, 0)}, nil},
		{"the same name in two suites", []cached{unused("e2e/neighbour"+keyA, 9*day), unused("vm/neighbour"+keyB, 0)}, nil},
		{
			"partial folders",
			[]cached{unused("vm/runc-.partial-12", day), unused("vm/runc-.partial-3", day+1), unused("vm/runc"+keyA+"-.partial-removed", 9*day)},
			[]string{"vm/runc-.partial-3", "vm/runc" + keyA + "-.partial-removed"},
		},
		{"saved logs", logs, []string{"logs/e2e-10", "logs/e2e-11"}},
		{"run folders", []cached{unused("run/default", 99*day), unused("run/x"+keyA, 99*day), unused("run/x"+keyB, 0), unused("run/x-.partial-1", 9*day)}, nil},
		{"folders of other programs", []cached{unused("vm/unpacked-1234", 99*day), unused("other/x-abc", 99*day)}, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			for _, c := range outdated(test.all, now) {
				got = append(got, c.path)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("outdated are %q, want %q", got, test.want)
			}
		})
	}
}

// TestPrune prunes a cache on the disk, with a build that was touched, one that
// a process runs from, and one that nobody uses.
func TestPrune(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("NADRA_CACHE", cache)
	goCache := t.TempDir()
	t.Setenv("GOCACHE", goCache)
	t.Setenv("GOMODCACHE", filepath.Join(goCache, "missing"))
	for _, name := range []string{"x" + keyA, "x" + keyB, "x" + keyC, "x-.partial-1"} {
		folder := filepath.Join(cache, "vm", name)
		if err := writeFile(filepath.Join(folder, "program"), make([]byte, 2<<20)); err != nil {
			t.Fatal(err)
		}
		setAge(t, folder, 8*day)
	}
	if !use(filepath.Join(cache, "vm/x"+keyA)) || use(filepath.Join(cache, "vm/y"+keyA)) {
		t.Error("use does not tell which folder exists")
	}
	process := exec.CommandContext(t.Context(), "sleep", "60")
	process.Env = []string{"PATH=" + filepath.Join(cache, "vm/x"+keyB)}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = process.Wait() }) // ended by the test's context
	var out strings.Builder
	if err := Prune(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(cache, "vm", "*"))
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{filepath.Join(cache, "vm/x"+keyA), filepath.Join(cache, "vm/x"+keyB)}; !slices.Equal(left, want) {
		t.Errorf("the cache has %q, want %q", left, want)
	}
	last := time.Now().Add(-8 * day).Format(time.DateOnly)
	if want := fmt.Sprintf(`removed vm/x-.partial-1, last used on %[1]s: 2.0 MiB
removed vm/x-cccccccccccccccc, last used on %[1]s: 2.0 MiB
removed 2 folder(s) from %[2]s: 4.0 MiB
        size  folder
     4.0 MiB  vm
     4.0 MiB  %[2]s (sum of the above)
     0.0 MiB  %[3]s
     0.0 MiB  %[3]s/missing
`, last, cache, goCache); out.String() != want {
		t.Errorf("the output is\n%s\nwant\n%s", out.String(), want)
	}
}

// TestPruneWithoutCache prunes on a machine that has built nothing yet.
func TestPruneWithoutCache(t *testing.T) {
	cache := filepath.Join(t.TempDir(), "missing")
	t.Setenv("NADRA_CACHE", cache)
	t.Setenv("GOCACHE", t.TempDir())
	t.Setenv("GOMODCACHE", t.TempDir())
	var out strings.Builder
	if err := Prune(t.Context(), &out); err != nil || !strings.Contains(out.String(), "0.0 MiB  "+cache+" (sum of the above)") {
		t.Errorf("Prune returns %v and prints\n%s", err, out.String())
	}
}

// TestRemoveSparesUsed uses a folder after it was listed, and while somebody
// has it locked.
func TestRemoveSparesUsed(t *testing.T) {
	cache := t.TempDir()
	path := filepath.Join(cache, "vm", "x"+keyA)
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
	setAge(t, path, 8*day)
	all, err := folders(cache)
	if err != nil || len(all) != 1 {
		t.Fatalf("the cache has %v (%v), want one folder", all, err)
	}
	use(path)
	if removed, err := all[0].remove(cache); removed || err != nil {
		t.Errorf("a folder that was used since it was listed: removed %t (%v)", removed, err)
	}
	all, _ = folders(cache)
	unlock, err := lockFolder(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if removed, err := all[0].remove(cache); removed || err != nil {
		t.Errorf("a locked folder: removed %t (%v)", removed, err)
	}
	unlock()
	if removed, err := all[0].remove(cache); !removed || err != nil {
		t.Errorf("an unused folder: removed %t (%v)", removed, err)
	}
	if use(path) {
		t.Error("the removed folder can be used")
	}
}

func setAge(t *testing.T, path string, age time.Duration) {
	t.Helper()
	used := time.Now().Add(-age)
	if err := os.Chtimes(path, used, used); err != nil {
		t.Fatal(err)
	}
}
