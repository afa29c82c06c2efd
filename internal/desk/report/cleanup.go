package report

import (
	"fmt"
	"strings"

	"github.com/nadra-dev/nadra/internal/desk/cleanup"
	"github.com/nadra-dev/nadra/internal/probe"
	"github.com/nadra-dev/nadra/internal/words"
)

// writeCleanupTable writes a row for each orphan, and the totals.
func writeCleanupTable(s *sheet, r cleanup.Report) {
	freed, reported := 0, 0
	table(s, "NODE\tKIND\tOBJECT\tHOLDS\tPOD\tACTION\tWHY", r.Orphans, func(o probe.Orphan) []string {
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
		return []string{o.Node, string(o.Kind), s.place(o), o.Address, o.Pod, action, why}
	})
	s.found(r.Findings)
	s.gap()
	line := fmt.Sprintf("%s on %s and in the cluster", words.Count(len(r.Orphans), "orphan"), words.Count(r.Nodes, "node"))
	if freed+r.Failed() > 0 {
		line += fmt.Sprintf(": %d freed, %d failed, %d reported only", freed, r.Failed(), reported)
	} else if reported > 0 {
		line += fmt.Sprintf(", %d of them reported only", reported)
	}
	s.println(line + ".")
	if r.Kept > 0 {
		s.printf("Kept %s of sandboxes that no runtime lists: younger than --older-than, or perhaps still used, by a record, a network namespace or an address.", words.Count(r.Kept, "object"))
	}
}

// place returns the place of an orphan: on a terminal with the first digits of the sandbox's ID, which tell it from others.
func (s *sheet) place(o probe.Orphan) string {
	const digits = 12
	if s.width == 0 || len(o.Sandbox) <= digits {
		return o.Object
	}
	return strings.Replace(o.Object, o.Sandbox, o.Sandbox[:digits]+"…", 1)
}
