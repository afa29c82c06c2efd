package translate

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/nadra-dev/nadra/test/golden"
)

const findingsPage = "../../docs/reference/findings.md"

// marker is the line before the generated part of the page.
const marker = "<!-- What follows is made of pkg/translate/rules.go: go test ./pkg/translate -run TestRules -update -->\n"

func TestRules(t *testing.T) {
	if !slices.IsSortedFunc(rules, func(a, b Rule) int { return strings.Compare(string(a.Code), string(b.Code)) }) {
		t.Error("the rules are not sorted by code")
	}
	var want strings.Builder
	seen := map[Code]bool{}
	for _, r := range rules {
		if seen[r.Code] {
			t.Errorf("%s has two rules", r.Code)
		}
		seen[r.Code] = true
		for _, text := range []string{r.Title, r.What, r.Why, r.Fix} {
			if text == "" {
				t.Errorf("%s lacks a text", r.Code)
			}
		}
		if got, found := RuleOf(r.Code); !found || got != r {
			t.Errorf("RuleOf(%s) = %v, %v", r.Code, got, found)
		}
		fmt.Fprintf(&want, "\n<a id=%q></a>\n\n## %s: %s\n\n*%s.* %s\n\nWhy: %s\n\nWhat to do: %s\n",
			strings.ToLower(string(r.Code)), r.Code, r.Title, r.Severity, r.What, r.Why, r.Fix)
	}
	page, err := os.ReadFile(findingsPage)
	if err != nil {
		t.Fatal(err)
	}
	head, _, found := strings.Cut(string(page), marker)
	if !found {
		t.Fatalf("%s has no line %q", findingsPage, marker)
	}
	golden.Check(t, findingsPage, head+marker+want.String())
}
