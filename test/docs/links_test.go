package docs

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	link      = regexp.MustCompile(`\]\(\s*<?([^)\s>]+)>?(?:\s+"[^"]*")?\s*\)`)
	reference = regexp.MustCompile(`(?m)^ {0,3}\[[^\]]+\]:\s*<?(\S+?)>?(?:\s|$)`)
	scheme    = regexp.MustCompile(`^[a-z][a-z0-9+.-]*:`)
	id        = regexp.MustCompile(`<a (?:id|name)="([^"]+)"`)
	lines     = regexp.MustCompile(`^L\d+(-L\d+)?$`)
)

// links returns the targets of the page's links, without those to other sites.
func (p page) links() []string {
	text := inlineCode.ReplaceAllString(p.text, "code")
	var all []string
	for _, m := range slices.Concat(link.FindAllStringSubmatch(text, -1), reference.FindAllStringSubmatch(text, -1)) {
		if !scheme.MatchString(m[1]) {
			all = append(all, m[1])
		}
	}
	return all
}

// ids returns the page's anchors that are not headings.
func (p page) ids() []string {
	var all []string
	for _, m := range id.FindAllStringSubmatch(p.text, -1) {
		all = append(all, m[1])
	}
	return all
}

// resolve returns the file of the project to which a link of the page leads, and the
// anchor in it.
func (p page) resolve(target string) (file, anchor string) {
	file, anchor, _ = strings.Cut(target, "#")
	if file == "" {
		return p.path, anchor
	}
	return path.Join(path.Dir(p.path), file), anchor
}

// broken returns what is wrong with a link; empty if the link is valid.
func broken(all map[string]page, p page, target string) string {
	if strings.HasPrefix(target, "/") {
		return "is not relative"
	}
	file, anchor := p.resolve(target)
	if file == ".." || strings.HasPrefix(file, "../") {
		return "leaves the project"
	}
	other, ok := all[file]
	if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(file))); err != nil && !ok {
		return "leads to no file"
	}
	if anchor == "" {
		return ""
	}
	if !ok {
		if lines.MatchString(anchor) {
			return ""
		}
		return "has an anchor in what is no page"
	}
	if !slices.ContainsFunc(other.sections, func(s section) bool { return s.anchor == anchor }) && !slices.Contains(other.ids(), anchor) {
		return "leads to no heading"
	}
	return ""
}

// TestLinks checks that every link to a file or heading of the project leads there.
func TestLinks(t *testing.T) {
	all := pages(t)
	count := 0
	for _, p := range all {
		for _, target := range p.links() {
			count++
			if why := broken(all, p, target); why != "" {
				t.Errorf("%s: link %s %s", p.path, target, why)
			}
		}
	}
	if count < 100 {
		t.Errorf("found only %d links", count)
	}
}

func TestBroken(t *testing.T) {
	all := map[string]page{
		"README.md":      parse("README.md", "# Here\n"),
		"docs/README.md": parse("docs/README.md", "# There\n## There\n<a id=\"that\"></a>\n"),
	}
	for _, c := range []struct{ text, want string }{
		{"[a](../README.md#here)", ""},
		{"[a](#there-1)", ""},
		{"[a](#that)", ""},
		{"[a\nb](../README.md)", ""},
		{"[a](https://example.com/none.md)", ""},
		{"`[a](none.md)`", ""},
		{"[a](../go.mod#L1)", ""},
		{"[a](none.md)", "leads to no file"},
		{"[`a`](none.md)", "leads to no file"},
		{"[![a](none.png)](README.md)", "leads to no file"},
		{"[a]: none.md", "leads to no file"},
		{"[a](#here)", "leads to no heading"},
		{"[a](../README.md#there)", "leads to no heading"},
		{"[a](../../other.md)", "leaves the project"},
		{"[a](/README.md)", "is not relative"},
		{"[a](../go.mod#x)", "has an anchor in what is no page"},
	} {
		p := parse("docs/README.md", c.text)
		got := ""
		for _, target := range p.links() {
			if why := broken(all, p, target); why != "" {
				got = why
			}
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.text, got, c.want)
		}
	}
}

// TestIndexes checks that docs/pages.md links to every page of docs/, that README.md
// links to those, to the pages of the project's root and to the examples, and that the
// index of the decisions links to each of them.
func TestIndexes(t *testing.T) {
	all := pages(t)
	for index, listed := range map[string]func(name string) bool{
		"README.md":                func(name string) bool { return !strings.HasPrefix(name, "docs/") || strings.Count(name, "/") == 1 },
		"docs/pages.md":            func(name string) bool { return strings.Count(name, "/") > 1 && !isDecision(name) },
		"docs/decisions/README.md": isDecision,
	} {
		there := map[string]bool{index: true}
		for _, target := range all[index].links() {
			file, _ := all[index].resolve(target)
			there[file] = true
		}
		for name := range all {
			if listed(name) && !there[name] {
				t.Errorf("%s has no link to %s", index, name)
			}
		}
	}
}

// isDecision reports whether a page is a decision and not their index.
func isDecision(name string) bool {
	return strings.HasPrefix(name, "docs/decisions/") && path.Base(name) != "README.md"
}
