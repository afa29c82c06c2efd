package snapshot

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nadra-dev/nadra/pkg/translate"
	"github.com/nadra-dev/nadra/test/golden"
)

const codesPage = "../../../docs/reference/verify-codes.md"

// Marks around the generated part of the page.
const (
	codesBegin = "<!-- What follows is made of internal/desk/snapshot/rules.go: go test ./internal/desk/snapshot -run TestRules -update -->\n"
	codesEnd   = "<!-- Here ends what is made of internal/desk/snapshot/rules.go. -->\n"
)

func TestRules(t *testing.T) {
	if !slices.IsSortedFunc(rules, func(a, b translate.Rule) int { return strings.Compare(string(a.Code), string(b.Code)) }) {
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
			if text == "" || strings.Contains(text, "\n") {
				t.Errorf("%s lacks a text, or has one of several lines: %q", r.Code, text)
			}
		}
		if got, found := RuleOf(r.Code); !found || got != r {
			t.Errorf("RuleOf(%s) = %v, %v", r.Code, got, found)
		}
		fmt.Fprintf(&want, "\n<a id=%q></a>\n\n## %s: %s\n\n*%s.* %s\n\nWhy: %s\n\nWhat to do: %s\n",
			strings.ToLower(string(r.Code)), r.Code, r.Title, r.Severity, r.What, r.Why, r.Fix)
	}
	golden.CheckPart(t, codesPage, codesBegin, codesEnd, want.String()+"\n")
}
