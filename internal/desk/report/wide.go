package report

import (
	"strings"

	"github.com/nadra-dev/nadra/pkg/translate"
)

// writeWide writes what the table leaves out, too, and shortens nothing.
func writeWide(s *sheet, r *Report) {
	s.width = 0
	table(s, "NAMESPACE\tWORKLOAD\tNETWORKS\tFEATURES\tVERDICT\tFINDINGS\tPLACE", r.Workloads, func(one Workload) []string {
		return []string{
			one.Object.Namespace, withPods(short(one.Object), one.Pods), strings.Join(one.Networks, ","), strings.Join(one.Features, ","),
			string(one.Readiness), strings.Join(worstFirst(one.Codes), ","), one.Position.String(),
		}
	})
	table(s, "NAMESPACE\tNETWORK\tPLUGINS\tIPAM\tPOOL\tCLASS\tVERDICT\tFINDINGS\tUSERS", r.Networks, func(one Network) []string {
		return []string{
			one.Object.Namespace, one.Object.Name, strings.Join(one.Plugins, ","), one.IPAM, one.Pool, one.Class,
			string(one.Readiness), strings.Join(worstFirst(one.Codes), ","), strings.Join(userNames(one), ","),
		}
	})
	s.findings(groups(r.Findings))
	s.legend(r.Findings)
	s.totals(r)
}

// folded is how many findings of one code the wide table has; -o json has all.
const folded = 20

// findings writes findings like a compiler's errors, so that editors find the place, the worst codes first.
func (s *sheet) findings(all []group) {
	for i, g := range all {
		if i == 0 {
			s.gap()
		}
		for _, f := range g.findings[:min(folded, len(g.findings))] {
			s.println(Visible(f.String()))
		}
		if more := len(g.findings) - folded; more > 0 {
			s.printf("%s: and %d more (-o json)", Visible(string(g.Code)), more)
		}
	}
}

// userNames returns the users of a network.
func userNames(n Network) []string {
	var out []string
	for _, u := range n.Users {
		out = append(out, userName(n, u))
	}
	return out
}

// userName returns a user's name, with its namespace unless it is the network's.
func userName(n Network, user translate.ObjectRef) string {
	if user.Namespace == n.Object.Namespace {
		return short(user)
	}
	return user.Namespace + "/" + short(user)
}
