package upgrade

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// Needs returns what still needs Multus. configured are, by node, the configurations
// of Multus that container runtimes have.
func Needs(f Facts, configured map[string][]string) []translate.Finding {
	var out []translate.Finding
	for _, n := range f.Nodes {
		if n.Linux && !n.Nadra {
			out = append(out, problem(codeNodeOfMultus, blocker, ref("Node", "", n.Name), "Multus serves it", "Plan and run the upgrade for it, or remove it from the cluster."))
		}
	}
	for _, p := range f.Pods {
		if !p.Nadra && !f.isNadra(p.Node) { // adopted ones stay
			out = append(out, problem(CodePodOfMultus, blocker, ref("Pod", p.Namespace, p.Name), "Multus attached its networks", "Recreate it on a node that nadra serves."))
		}
	}
	for _, node := range slices.Sorted(maps.Keys(configured)) {
		if files := configured[node]; len(files) > 0 {
			out = append(out, problem(
				codeConfigured, blocker, ref("Node", "", node), "its container runtime has Multus' configuration: "+strings.Join(files, ", "),
				"Move it away: run kubectl nadra upgrade rollback --node "+node+" and kubectl nadra upgrade run, or change how the node is managed.",
			))
		}
	}
	if f.DefaultOwner != v1alpha1.OwnerNadra {
		out = append(out, problem(
			CodeDefault, blocker, noObject, "pods without an owner label are left to Multus, and would stay Pending",
			"Run nadra-controller with --default-owner=nadra.",
		))
	}
	for _, ns := range slices.Sorted(maps.Keys(f.Owners)) {
		if f.Owners[ns] == v1alpha1.OwnerMultus {
			out = append(out, problem(codePinned, blocker, ref("Namespace", "", ns), "its label leaves it to Multus", "Remove the label nadra.dev/owner."))
		}
	}
	for _, s := range f.Stays {
		out = append(out, problem(
			codeStays, blocker, s.Workload.ref(), fmt.Sprintf("nadra cannot serve it (%s)", cmp.Or(strings.Join(s.Codes, ", "), "see scan")),
			"Correct what blocks it: kubectl nadra explain "+firstOf(s.Codes)+".",
		))
	}
	return out
}
