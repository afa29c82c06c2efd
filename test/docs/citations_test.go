package docs

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// cited matches citations of pages that the repository does not have: notes on the
// design and on the plan, which only those have who wrote them.
var cited = regexp.MustCompile(`\bdesign D\d+|\bdesign(-\d)?\.md\b|\bround (one|two|three)\b|\bstep \d+ of\b|\.\./shared/(design|reference)`)

// citedWords lists words of which every citation has one.
var citedWords = []string{"design", "round ", "step "}

// TestCitations checks that nothing cites a page that a reader of the repository does
// not have. Reasons that somebody must know are in docs/decisions.
func TestCitations(t *testing.T) {
	for name, text := range sources(t, []string{"build", "cmd", "docs", "examples", "internal", "manifests", "pkg", "test"}, ".go", ".md", ".yaml", ".yml", ".tmpl") {
		if strings.HasSuffix(name, "/citations_test.go") {
			continue
		}
		for i, line := range strings.Split(text, "\n") {
			if !slices.ContainsFunc(citedWords, func(word string) bool { return strings.Contains(line, word) }) {
				continue // most lines, and much faster than the expression
			}
			if m := cited.FindString(line); m != "" {
				t.Errorf("%s:%d cites %q, which is not in the repository", name, i+1, strings.TrimSpace(m))
			}
		}
	}
}

func TestCited(t *testing.T) {
	for text, want := range map[string]bool{
		"its network (design D4, first guard)":              true,
		"see design-2.md":                                   true,
		"in round two":                                      true,
		"step 3 of 9":                                       true,
		"decisions/0006, behaviour A2-18":                   false,
		"[D2-8](compatibility.md)":                          false,
		"https://kubernetes.io/docs/reference/using-api.md": false,
		"the design of this package":                        false,
	} {
		if cited.MatchString(text) != want {
			t.Errorf("%q is a citation: %v", text, !want)
		}
	}
}
