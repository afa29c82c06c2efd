package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/nadra-dev/nadra/internal/desk/cleanup"
	"github.com/nadra-dev/nadra/internal/probe"
)

// writeCleanupTable writes a row for each orphan, and the totals.
func writeCleanupTable(w io.Writer, r cleanup.Report) error {
	s := sheet{w: w}
	freed, reported := 0, 0
	s.table("NODE\tKIND\tOBJECT\tHOLDS\tPOD\tACTION\tWHY", len(r.Orphans), func(i int) []string {
		o := r.Orphans[i]
		action, why := string(o.Action), o.Why
		switch {
		case o.Done:
			action += ": done"
			freed++
		case o.Error != "":
			action, why = action+": failed", o.Error
		case o.Action == probe.ActionNone:
			reported++
		}
		return []string{o.Node, string(o.Kind), shortened(o), o.Address, o.Pod, action, why}
	})
	s.table("NODE\tREFUSED", len(r.Refused), func(i int) []string { return []string{r.Refused[i].Node, r.Refused[i].Message} })
	s.table("NODE\tCOULD NOT BE READ", len(r.Errors), func(i int) []string { return []string{r.Errors[i].Node, r.Errors[i].Message} })
	s.gap()
	line := fmt.Sprintf("%s on %s and in the cluster", count(len(r.Orphans), "orphan"), count(r.Nodes, "node"))
	if freed+r.Failed() > 0 {
		line += fmt.Sprintf(": %d freed, %d failed, %d reported only", freed, r.Failed(), reported)
	} else if reported > 0 {
		line += fmt.Sprintf(", %d of them reported only", reported)
	}
	s.println(line + ".")
	if r.Kept > 0 {
		s.println(fmt.Sprintf("Kept %s of sandboxes that no runtime lists: younger than --older-than, or perhaps still used, by a record, a network namespace or an address.", count(r.Kept, "object")))
	}
	return s.err
}

// shortened returns the place of an orphan with the first digits of the sandbox's ID.
func shortened(o probe.Orphan) string {
	const digits = 12
	if len(o.Sandbox) <= digits {
		return o.Object
	}
	return strings.Replace(o.Object, o.Sandbox, o.Sandbox[:digits]+"…", 1)
}
