package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// TestFront checks that the project's first page and the site's have the same things in the same order: the picture,
// the three ways on, the version of the newest release in the changelog, and the repository.
func TestFront(t *testing.T) {
	changelog, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		t.Fatal(err)
	}
	released := regexp.MustCompile(`(?m)^## \[(\d\S*)\] - `).FindSubmatch(changelog)
	if released == nil {
		t.Fatal("CHANGELOG.md has no release")
	}
	parts := []string{
		"pictures/way-of-a-pod.svg", "quickstart/new-cluster.md", "quickstart/existing-cluster.md", "migrate/scan.md", "v" + string(released[1]) + " ",
		"](https://github.com/nadra-dev/nadra)",
	}
	for _, name := range []string{"README.md", "docs/README.md"} {
		rest := strings.ReplaceAll(pages(t)[name].text, ",", " ")
		for _, part := range parts {
			_, after, found := strings.Cut(rest, part)
			if !found {
				t.Errorf("%s does not have %q, or not in the order %q", name, part, parts)
				break
			}
			rest = after
		}
	}
}

// TestEntries checks that each link in the sections of docs/pages.md of which the site makes its navigation begins with
// a capital letter.
func TestEntries(t *testing.T) {
	entries := 0
	for _, s := range pages(t)["docs/pages.md"].sections {
		if s.level != 2 {
			continue
		}
		for _, m := range headingLink.FindAllStringSubmatch(s.text, -1) {
			entries++
			if first := []rune(m[1])[0]; !unicode.IsUpper(first) {
				t.Errorf("docs/pages.md: the entry %q of %s does not begin with a capital letter", m[1], s.heading)
			}
		}
	}
	if entries < 50 {
		t.Errorf("found only %d entries", entries)
	}
}

// TestDemoNeeds checks that the pages that begin with the demo name the version of Go that go.mod requires, and that the
// first page says how long the demo takes, as the page about it does.
func TestDemoNeeds(t *testing.T) {
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read(t, "go.mod"))
	takes := regexp.MustCompile(`\d+ minutes on two cores`).FindString(read(t, "docs/quickstart/new-cluster.md"))
	if version == nil || takes == "" {
		t.Fatalf("found the version %q and the time %q", version, takes)
	}
	for _, name := range []string{"README.md", "docs/quickstart/new-cluster.md"} {
		for _, want := range []string{"Go " + version[1], takes} {
			if !strings.Contains(read(t, name), want) {
				t.Errorf("%s does not have %q", name, want)
			}
		}
	}
}
