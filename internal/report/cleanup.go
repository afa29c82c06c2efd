package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/nadra-dev/nadra/internal/cleanup"
)

// cleanupFormats has every form of what is left over.
var cleanupFormats = []form[cleanup.Report]{
	{"table", writeCleanupTable},
	{"json", func(w io.Writer, r cleanup.Report) error { return encodeJSON(w, r) }},
	{"yaml", func(w io.Writer, r cleanup.Report) error { return encodeYAML(w, r) }},
}

// CleanupFormats are the names of the forms that WriteCleanup knows.
func CleanupFormats() []string { return namesOf(cleanupFormats) }

// WriteCleanup writes what is left over, and what became of it, in one of the
// forms.
func WriteCleanup(w io.Writer, format string, r cleanup.Report) error {
	return writeForm(w, "the report", cleanupFormats, format, r)
}

func writeCleanupTable(w io.Writer, r cleanup.Report) error {
	s := sheet{w: w}
	freed, told := 0, 0
	s.table("NODE\tKIND\tOBJECT\tHOLDS\tPOD\tACTION\tWHY", len(r.Orphans), func(i int) []string {
		o := r.Orphans[i]
		action, why := string(o.Action), o.Why
		switch {
		case o.Done:
			action += ": done"
			freed++
		case o.Error != "":
			action, why = action+": failed", o.Error
		case o.Action == cleanup.None:
			told++
		}
		return []string{o.Node, string(o.Kind), shortened(o), o.Address, o.Pod, action, why}
	})
	s.table("NODE\tREFUSED", len(r.Refused), func(i int) []string { return []string{r.Refused[i].Node, r.Refused[i].Message} })
	s.table("NODE\tCOULD NOT BE READ", len(r.Errors), func(i int) []string { return []string{r.Errors[i].Node, r.Errors[i].Message} })
	s.gap()
	line := fmt.Sprintf("%s on %s and in the cluster", count(len(r.Orphans), "orphan"), count(r.Nodes, "node"))
	if freed+r.Failed() > 0 {
		line += fmt.Sprintf(": %d freed, %d failed, %d told only", freed, r.Failed(), told)
	} else if told > 0 {
		line += fmt.Sprintf(", %d of them told only", told)
	}
	s.println(line + ".")
	if r.Kept > 0 {
		s.println(fmt.Sprintf("Left alone, of sandboxes that no runtime knows: %s. Too young, or a record, a network namespace or an address speaks for it.", count(r.Kept, "thing")))
	}
	return s.err
}

// shortened is the place of an orphan with the first digits of the sandbox' ID.
func shortened(o cleanup.Orphan) string {
	const digits = 12
	if len(o.Sandbox) <= digits {
		return o.Object
	}
	return strings.Replace(o.Object, o.Sandbox, o.Sandbox[:digits]+"…", 1)
}
