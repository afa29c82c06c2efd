package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nadra-dev/nadra/internal/desk/canary"
	"github.com/nadra-dev/nadra/internal/words"
)

// writeCanaryTable writes the canaries, who reaches whom, the findings, and the totals.
func writeCanaryTable(s *sheet, r *canary.Report) {
	var rows [][]string
	for _, n := range r.Networks {
		if n.Skipped != "" {
			rows = append(rows, []string{n.Network, "", string(canary.Skipped), "", "", "", ""})
		}
		for _, p := range n.Pods {
			ready := ""
			if p.ReadyMillis > 0 {
				ready = trip(p.ReadyMillis * 1000)
			}
			rows = append(rows, []string{n.Network, p.Node, string(p.Status), p.Interface, strings.Join(p.IPs, ","), string(p.By), ready})
		}
	}
	table(s, "NETWORK\tNODE\tCANARY\tINTERFACE\tADDRESSES\tBY\tREADY AFTER", rows, asItIs)
	for i := range r.Networks {
		s.matrix(&r.Networks[i])
	}
	s.found(r.Findings)
	s.outcome(r)
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
	table(s, Visible(n.Network)+"\t"+strings.Join(names, "\t"), rows, asItIs)
}

// asItIs returns the cells of a row.
func asItIs(cells []string) []string { return cells }

// columns returns short names of canaries.
func columns(pods []canary.PodReport) []string {
	on, at := map[string]int{}, map[string]int{}
	for _, p := range pods {
		on[p.Node]++
	}
	var out []string
	for _, p := range pods {
		name := Visible(p.Node)
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
		if rank := slices.Index(order, p.Status); p.From == from && p.To == to && rank > worst {
			worst, out = rank, pingWords(p)
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

// outcome writes the numbers of networks, canaries and pings, with a sentence each.
func (s *sheet) outcome(r *canary.Report) {
	n := r.Summary
	s.gap()
	s.printf("Tested %d of %s%s: %d of %s ok.", n.Networks-n.Skipped, words.Count(n.Networks, "network"), ofSource(r.Source), n.PodsOK, words.Count(n.Pods, "canary pod"))
	if n.Pings == 0 {
		return
	}
	line := fmt.Sprintf("%d of %s answered", n.PingsOK, words.Count(n.Pings, "ping"))
	for _, part := range []struct {
		n    int
		text string
	}{{n.Lossy, "lossy"}, {n.NotExpected, "not expected to"}, {n.PingsFailed, "failed"}} {
		if part.n > 0 {
			line += fmt.Sprintf(", %d %s", part.n, part.text)
		}
	}
	s.println(line + ".")
}

// writeCanaryPlanTable writes a row for each network, and the totals.
func writeCanaryPlanTable(s *sheet, p *canary.Plan) {
	table(s, "NETWORK\tPLUGINS\tIPAM\tCANARIES\tADDRESSES\tDEVICES\tNODES", p.Networks, func(n canary.NetworkPlan) []string {
		var nodes []string
		for _, c := range n.Pods {
			nodes = append(nodes, c.Node)
		}
		where := some(nodes)
		if n.Skipped != "" {
			where = "skipped: " + n.Skipped
		}
		return []string{n.Network, strings.Join(n.Plugins, ","), n.IPAM, fmt.Sprint(len(n.Pods)), fmt.Sprint(n.Addresses), fmt.Sprint(n.Devices), where}
	})
	s.gap()
	s.printf("Would run %s%s, which take %s and %s while they run. Nothing was created.",
		words.Count(p.Pods, "canary pod"), ofSource(p.Source), words.Count(p.Addresses, "address"), words.Count(p.Devices, "device"))
}
