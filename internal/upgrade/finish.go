package upgrade

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// Needs says what still needs Multus; nothing does if it says nothing. configured
// are, by node, the configurations of Multus that container runtimes have.
func Needs(f Facts, configured map[string][]string) []Problem {
	var out []Problem
	for _, n := range f.Nodes {
		if n.Linux && !n.Nadra {
			out = append(out, Problem{CodeNodeOfMultus, Blocker, "Node " + n.Name, "it is Multus'", "Plan and run the upgrade for it, or take it out of the cluster."})
		}
	}
	for _, p := range f.Pods {
		if !p.Nadra {
			out = append(out, Problem{CodePodOfMultus, Blocker, "Pod " + p.String(), "Multus has attached its networks", "Have it made anew on one of nadra's nodes."})
		}
	}
	for _, node := range slices.Sorted(maps.Keys(configured)) {
		if files := configured[node]; len(files) > 0 {
			out = append(out, Problem{
				CodeConfigured, Blocker, "Node " + node, "its runtime has Multus' configuration: " + strings.Join(files, ", "),
				"kubectl nadra upgrade rollback --node, and run again, move it away; so does who manages the node.",
			})
		}
	}
	if f.DefaultOwner != v1alpha1.OwnerNadra {
		out = append(out, Problem{
			CodeDefault, Blocker, "", "pods that no label decides about are left to Multus, and would be pending for ever",
			"Run nadra-controller with --default-owner=nadra.",
		})
	}
	for _, ns := range slices.Sorted(maps.Keys(f.Owners)) {
		if f.Owners[ns] == v1alpha1.OwnerMultus {
			out = append(out, Problem{CodePinned, Blocker, "Namespace " + ns, "its label leaves it to Multus", "Remove the label nadra.dev/owner."})
		}
	}
	for _, s := range f.Stays {
		out = append(out, Problem{
			CodeStays, Blocker, s.Workload.String(), fmt.Sprintf("nadra cannot serve it (%s)", cmp.Or(strings.Join(s.Codes, ", "), "see scan")),
			"Correct what blocks it: kubectl nadra explain " + firstOf(s.Codes) + ".",
		})
	}
	return out
}
