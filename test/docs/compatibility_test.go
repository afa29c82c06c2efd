package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// sections lists the sections of docs/reference/compatibility.md with the first and the last
// number of each. Those of A are the standard's numbers.
var sections = map[string][2]int{
	"A1": {1, 9}, "A2": {10, 28}, "A3": {29, 43}, "A4": {44, 53}, "A5": {54, 65}, "A6": {66, 70},
	"B1": {1, 18}, "B2": {1, 4}, "B3": {1, 7}, "B4": {1, 9}, "B5": {1, 11}, "B6": {1, 5}, "B7": {1, 4},
	"B8": {1, 3}, "B9": {1, 7}, "B10": {1, 6}, "B11": {1, 5},
	"D2": {1, 9},
}

// verdicts lists what nadra can do with a behaviour of Multus.
var verdicts = []string{"same", "better", "different", "not supported", "not ours"}

// TestCompatibilityIsComplete checks that docs/reference/compatibility.md has one row for every
// behaviour, with a verdict and, unless it is "same", a reason.
func TestCompatibilityIsComplete(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "reference", "compatibility.md"))
	if err != nil {
		t.Fatal(err)
	}
	// The last section repeats rows of the others for a newer Multus.
	own, _, _ := strings.Cut(string(page), "\n## Newer Multus\n")
	rows := map[string][]string{}
	for _, m := range regexp.MustCompile(`(?m)^\| ([ABD]\d+\S*) \|(.*)\|$`).FindAllStringSubmatch(own, -1) {
		if rows[m[1]] != nil {
			t.Errorf("%s has two rows", m[1])
		}
		rows[m[1]] = strings.Split(m[2], "|")
	}
	for section, numbers := range sections {
		for n := numbers[0]; n <= numbers[1]; n++ {
			if number := fmt.Sprintf("%s-%d", section, n); rows[number] == nil {
				t.Errorf("%s has no row", number)
			}
		}
	}
	if rows["B12"] == nil {
		t.Error("B12 has no row")
	}
	for number, cells := range rows {
		if len(cells) != 4 {
			t.Errorf("%s has %d cells beside its number, not 4", number, len(cells))
			continue
		}
		verdict, why := strings.TrimSpace(cells[1]), strings.TrimSpace(cells[2])
		if !slices.Contains(verdicts, verdict) {
			t.Errorf("%s: %q is no verdict", number, verdict)
		}
		if why == "" && slices.Contains(verdicts[1:4], verdict) {
			t.Errorf("%s is %q without a reason", number, verdict)
		}
	}
}
