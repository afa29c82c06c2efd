package docs

import (
	"regexp"
	"strings"
	"testing"
)

// cited matches citations of pages that the repository does not have: notes on the
// design and on the plan, which only those have who wrote them.
var cited = regexp.MustCompile(`\bdesign D\d+|\bdesign(-\d)?\.md\b|\bround (one|two|three)\b|\bstep \d+ of\b|[\s(]reference/[a-z-]+\.md\b|\.\./shared/(design|reference)`)

// TestCitations checks that nothing cites a page that a reader of the repository does
// not have. Reasons that somebody must know are in docs/decisions.
func TestCitations(t *testing.T) {
	for name, text := range sources(t, []string{"build", "cmd", "docs", "examples", "internal", "manifests", "pkg", "test"}, ".go", ".md", ".yaml", ".yml", ".tmpl") {
		if strings.HasSuffix(name, "/citations_test.go") {
			continue
		}
		for _, m := range cited.FindAllStringIndex(text, -1) {
			line := 1 + strings.Count(text[:m[0]], "\n")
			t.Errorf("%s:%d cites %q, which is not in the repository", name, line, strings.TrimSpace(text[m[0]:m[1]]))
		}
	}
}

func TestCited(t *testing.T) {
	for text, want := range map[string]bool{
		"its network (design D4, first guard)":              true,
		"see design-2.md":                                   true,
		"figures in reference/gate.md":                      true,
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
