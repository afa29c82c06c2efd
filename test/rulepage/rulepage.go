// Package rulepage compares the rules of findings with the page that has their texts. Only tests import it.
package rulepage

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nadra-dev/nadra/pkg/translate"
	"github.com/nadra-dev/nadra/test/golden"
)

// Sorted fails the test unless the rules are sorted by code.
func Sorted(t testing.TB, rules []translate.Rule) {
	t.Helper()
	if !slices.IsSortedFunc(rules, func(a, b translate.Rule) int { return strings.Compare(string(a.Code), string(b.Code)) }) {
		t.Error("the rules are not sorted by code")
	}
}

// Check fails the test unless docs/reference/verify-codes.md has the rules of a package of the desk, sorted and with all
// texts, each in a line. With -update it writes them.
func Check(t testing.TB, name string, rules []translate.Rule) {
	t.Helper()
	Sorted(t, rules)
	var want strings.Builder
	for _, r := range rules {
		for _, text := range []string{r.Title, r.What, r.Why, r.Fix} {
			if text == "" || strings.Contains(text, "\n") {
				t.Errorf("%s lacks a text, or has one of several lines: %q", r.Code, text)
			}
		}
		fmt.Fprintf(&want, "\n<a id=%q></a>\n\n## %s: %s\n\n*%s.* %s\n\nWhy: %s\n\nWhat to do: %s\n",
			strings.ToLower(string(r.Code)), r.Code, r.Title, r.Severity, r.What, r.Why, r.Fix)
	}
	source := "internal/desk/" + name + "/rules.go"
	golden.CheckPart(t, "../../../docs/reference/verify-codes.md",
		"<!-- What follows is made of "+source+": go test ./internal/desk/"+name+" -run TestRules -update -->\n",
		"<!-- Here ends what is made of "+source+". -->\n", want.String()+"\n")
}
