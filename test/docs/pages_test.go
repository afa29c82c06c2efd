// Package docs checks the project's pages: links lead somewhere, what a page names
// exists, and what the code says to users is explained.
package docs

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode"
)

var root = filepath.Join("..", "..")

// page is a file of Markdown.
type page struct {
	path     string    // from the project's root, with slashes
	text     string    // without fenced code
	sections []section // in order
}

// section is a heading with its text, up to the next heading of any level.
type section struct {
	level   int
	heading string // as it is written
	anchor  string
	text    string
}

// pages returns the pages of the project's root, docs/ and examples/, which are read
// once for all tests. Tests must not change them.
func pages(t *testing.T) map[string]page {
	t.Helper()
	found, err := readPages()
	if err != nil {
		t.Fatal(err)
	}
	if len(found) < 10 {
		t.Fatalf("found only %d pages", len(found))
	}
	return found
}

var readPages = sync.OnceValues(func() (map[string]page, error) {
	found := map[string]page{}
	add := func(name string) error {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		found[name] = parse(name, string(text))
		return err
	}
	top, err := fs.Glob(os.DirFS(root), "*.md")
	for _, name := range append(top, "examples/README.md") {
		err = errors.Join(err, add(name))
	}
	return found, errors.Join(err, fs.WalkDir(os.DirFS(root), "docs", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, ".md") {
			return err
		}
		return add(name)
	}))
})

var (
	fence      = regexp.MustCompile("^ *(```+|~~~+)") // indented in an item of a list
	heading    = regexp.MustCompile(`^(#{1,6})\s+(.*?)\s*#*\s*$`)
	inlineCode = regexp.MustCompile("`+[^`]*`+")
)

func parse(name, text string) page {
	p := page{path: name}
	seen := map[string]int{}
	var outside []string
	closing := "" // what ends the block of code that we are in
	for _, line := range strings.Split(text, "\n") {
		if m := fence.FindStringSubmatch(line); m != nil && (closing == "" || strings.HasPrefix(m[1], closing)) {
			if closing == "" {
				closing = m[1]
			} else {
				closing = ""
			}
			continue
		}
		if closing != "" {
			continue
		}
		outside = append(outside, line)
		if m := heading.FindStringSubmatch(line); m != nil {
			p.sections = append(p.sections, section{level: len(m[1]), heading: m[2], anchor: anchor(m[2], seen)})
		} else if n := len(p.sections); n > 0 {
			p.sections[n-1].text += line + "\n"
		}
	}
	p.text = strings.Join(outside, "\n")
	return p
}

var headingLink = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)

// anchor returns the anchor that GitHub gives a heading: lower case, with hyphens for
// spaces, and of other characters only letters, digits, hyphens and underscores. A
// repeated heading gets a number.
func anchor(text string, seen map[string]int) string {
	text = headingLink.ReplaceAllString(text, "$1")
	slug := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsNumber(r):
			return unicode.ToLower(r)
		}
		return -1
	}, text)
	n := seen[slug]
	seen[slug]++
	if n > 0 {
		return slug + "-" + strconv.Itoa(n)
	}
	return slug
}

func TestAnchor(t *testing.T) {
	seen := map[string]int{}
	for _, c := range []struct{ heading, want string }{
		{"Whose node it is", "whose-node-it-is"},
		{"Who attaches a pod's networks", "who-attaches-a-pods-networks"},
		{"`--hook-budget`, and more", "--hook-budget-and-more"},
		{"A4 The default network, readiness, failures", "a4-the-default-network-readiness-failures"},
		{"CHECK, STATUS & GC", "check-status--gc"},
		{"See [the page](other.md#x)", "see-the-page"},
		{"snake_case", "snake_case"},
		{"Whose node it is", "whose-node-it-is-1"},
		{"Größe", "größe"},
	} {
		if got := anchor(c.heading, seen); got != c.want {
			t.Errorf("%q: got %s, want %s", c.heading, got, c.want)
		}
	}
}

func TestParse(t *testing.T) {
	p := parse("x.md", "# A\none\n```sh\n# no heading\n[no](link)\n```\ntwo\n## B #\n````\n```\n````\nthree")
	if len(p.sections) != 2 || p.sections[0].text != "one\ntwo\n" || p.sections[1].heading != "B" || p.sections[1].text != "three\n" {
		t.Errorf("got %+v", p.sections)
	}
	if strings.Contains(p.text, "no") {
		t.Errorf("code is part of the text: %q", p.text)
	}
}

