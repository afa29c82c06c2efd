package doctor

import (
	"fmt"
	"slices"
	"strings"
)

// Status is the outcome of a check.
type Status string

// The outcomes, the mildest first. Unknown is neither good nor bad: it says
// what it would take to know.
const (
	OK      Status = "ok"
	Note    Status = "note"
	Unknown Status = "unknown"
	Warning Status = "warning"
	Blocker Status = "blocker"
)

// Areas of checks, in the order of the report.
const (
	AreaCluster = "cluster"
	AreaNode    = "node"
	AreaMultus  = "multus"
	AreaPods    = "pods"
	AreaIPAM    = "ipam"
)

// Check is one thing that was looked at.
type Check struct {
	// ID names the check for good.
	ID   string `json:"id"`
	Area string `json:"area"`
	// Object is what it is about, where that is one of several: a node.
	Object string `json:"object,omitempty"`
	Status Status `json:"status"`
	// What is what was seen.
	What string `json:"what"`
	// Why is why it matters; empty where all is well.
	Why string `json:"why,omitempty"`
	// Do is what to do; empty where nothing is.
	Do string `json:"do,omitempty"`
}

// rule is one check: of the cluster, or of each node.
type rule struct {
	id, area string
	// why is why it matters.
	why     string
	cluster func(*Capabilities) finding
	node    func(*Capabilities, *Node) finding
}

// NothingToDo is what to do where a check only says how things are.
const NothingToDo = "Nothing needs to be done."

// finding is what a rule says.
type finding struct {
	status   Status
	what, do string
	// skip says that there is nothing to say.
	skip bool
}

var nothing = finding{skip: true}

func fine(format string, args ...any) finding {
	return finding{status: OK, what: fmt.Sprintf(format, args...)}
}

func says(status Status, do, format string, args ...any) finding {
	return finding{status: status, do: do, what: fmt.Sprintf(format, args...)}
}

// unread is the finding for what was not read.
func unread(g *Gap) finding {
	return finding{status: Unknown, what: g.Reason, do: g.Remedy}
}

// Diagnose holds all checks against what was read, in the order of the areas.
func Diagnose(c Capabilities) []Check {
	var out []Check
	for _, r := range rules {
		if r.cluster != nil {
			out = r.appendTo(out, "", r.cluster(&c))
			continue
		}
		for i := range c.Nodes {
			out = r.appendTo(out, c.Nodes[i].Name, r.node(&c, &c.Nodes[i]))
		}
	}
	return out
}

func (r rule) appendTo(checks []Check, object string, f finding) []Check {
	if f.skip {
		return checks
	}
	check := Check{ID: r.id, Area: r.area, Object: object, Status: f.status, What: f.what, Do: f.do}
	if f.status != OK {
		check.Why = r.why
	}
	return append(checks, check)
}

// sortedSet has each once.
func sortedSet(items []string) []string {
	slices.Sort(items)
	return slices.Compact(items)
}

// list is some names in a sentence.
func list(names []string) string {
	const most = 6
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// count is a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
