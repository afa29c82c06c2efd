package inspect

import (
	"reflect"
	"slices"
)

// Changes finds the rows of a watch that have changed.
type Changes struct {
	// Narrow ignores changes of cells that a narrow table does not show.
	Narrow bool

	known map[string]Attachment
	order []string
}

func (c *Changes) same(a, b Attachment) bool {
	if c.Narrow {
		return slices.Equal(cellsOf(a).always, cellsOf(b).always)
	}
	return reflect.DeepEqual(a, b)
}

// Next returns the rows that are new or changed since the last call, and those that no
// longer exist, with state Gone.
func (c *Changes) Next(rows []Attachment) []Attachment {
	known := make(map[string]Attachment, len(rows))
	var changed []Attachment
	var order []string
	for _, a := range rows {
		known[a.key] = a
		order = append(order, a.key)
		if before, there := c.known[a.key]; !there || !c.same(before, a) {
			changed = append(changed, a)
		}
	}
	for _, key := range c.order {
		if _, there := known[key]; !there {
			a := c.known[key]
			a.State, a.Reason, a.Message, a.Notes = Gone, "", "", nil
			changed = append(changed, a)
		}
	}
	c.known, c.order = known, order
	return changed
}
