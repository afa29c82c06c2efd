package admission

import (
	"fmt"

	"github.com/nadra-dev/nadra/pkg/translate"
)

// unserved reports whether all blocking findings are about what nadra leaves to Multus: pools that nothing serves,
// and virtual machines if an option says so.
func (a admitted) unserved(findings []translate.Finding) bool {
	found := false
	for _, f := range findings {
		if f.Severity == translate.Blocker && !leavable(f.Code) {
			return false
		}
		found = found || leavable(f.Code)
	}
	return found
}

// leaveUnserved leaves a pod to Multus, which starts it as it would without nadra. A claim would stay
// pending forever. It refuses the pod if all nodes are nadra's, or if the pod must run on one of them.
func (a admitted) leaveUnserved(findings []translate.Finding) Decision {
	var warned []string
	for _, f := range findings {
		if leavable(f.Code) {
			warned = append(warned, shortened(fmt.Sprintf("%s: not converted, and kept off nadra's nodes: %s", f.Code, f.Message), maxWarning))
		}
	}
	forNadra := a.server.Node != "" || a.server.Labelled
	if forNadra || a.lookups.MultusNodes == nil || !a.lookups.MultusNodes() {
		return Decision{Outcome: Refused, Refusal: a.refusal(a.blockers(findings))}
	}
	return Decision{Outcome: OnMultus, Edits: keepAway(a.pod), Warnings: warned[:min(len(warned), maxWarnings)]}
}

// leavable reports whether a pod with a finding is left to Multus and not refused.
func leavable(c translate.Code) bool {
	return c == translate.PoolUnserved || c == translate.VirtualMachines
}
