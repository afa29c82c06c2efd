package snapshot

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/nadra-dev/nadra/internal/golden"
)

const codesPage = "../../docs/reference/verify-codes.md"

// Marks around the generated part of the page.
const (
	tableBegins = "<!-- What follows is made of internal/snapshot/rules.go: go test ./internal/snapshot -run TestRules -update -->\n"
	tableEnds   = "<!-- Here ends what is made of internal/snapshot/rules.go. -->\n"
)

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
			if text == "" || strings.ContainsAny(text, "|\n") {
				t.Errorf("%s lacks a text, or has one that is no cell of a table: %q", r.Code, text)
			}
		}
		if !slices.Contains(Severities(), r.Severity) {
			t.Errorf("%s is a %q", r.Code, r.Severity)
		}
		if got, found := RuleOf(r.Code); !found || got != r {
			t.Errorf("RuleOf(%s) = %v, %v", r.Code, got, found)
		}
		fmt.Fprintf(&want, "| <a id=%q></a>%s | %s | %s. %s | %s | %s |\n", strings.ToLower(string(r.Code)), r.Code, r.Severity, r.Title, r.What, r.Why, r.Fix)
	}
	table := "\n| code | severity | what | why it matters | what to do |\n| --- | --- | --- | --- | --- |\n" + want.String() + "\n"
	page, err := os.ReadFile(codesPage)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, found := strings.Cut(string(page), tableBegins)
	_, tail, ends := strings.Cut(rest, tableEnds)
	if !found || !ends {
		t.Fatalf("%s has no lines %q and %q", codesPage, tableBegins, tableEnds)
	}
	golden.Check(t, codesPage, head+tableBegins+table+tableEnds+tail)
}