// codes returns the page's pieces of inline code.
func (p page) codes() []string {
	var all []string
	for _, c := range inlineCode.FindAllString(p.text, -1) {
		all = append(all, strings.TrimSpace(strings.Trim(c, "`")))
	}
	return all
}

// maxWords is the number of words of a page that somebody reads as a whole.
const maxWords = 1500

// looksUp lists pages, besides those of docs/reference, in which a reader looks for one entry.
var looksUp = []string{"docs/troubleshooting/alerts.md", "docs/develop/lessons.md"}

// TestPagesAreShort checks that a page which somebody reads as a whole has at most maxWords words. Longer pages answer
// more than one question: split them.
func TestPagesAreShort(t *testing.T) {
	for name := range pages(t) {
		if !strings.HasPrefix(name, "docs/") || strings.HasPrefix(name, "docs/reference/") || slices.Contains(looksUp, name) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		if words := len(strings.Fields(string(text))); words > maxWords {
			t.Errorf("%s has %d words, more than %d: split it by question", name, words, maxWords)
		}
	}
}

// maxHandWords is the number of words that people write and keep true.
const maxHandWords = 80_000

// The marks around what a program writes into a page. A part without a mark at its end goes on to the page's end.
var (
	generatedFrom = regexp.MustCompile(`^<!-- (?:[\w -]+ -->$|(?:begin: |What follows is made |From |Written by |Made of |sizes: begin))`)
	generatedTo   = regexp.MustCompile(`^<!-- (?:end|/[\w -]+|Here ends .*|sizes: end) -->$`)
)

// byHand returns the lines of a page that no program has written, without fenced code.
func byHand(p page) (out []string) {
	generated := false
	for line := range strings.SplitSeq(p.text, "\n") {
		switch {
		case generatedTo.MatchString(line):
			generated = false
		case generatedFrom.MatchString(line):
			generated = true
		case !generated:
			out = append(out, line)
		}
	}
	return out
}

// TestPagesAreFew checks that all pages but the changelog have at most maxHandWords words together, without those that a
// program writes, and without code. With -v it prints the longest ones.
func TestPagesAreFew(t *testing.T) {
	all, of := 0, map[string]int{}
	for name, p := range pages(t) {
		if name != "CHANGELOG.md" {
			of[name] = len(strings.Fields(strings.Join(byHand(p), " ")))
			all += of[name]
		}
	}
	for _, name := range slices.SortedFunc(maps.Keys(of), func(a, b string) int { return of[b] - of[a] })[:10] {
		t.Logf("%s: %d", name, of[name])
	}
	t.Logf("%d words by hand", all)
	if all > maxHandWords {
		t.Errorf("the pages have %d words by hand, more than %d: cut what nobody needs", all, maxHandWords)
	}
	if all < maxHandWords/2 {
		t.Errorf("found only %d words by hand", all)
	}
}

// TestByHand checks which lines count as written by hand.
func TestByHand(t *testing.T) {
	const text = "a\n<!-- rules -->\nx\n<!-- /rules -->\nb\n<!-- begin: rows, generated from table.go -->\nx\n<!-- end -->\n<!-- a remark: by hand -->\n```sh\nx\n```\n<!-- What follows is made of rules.go -->\nx"
	if got := strings.Join(byHand(parse("page.md", text)), "|"); got != "a|b|<!-- a remark: by hand -->" {
		t.Errorf("by hand: %s", got)
	}
}

// TestListsAreIndented checks that what belongs to an item of a numbered list is indented by four spaces. With less, the
// site's generator ends the list and begins another one.
func TestListsAreIndented(t *testing.T) {
	item := regexp.MustCompile(`(?m)^\d+\. .*\n(?:\n*( +)\S)?`)
	for name := range pages(t) {
		if !strings.HasPrefix(name, "docs/") {
			continue
		}
		for _, m := range item.FindAllStringSubmatch(read(t, name), -1) {
			if m[1] != "" && len(m[1]) < 4 {
				t.Errorf("%s: what follows %q is indented by %d spaces, want 4", name, strings.SplitN(m[0], "\n", 2)[0], len(m[1]))
			}
		}
	}
}
