package snapshot

import (
	"testing"

	"github.com/nadra-dev/nadra/internal/desk/inspect"
)

// TestSystemOf checks who counts as the one that has attached a network.
func TestSystemOf(t *testing.T) {
	for want, rows := range map[System][]inspect.Attachment{
		Nadra:  {{State: inspect.Attached, Claim: "a"}, {State: inspect.Failed, Claim: "a"}, {State: inspect.Attached}},
		Multus: {{State: inspect.Multus}},
		"":     {{State: inspect.Waiting}, {State: inspect.Unserved}},
	} {
		for _, r := range rows {
			if got := systemOf(r); got != want {
				t.Errorf("%s with claim %q: %q, want %q", r.State, r.Claim, got, want)
			}
		}
	}
}
