package lab

import "testing"

// TestGuidePattern checks what counts as what a page shows.
func TestGuidePattern(t *testing.T) {
	for _, tt := range []struct {
		name, shown, printed string
		want                 bool
	}{
		{"the same", "a  b\n", "a b\n", true},
		{"another word", "a b\n", "a c\n", false},
		{"a part of a line", "pod/web-… created\n", "pod/web-5f-x created\n", true},
		{"any lines", "first\n…\nlast\n", "first\n1\n2\nlast\n", true},
		{"no lines", "first\n…\nlast\n", "first\nlast\n", true},
		{"a line too many", "first\n", "first\nlast\n", false},
		{"a missing line", "first\n…\nlast\n", "first\n", false},
		{"nothing shown", "", "anything\n", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := guidePattern(tt.shown).MatchString(squeeze(tt.printed)); got != tt.want {
				t.Errorf("matches: %t, want %t", got, tt.want)
			}
		})
	}
}
