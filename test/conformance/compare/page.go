package compare

import (
	"fmt"
	"slices"
	"strings"
)

// Row is one behaviour on the page docs/reference/compatibility.md.
type Row struct {
	Number string
	// Verdict compares nadra with Multus: "same", "better", "different", "not supported".
	Verdict string
	// Shown is set if this suite shows the behaviour.
	Shown bool
}

// differs reports whether the row admits a difference.
func (r Row) differs() bool {
	return slices.Contains([]string{"better", "different", "not supported"}, r.Verdict)
}

// The headers of the tables on the page: of the version of Multus that the page describes,
// and of the behaviours that a newer commit has changed.
const (
	header      = "| no | behaviour | nadra | how or why | shown by |"
	newerHeader = "| no | newer behaviour | nadra | changed by | shown by |"
)

// Page returns the rows of all tables that describe the page's own version of Multus, by
// number.
func Page(text string) (map[string]Row, error) { return tables(text, header) }

// NewerPage returns the rows for the newer Multus of the page: those of Page, some of which
// the page replaces. A row of the suite's own that the page does not replace must hold for
// both.
func NewerPage(text string) (map[string]Row, error) {
	out, err := Page(text)
	if err != nil {
		return nil, err
	}
	newer, err := tables(text, newerHeader)
	if err != nil {
		return nil, err
	}
	for number, row := range newer {
		if _, ok := out[number]; !ok {
			return nil, fmt.Errorf("reading docs/reference/compatibility.md: a newer Multus changes %s, which has no row", number)
		}
		out[number] = row
	}
	return out, nil
}

// tables returns the rows of all tables with a header, by number.
func tables(text, header string) (map[string]Row, error) {
	out := map[string]Row{}
	inTable := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case line == header:
			inTable = true
			continue
		case !strings.HasPrefix(line, "|"):
			inTable = false
		}
		if !inTable || strings.HasPrefix(line, "| ---") || strings.HasPrefix(line, "|---") {
			continue
		}
		row, err := readRow(line)
		if err != nil {
			return nil, err
		}
		if _, twice := out[row.Number]; twice {
			return nil, fmt.Errorf("reading docs/reference/compatibility.md: there are two rows %s", row.Number)
		}
		out[row.Number] = row
	}
	return out, nil
}

func readRow(line string) (Row, error) {
	// A bar within a cell is written \|.
	cells := strings.Split(strings.ReplaceAll(strings.Trim(line, "|"), `\|`, "\x00"), "|")
	if len(cells) != 5 {
		return Row{}, fmt.Errorf("reading docs/reference/compatibility.md: %d cells instead of 5 in %q", len(cells), line)
	}
	return Row{
		Number:  strings.TrimSpace(cells[0]),
		Verdict: strings.TrimSpace(cells[2]),
		Shown:   strings.Contains(cells[4], "conformance"),
	}, nil
}
