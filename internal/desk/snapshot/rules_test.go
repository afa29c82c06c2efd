package snapshot

import (
	"testing"

	"github.com/nadra-dev/nadra/test/rulepage"
)

// TestRules compares the rules with their part of the page, and finds each by its code.
func TestRules(t *testing.T) {
	seen := map[Code]bool{}
	for _, r := range rules {
		if seen[r.Code] {
			t.Errorf("%s has two rules", r.Code)
		}
		seen[r.Code] = true
		if got, found := RuleOf(r.Code); !found || got != r {
			t.Errorf("RuleOf(%s) = %v, %v", r.Code, got, found)
		}
	}
	rulepage.Check(t, "snapshot", rules)
}
