package cleanup

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nadra-dev/nadra/test/golden"
	"github.com/nadra-dev/nadra/test/rulepage"
)

// TestRules compares the rules with the tables of the pages.
func TestRules(t *testing.T) {
	rulepage.Sorted(t, rules)
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
