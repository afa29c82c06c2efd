package words

import (
	"slices"
	"testing"
)

func TestCount(t *testing.T) {
	for noun, want := range map[string]string{"pod": "2 pods", "day": "2 days", "address": "2 addresses", "MultiNetworkPolicy": "2 MultiNetworkPolicies"} {
		if one, two := Count(1, noun), Count(2, noun); one != "1 "+noun || two != want {
			t.Errorf("%q and %q, want %q", one, two, want)
		}
	}
}

func TestShortList(t *testing.T) {
	items := []string{"a", "b", "c", "d"}
	for most, want := range map[int][]string{2: {"a", "b", "2 more"}, 3: {"a", "b", "c", "1 more"}, 4: items, 5: items} {
		if got := ShortList(items, most); !slices.Equal(got, want) {
			t.Errorf("%d: %q, want %q", most, got, want)
		}
	}
	if !slices.Equal(items, []string{"a", "b", "c", "d"}) {
		t.Errorf("the list is now %q", items)
	}
}

func TestBuffer(t *testing.T) {
	b := Buffer{Limit: 5}
	for _, text := range []string{"abc", "", "de"} {
		if n, err := b.Write([]byte(text)); n != len(text) || err != nil || b.Cut {
			t.Fatalf("%q: %d, %v, cut %t", text, n, err, b.Cut)
		}
	}
	for range 2 {
		if n, err := b.Write([]byte("fgh")); n != 3 || err != nil || !b.Cut || string(b.Kept) != "abcde" {
			t.Errorf("%d, %v, cut %t, %q", n, err, b.Cut, b.Kept)
		}
	}
}
