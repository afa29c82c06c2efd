package inspect

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/liggitt/tabwriter"
)

// Table prints rows as kubectl prints objects. It keeps the columns' widths from one
// Print to the next, for a watch.
type Table struct {
	Namespaces bool // print the namespace
	Wide       bool
	NoHeaders  bool

	out     *tabwriter.Writer
	printed bool
}

// Print writes rows to w, which must be the same in each call.
func (t *Table) Print(w io.Writer, rows []Attachment) error {
	if t.out == nil {
		t.out = tabwriter.NewWriter(w, 6, 4, 3, ' ', tabwriter.RememberWidths)
	}
	if !t.printed && !t.NoHeaders {
		t.line(t.cells(header))
	}
	t.printed = true
	for _, a := range rows {
		t.line(t.cells(cellsOf(a)))
	}
	if err := t.out.Flush(); err != nil {
		return fmt.Errorf("writing the table: %w", err)
	}
	return nil
}

// line writes a row. Flush returns its error.
func (t *Table) line(cells []string) { _, _ = fmt.Fprintln(t.out, strings.Join(cells, "\t")) }

// row has the cells that a line can have.
type row struct {
	namespace   string
	always      [6]string
	wide        [5]string
	wideMessage string
}

var header = row{
	namespace: "NAMESPACE",
	always:    [6]string{"POD", "INTERFACE", "NETWORK", "STATE", "IPS", "NODE"},
	wide:      [5]string{"MAC", "DEVICE", "POOL", "CLAIM", "REQUEST"}, wideMessage: "MESSAGE",
}

func cellsOf(a Attachment) row {
	network := ""
	if a.Network != nil {
		network = a.Network.String()
	}
	r := row{
		namespace:   a.Namespace,
		always:      [6]string{a.Pod, a.Interface, network, string(a.State), strings.Join(a.IPs, ","), a.Node},
		wide:        [5]string{a.MAC, a.Device, a.Pool, a.Claim, a.Request},
		wideMessage: cmp.Or(a.text(), "-"),
	}
	for _, cells := range [][]string{r.always[:], r.wide[:]} {
		for i, c := range cells {
			cells[i] = cmp.Or(c, "-")
		}
	}
	return r
}

// text returns reason, message and notes on one line.
func (a Attachment) text() string {
	text := a.Reason
	if a.Message != "" {
		text = strings.TrimPrefix(text+": "+a.Message, ": ")
	}
	all := strings.Join(append([]string{text}, a.Notes...), "; ")
	return strings.Join(strings.Fields(strings.TrimPrefix(all, "; ")), " ")
}

func (t *Table) cells(r row) []string {
	var out []string
	if t.Namespaces {
		out = append(out, r.namespace)
	}
	out = append(out, r.always[:]...)
	if t.Wide {
		out = append(append(out, r.wide[:]...), r.wideMessage)
	}
	return out
}
