package docs

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// otherMultus lists the versions of Multus that may be named beside the one that the tests
// build: the last release that moved the default route, the first that did not, and the one that
// NADRA_MULTUS=4.2 builds.
var otherMultus = []string{"v4.2.1", "v4.2.2", "v4.2.4"}

// ofAnyMultus lists the pages that name versions of another time: what was measured, and
// what was released.
var ofAnyMultus = []string{"docs/reference/performance.md", "docs/reference/performance-tables.md", "CHANGELOG.md"}

// multusVersion matches a version of Multus 4. No other program here has such a version.
var multusVersion = regexp.MustCompile(`\bv4\.\d+\.\d+\b`)

// TestMultusIsOfAVersion checks that each page about Multus, or the README.md of its folder or of docs,
// says which version its statements are about, and that no page and no source names a
// version that the tests do not build. With a new version the test lists all places to look
// at.
func TestMultusIsOfAVersion(t *testing.T) {
	pinned := pinnedMultus(t)
	sentence := "Statements about Multus are about " + pinned + " unless they name another version."
	all := pages(t)
	for name, p := range all {
		if strings.Contains(p.text, "Multus") && !says(all, name, sentence) {
			t.Errorf("%s mentions Multus: it, or the README.md of its folder, must have the sentence %q", name, sentence)
		}
		if !slices.Contains(ofAnyMultus, name) {
			checkVersions(t, name, p.text, pinned)
		}
	}
	for _, folder := range []string{"cmd", "internal", "pkg", "test"} {
		checkSources(t, folder, pinned)
	}
}

// pinnedMultus returns the version of Multus that the tests build.
func pinnedMultus(t *testing.T) string {
	t.Helper()
	component, err := os.ReadFile(filepath.Join(root, "test/cluster/components/multus/go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	required := regexp.MustCompile(`multus-cni\.v4 (v\S+)`).FindSubmatch(component)
	if required == nil {
		t.Fatal("the component's go.mod does not require Multus")
	}
	return string(required[1])
}

// says reports whether a page has a sentence, or the README.md in its folder or in the one
// above. The project's own README.md is for its folder only.
func says(all map[string]page, name, sentence string) bool {
	has := func(name string) bool { return strings.Contains(all[name].text, sentence) }
	dir := path.Dir(name)
	if has(name) || has(path.Join(dir, "README.md")) {
		return true
	}
	above := path.Dir(dir)
	return above != "." && has(path.Join(above, "README.md"))
}

// checkSources checks the versions of Multus that Go files name. It leaves out tests, whose
// clusters are made up.
func checkSources(t *testing.T, folder, pinned string) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(root, folder), func(file string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go") {
			return err
		}
		text, err := os.ReadFile(file)
		checkVersions(t, file, string(text), pinned)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func checkVersions(t *testing.T, name, text, pinned string) {
	t.Helper()
	found := multusVersion.FindAllString(text, -1)
	slices.Sort(found)
	for _, version := range slices.Compact(found) {
		if version != pinned && !slices.Contains(otherMultus, version) {
			t.Errorf("%s names Multus %s, and the tests build %s: see whether it still holds", name, version, pinned)
		}
	}
}
