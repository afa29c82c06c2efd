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
	// Show returns how a value of others is shown. It may be nil.
	Show func(string) string

	out     *tabwriter.Writer
	printed bool
}

// row has the cells that a line can have.
type row struct {
	namespace    string
	always, wide []string
}

// Print writes attachments to w, which must be the same in each call.
func (t *Table) Print(w io.Writer, rows []Attachment) error {
	return write(t, w, row{
		namespace: "NAMESPACE", always: []string{"POD", "INTERFACE", "NETWORK", "STATE", "IPS", "NODE"},
		wide: []string{"MAC", "DEVICE", "POOL", "CLAIM", "REQUEST", "MESSAGE"},
	}, rows, cellsOf)
}

// PrintNetworks writes networks to w.
func (t *Table) PrintNetworks(w io.Writer, networks []Network) error {
	return write(t, w, row{
		namespace: "NAMESPACE", always: []string{"NAME", "PLUGINS", "IPAM", "POOL", "NODES"}, wide: []string{"ID", "CLASS", "OFFERED BY", "MESSAGE"},
	}, networks, func(n Network) row {
		message := n.Problem
		if message == "" && n.ClassMissing {
			message = "the DeviceClass does not exist"
		}
		return row{
			namespace: n.Namespace, always: []string{n.Name, strings.Join(n.Plugins, ","), n.IPAM, n.Pool, fmt.Sprint(len(n.Nodes))},
			wide: []string{n.ID, n.Class, strings.Join(n.Nodes, ","), message},
		}
	})
}

// write writes a row for each item, the first time under a header.
func write[T any](t *Table, w io.Writer, header row, items []T, cells func(T) row) error {
	if t.out == nil {
		t.out = tabwriter.NewWriter(w, 6, 4, 3, ' ', tabwriter.RememberWidths)
	}
	if !t.printed && !t.NoHeaders {
		t.line(header)
	}
	t.printed = true
	for _, item := range items {
		t.line(cells(item))
	}
	if err := t.out.Flush(); err != nil {
		return fmt.Errorf("writing the table: %w", err)
	}
	return nil
}

// line writes a row. Flush returns its error.
func (t *Table) line(r row) {
	cells := r.always
	if t.Namespaces {
		cells = append([]string{r.namespace}, cells...)
	}
	if t.Wide {
		cells = append(cells, r.wide...)
	}
	for i, c := range cells {
		if t.Show != nil {
			c = t.Show(c)
		}
		cells[i] = cmp.Or(c, "-")
	}
	_, _ = fmt.Fprintln(t.out, strings.Join(cells, "\t"))
}

// cellsOf returns the cells of an attachment.
func cellsOf(a Attachment) row {
	network := ""
	if a.Network != nil {
		network = a.Network.String()
	}
	return row{
		namespace: a.Namespace, always: []string{a.Pod, a.Interface, network, string(a.State), strings.Join(a.IPs, ","), a.Node},
		wide: []string{a.MAC, a.Device, a.Pool, a.Claim, a.Request, a.text()},
	}
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
