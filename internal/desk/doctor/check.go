package doctor

import (
	"fmt"
	"slices"
	"strings"
)

// Status is the outcome of a check.
type Status string

// The outcomes, the mildest first. A check that is Unknown describes what it needs.
const (
	OK      Status = "ok"
	Note    Status = "note"
	Unknown Status = "unknown"
	Warning Status = "warning"
	Blocker Status = "blocker"
)

// Areas of checks, in the order of the report.
const (
	AreaNadra   = "nadra"
	AreaCluster = "cluster"
	AreaNode    = "node"
	AreaMultus  = "multus"
	AreaPods    = "pods"
	AreaIPAM    = "ipam"
)

// Check is the result of a check.
type Check struct {
	// ID names the check. It never changes.
	ID   string `json:"id"`
	Area string `json:"area"`
	// Object is the node or the workload, if the check is about one.
	Object string `json:"object,omitempty"`
	Status Status `json:"status"`
	// What is the observation.
	What string `json:"what"`
	// Why is the reason for the check. It is empty if the check is OK.
	Why string `json:"why,omitempty"`
	// Do is the remedy. It is empty if the check is OK.
	Do string `json:"do,omitempty"`
}

// rule is one check, either of the cluster, of each node, or of each of some other objects.
type rule struct {
	id, area string
	needs    []string // the parts without which it is unknown
	why      string   // the reason for the check
	cluster  func(*Capabilities) finding
	node     func(*Capabilities, *Node) finding
	objects  func(*Capabilities) []aboutObject
}

// aboutObject is a finding about an object.
type aboutObject struct {
	object string
	finding
}

// finding is the result of a rule.
type finding struct {
	status   Status
	what, do string
	skip     bool // the rule does not apply
}

var nothing = finding{skip: true}

// fine returns the finding of a check that passes.
func fine(format string, args ...any) finding {
	return finding{status: OK, what: fmt.Sprintf(format, args...)}
}

// found returns a finding with a remedy.
func found(status Status, do, format string, args ...any) finding {
	return finding{status: status, do: do, what: fmt.Sprintf(format, args...)}
}

// unread returns the finding for a part that could not be read.
func unread(g *Gap) finding {
	return finding{status: Unknown, what: g.Reason, do: g.Remedy}
}

// Diagnose runs all checks. It returns their results in the order of the areas.
func Diagnose(c Capabilities) []Check {
	var out []Check
	for _, r := range rules {
		switch {
		case r.cluster != nil:
			out = r.appendTo(out, "", r.ofCluster(&c))
			continue
		case r.objects != nil:
			for _, f := range r.objects(&c) {
				out = r.appendTo(out, f.object, f.finding)
			}
			continue
		}
		for i := range c.Nodes {
			if n := &c.Nodes[i]; n.OS == "" || n.OS == "linux" { // the driver runs on no other
				out = r.appendTo(out, n.Name, r.ofNode(&c, n))
			}
		}
	}
	return out
}

// ofCluster returns the finding about the cluster.
func (r rule) ofCluster(c *Capabilities) finding {
	for _, part := range r.needs {
		if c.gap(part, "") != nil {
			return missing(c, part, "")
		}
	}
	return r.cluster(c)
}

// ofNode returns the finding about a node.
func (r rule) ofNode(c *Capabilities, n *Node) finding {
	unread := map[string]bool{PartNetworks: c.gap(PartNetworks, "") != nil, PartConfig: n.Config == nil, PartProbe: n.Probe == nil}
	for _, part := range r.needs {
		if unread[part] {
			return missing(c, part, n.Name)
		}
	}
	return r.node(c, n)
}

// appendTo appends the check of a finding, unless the rule does not apply.
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

// sortedSet sorts items and removes duplicates.
func sortedSet(items []string) []string {
	slices.Sort(items)
	return slices.Compact(items)
}

// list joins names for a sentence, and counts those after the sixth.
func list(names []string) string {
	const most = 6
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// count returns a number with its noun.
func count(n int, noun string) string { return plural(n, noun, noun+"s") }

// plural returns a number with its noun, whose plural is irregular.
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
