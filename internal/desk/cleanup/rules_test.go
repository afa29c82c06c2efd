package cleanup

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nadra-dev/nadra/pkg/translate"
	"github.com/nadra-dev/nadra/test/golden"
)

// TestRules compares the rules with the tables of the pages.
func TestRules(t *testing.T) {
	if !slices.IsSortedFunc(rules, func(a, b translate.Rule) int { return strings.Compare(string(a.Code), string(b.Code)) }) {
		t.Error("the rules are not sorted by code")
	}
	tables := map[string]string{}
	for _, r := range Rules() {
		if r.Title == "" || r.Why == "" || r.Fix == "" {
			t.Errorf("%s lacks a text", r.Code)
		}
		page, anchor, _ := strings.Cut(r.Code.Anchor(), "#")
		tables[page] += fmt.Sprintf("| <a id=%q></a>%s | %s | %s | %s |\n", anchor, r.Code, r.Title, r.Why, r.Fix)
	}
	if len(tables) != 2 {
		t.Errorf("the rules are on the pages %q", tables)
	}
	for page, table := range tables {
		golden.CheckPart(t, "../../../"+page, "<!-- rules -->\n", "<!-- /rules -->\n", "| Code | Problem | Why it matters | What to do |\n| --- | --- | --- | --- |\n"+table)
	}
}
