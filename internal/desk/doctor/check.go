package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nadra-dev/nadra/internal/words"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// Severities of checks that found nothing. A check that is Unknown describes what it needs.
const (
	OK      translate.Severity = "ok"
	Unknown translate.Severity = "unknown"

	blocker, warning, info = translate.Blocker, translate.Warning, translate.Info
)

// Check is the result of a check. Its title names the check; Why and Fix are empty if it is OK.
type Check = translate.Finding

// rule is one check, either of the cluster, of each node, or of each of some other objects.
type rule struct {
	code    translate.Code
	name    string             // a name never changes
	worst   translate.Severity // that it may have
	why     string             // the reason for the check
	needs   []string           // the parts without which it is unknown
	cluster func(*Capabilities) result
	node    func(*Capabilities, *Node) result
	objects func(*Capabilities) []aboutObject
}

// aboutObject is a result about an object, or about none.
type aboutObject struct {
	object translate.ObjectRef
	result
}

// result is the result of a rule.
type result struct {
	severity translate.Severity
	what, do string
	skip     bool // the rule does not apply
}

var nothing = result{skip: true}

// fine returns the result of a check that passes.
func fine(format string, args ...any) result {
	return result{severity: OK, what: fmt.Sprintf(format, args...)}
}

// found returns a result with a remedy.
func found(severity translate.Severity, do, format string, args ...any) result {
	return result{severity: severity, do: do, what: fmt.Sprintf(format, args...)}
}

// unread returns the result for a part that could not be read.
func unread(g *Gap) result {
	return result{severity: Unknown, what: g.Reason, do: g.Remedy}
}

// Rules returns the rules of all checks, sorted by code.
func Rules() []translate.Rule {
	var out []translate.Rule
	for _, r := range rules {
		out = append(out, r.rule())
	}
	return out
}

func (r rule) rule() translate.Rule {
	return translate.Rule{Code: r.code, Severity: r.worst, Title: r.name, Why: r.why}
}

// Diagnose runs all checks. It returns their results in the order of the codes.
func Diagnose(c Capabilities) []Check {
	var out []Check
	for _, r := range rules {
		switch {
		case r.cluster != nil:
			out = r.appendTo(out, translate.ObjectRef{}, r.ofCluster(&c))
			continue
		case r.objects != nil:
			for _, f := range r.objects(&c) {
				out = r.appendTo(out, f.object, f.result)
			}
			continue
		}
		for i := range c.Nodes {
			if n := &c.Nodes[i]; n.OS == "" || n.OS == "linux" { // the driver runs on no other
				out = r.appendTo(out, translate.ObjectRef{Kind: "Node", Name: n.Name}, r.ofNode(&c, n))
			}
		}
	}
	return out
}

// ofCluster returns the result about the cluster.
func (r rule) ofCluster(c *Capabilities) result {
	for _, part := range r.needs {
		if c.gap(part, "") != nil {
			return missing(c, part, "")
		}
	}
	return r.cluster(c)
}

// ofNode returns the result about a node.
func (r rule) ofNode(c *Capabilities, n *Node) result {
	unread := map[string]bool{PartNetworks: c.gap(PartNetworks, "") != nil, PartConfig: n.Config == nil, PartProbe: n.Probe == nil}
	for _, part := range r.needs {
		if unread[part] {
			return missing(c, part, n.Name)
		}
	}
	return r.node(c, n)
}

// appendTo appends the check of a result, unless the rule does not apply.
func (r rule) appendTo(checks []Check, object translate.ObjectRef, f result) []Check {
	if f.skip {
		return checks
	}
	check := translate.Finding{Code: r.code, Severity: f.severity, Object: object, Message: f.what}.WithRule(r.rule())
	check.Fix = f.do
	if f.severity == OK {
		check.Why = ""
	}
	return append(checks, check)
}

// sortedSet sorts items and removes duplicates.
func sortedSet(items []string) []string {
	slices.Sort(items)
	return slices.Compact(items)
}

// list joins names for a sentence, and counts those after the sixth.
func list(names []string) string { return strings.Join(words.ShortList(names, 6), ", ") }
