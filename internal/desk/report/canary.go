package report

import (
	"fmt"
	"strings"

	"github.com/nadra-dev/nadra/internal/desk/canary"
	"github.com/nadra-dev/nadra/internal/words"
)

// podRow is a canary, or a network without one.
type podRow struct {
	network string
	canary.PodReport
}

// podRows returns a row for each canary, and for each network without canaries.
func podRows(r *canary.Report) []podRow {
	var out []podRow
	for _, n := range r.Networks {
		if n.Skipped != "" {
			out = append(out, podRow{n.Network, canary.PodReport{Status: canary.Skipped}})
		}
		for _, p := range n.Pods {
			out = append(out, podRow{n.Network, p})
		}
	}
	return out
}

// writeCanaryTable writes the canaries, who reaches whom, the findings, and the totals.
func writeCanaryTable(s *sheet, r *canary.Report) {
	table(s, "NETWORK\tNODE\tCANARY\tINTERFACE\tADDRESSES\tBY\tREADY AFTER", podRows(r), func(p podRow) []string {
		ready := ""
		if p.ReadyMillis > 0 {
			ready = trip(p.ReadyMillis * 1000)
		}
		return []string{cut(p.network), cut(p.Node), string(p.Status), cut(p.Interface), cut(strings.Join(p.IPs, ",")), string(p.By), ready}
	})
	for i := range r.Networks {
		s.matrix(&r.Networks[i])
	}
	s.found(r.Findings)
	s.gap()
	for _, line := range canaryOutcome(r) {
		s.println(line)
	}
	s.help(r.Findings)
}

// widest limits the canaries in a matrix.
const widest = 12

// matrix writes the round trips between all canaries of a network. It names canaries by
// their nodes, and numbers several on a node.
func (s *sheet) matrix(n *canary.NetworkReport) {
	if len(n.Pings) == 0 || len(n.Pods) > widest {
		return
	}
	names := columns(n.Pods)
	var rows [][]string
	for i, from := range n.Pods {
		row := []string{names[i]}
		for _, to := range n.Pods {
			row = append(row, cell(n.Pings, from.Name, to.Name))
		}
		rows = append(rows, row)
	}
	table(s, cut(n.Network)+"\t"+strings.Join(names, "\t"), rows, func(row []string) []string { return row })
}

// columns returns short names of canaries.
func columns(pods []canary.PodReport) []string {
	on, at := map[string]int{}, map[string]int{}
	for _, p := range pods {
		on[p.Node]++
	}
	var out []string
	for _, p := range pods {
		name := cut(p.Node)
		if on[p.Node] > 1 {
			at[p.Node]++
			name = fmt.Sprintf("%s#%d", name, at[p.Node])
		}
		out = append(out, name)
	}
	return out
}

// cell returns the worst ping from one canary to another.
func cell(pings []canary.PingReport, from, to string) string {
	order := []canary.Status{canary.OK, canary.NotExpected, canary.Lossy, canary.Failed}
	out, worst := "", -1
	for _, p := range pings {
		if p.From != from || p.To != to {
			continue
		}
		for rank, status := range order {
			if p.Status == status && rank > worst {
				worst, out = rank, pingWords(p)
			}
		}
	}
	return out
}

// pingWords returns a ping's result for a cell.
func pingWords(p canary.PingReport) string {
	switch p.Status {
	case canary.OK:
		return trip(p.MedianMicros)
	case canary.Lossy:
		return fmt.Sprintf("%s (%d/%d)", trip(p.MedianMicros), p.Received, p.Sent)
	case canary.NotExpected:
		return "n/a"
	}
	return "FAILED"
}

// trip formats a time.
func trip(micros int64) string {
	switch {
	case micros < 1000:
		return fmt.Sprintf("%dµs", micros)
	case micros < 1000*1000:
		return fmt.Sprintf("%.1fms", float64(micros)/1000)
	}
	return fmt.Sprintf("%.1fs", float64(micros)/1000/1000)
}

// canaryOutcome counts networks, canaries and pings, with a sentence each.
func canaryOutcome(r *canary.Report) []string {
	s := r.Summary
	out := []string{fmt.Sprintf("Tested %d of %s%s: %d of %s ok.", s.Networks-s.Skipped, words.Count(s.Networks, "network"), ofSource(r.Source), s.PodsOK, words.Count(s.Pods, "canary pod"))}
	if s.Pings > 0 {
		line := fmt.Sprintf("%d of %s answered", s.PingsOK, words.Count(s.Pings, "ping"))
		for _, part := range []struct {
			n    int
			text string
		}{{s.Lossy, "lossy"}, {s.NotExpected, "not expected to"}, {s.PingsFailed, "failed"}} {
			if part.n > 0 {
				line += fmt.Sprintf(", %d %s", part.n, part.text)
			}
		}
		out = append(out, line+".")
	}
	return out
}

// ofSource names the cluster.
func ofSource(source string) string {
	if source == "" {
		return ""
	}
	return " of " + Visible(source)
}

// writeCanaryPlanTable writes a row for each network, and the totals.
func writeCanaryPlanTable(s *sheet, p *canary.Plan) {
	table(s, "NETWORK\tPLUGINS\tIPAM\tCANARIES\tADDRESSES\tDEVICES\tNODES", p.Networks, func(n canary.NetworkPlan) []string {
		if n.Skipped != "" {
			return []string{cut(n.Network), cut(strings.Join(n.Plugins, ",")), cut(n.IPAM), "0", "0", "0", "skipped: " + n.Skipped}
		}
		var nodes []string
		for _, c := range n.Pods {
			nodes = append(nodes, c.Node)
		}
		return []string{cut(n.Network), cut(strings.Join(n.Plugins, ",")), cut(n.IPAM), fmt.Sprint(len(n.Pods)), fmt.Sprint(n.Addresses), fmt.Sprint(n.Devices), some(nodes)}
	})
	s.gap()
	s.printf("Would run %s%s, which take %s and %s while they run. Nothing was created.",
		words.Count(p.Pods, "canary pod"), ofSource(p.Source), addresses(p.Addresses), words.Count(p.Devices, "device"))
}

// addresses returns a number of addresses.
func addresses(n int) string {
	if n == 1 {
		return "1 address"
	}
	return fmt.Sprintf("%d addresses", n)
}
