package truncate

import (
	"slices"
	"testing"
)

func TestList(t *testing.T) {
	items := []string{"a", "b", "c", "d"}
	for most, want := range map[int][]string{2: {"a", "b", "2 more"}, 3: {"a", "b", "c", "1 more"}, 4: items, 5: items} {
		if got := List(items, most); !slices.Equal(got, want) {
			t.Errorf("%d: %q, want %q", most, got, want)
		}
	}
	if !slices.Equal(items, []string{"a", "b", "c", "d"}) {
		t.Errorf("the list is now %q", items)
	}
}
