package admission

import (
	"fmt"

	"github.com/nadra-dev/nadra/internal/words"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// unserved reports whether all blocking findings are about what nadra leaves to Multus.
func (a admitted) unserved(findings []translate.Finding) bool {
	found := false
	for _, f := range findings {
		if f.Severity == translate.Blocker && !a.leavable(f) {
			return false
		}
		found = found || a.leavable(f)
	}
	return found
}

// leavable reports whether a pod with a finding is left to Multus, which can serve it, and not refused:
// one of a pool that nothing serves, or, beside Multus, that is left to a device plugin; and one of a
// virtual machine, if an option says so.
func (a admitted) leavable(f translate.Finding) bool {
	return f.Code == translate.PoolUnserved || f.Code == translate.VirtualMachines || a.options.BesideMultus && f.Code == translate.PoolsNotServedUser
}

// leaveUnserved leaves a pod to Multus, which starts it as it would without nadra. A claim would stay
// pending forever. It refuses the pod if all nodes are nadra's, or if the pod must run on one of them.
func (a admitted) leaveUnserved(findings []translate.Finding) Decision {
	kept, warned := "not converted, and kept off nadra's nodes", []string(nil)
	if a.options.BesideMultus {
		kept = "left to Multus"
	}
	for _, f := range findings {
		if a.leavable(f) {
			warned = append(warned, words.Short(fmt.Sprintf("%s: %s: %s", f.Code, kept, f.Message), maxWarning))
		}
	}
	forNadra := a.server.Node != "" || a.server.Labelled
	// MultusNodes reads all nodes, so it comes last.
	if forNadra || !a.options.BesideMultus && (a.lookups.MultusNodes == nil || !a.lookups.MultusNodes()) {
		return Decision{Outcome: Refused, Refusal: a.refusal(a.blockers(findings))}
	}
	d := a.keepOff()
	d.Warnings = warned[:min(len(warned), maxWarnings)]
	return d
}
