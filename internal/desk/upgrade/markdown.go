package upgrade

import (
	"fmt"
	"strings"
)

// Markdown returns a plan as a page for the change ticket.
func (p *Plan) Markdown() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "# Move from Multus to nadra")
	if p.Source != "" {
		fmt.Fprintf(&b, ": %s", escape(p.Source))
	}
	s := p.Summary
	fmt.Fprintf(&b, "\n\n%s.\n", s)
	p.findingTable(&b)
	p.waveTables(&b)
	p.leftTables(&b)
	if p.BesideMultus {
		b.WriteString("\nRollback: `kubectl nadra upgrade rollback -n NAMESPACE` or `--all`, at any time.\n")
		return []byte(b.String())
	}
	b.WriteString("\nRollback: `kubectl nadra upgrade rollback --node NODE`, `-n NAMESPACE` or `--all`, at any time.\n")
	return []byte(b.String())
}

func (p *Plan) findingTable(b *strings.Builder) {
	if len(p.Findings) == 0 {
		return
	}
	b.WriteString("\n## Blockers and warnings\n\n| Severity | Code | Object | Problem | What to do |\n| --- | --- | --- | --- | --- |\n")
	for _, one := range p.Findings {
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s |\n", one.Severity, one.Code, escape(one.Object.String()), escape(one.Message), escape(one.Fix))
	}
}

func (p *Plan) waveTables(b *strings.Builder) {
	for _, w := range p.Waves {
		fmt.Fprintf(b, "\n## %s", escape(w.Name))
		if w.Domain != "" {
			fmt.Fprintf(b, " (%s)", escape(w.Domain))
		}
		b.WriteString("\n\n")
		if p.BesideMultus {
			rolloutTable(b, w)
			continue
		}
		if len(w.Namespaces) > 0 {
			fmt.Fprintf(b, "Namespaces that nadra serves from here on: %s.\n\n", escape(strings.Join(w.Namespaces, ", ")))
		}
		b.WriteString("| Node | Pods that stay |\n| --- | --- |\n")
		for _, n := range w.Nodes {
			fmt.Fprintf(b, "| %s | %s |\n", escape(n.Name), escape(listedPods(n.Adopts)))
		}
	}
}

// rolloutTable lists the namespaces of a wave beside Multus, with the commands that move each by hand.
func rolloutTable(b *strings.Builder, w Wave) {
	b.WriteString("| Namespace | Restarted by a rollout | At their next start |\n| --- | --- | --- |\n")
	for _, s := range w.Rollouts {
		fmt.Fprintf(b, "| %s | %s | %s |\n", escape(s.Name), escape(listedPods(s.Restarts)), escape(listedPods(s.Later)))
	}
	b.WriteString("\nBy hand:\n\n```sh\n")
	for _, s := range w.Rollouts {
		for _, line := range s.Commands() {
			b.WriteString(line + "\n")
		}
	}
	b.WriteString("```\n")
}

// Commands returns the commands of kubectl that move the namespace.
func (s namespaceShare) Commands() []string {
	out := []string{"kubectl label namespace " + s.Name + " nadra.dev/owner=nadra --overwrite"}
	for _, w := range s.Restarts {
		name := strings.ToLower(w.Kind) + "/" + w.Name
		out = append(out, "kubectl -n "+s.Name+" rollout restart "+name, "kubectl -n "+s.Name+" rollout status "+name)
	}
	return out
}

// listedPods lists workloads with the numbers of their pods.
func listedPods(all []WorkloadPods) string {
	out := make([]string, len(all))
	for i, w := range all {
		out[i] = fmt.Sprintf("%s (%d)", w.Workload, w.Pods)
	}
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, ", ")
}

func (p *Plan) leftTables(b *strings.Builder) {
	if len(p.Left) > 0 {
		b.WriteString("\n## Nodes that stay with Multus\n\n| Node | Why |\n| --- | --- |\n")
	}
	for _, l := range p.Left {
		fmt.Fprintf(b, "| %s | %s |\n", escape(l.Name), escape(l.Why))
	}
	if len(p.Stays) > 0 {
		b.WriteString("\n## Workloads that stay with Multus\n\n| Workload | Findings |\n| --- | --- |\n")
	}
	for _, s := range p.Stays {
		fmt.Fprintf(b, "| %s | %s |\n", escape(s.Workload.String()), escape(strings.Join(s.Codes, ", ")))
	}
}

// escape keeps text within a table cell.
func escape(s string) string {
	return strings.NewReplacer("|", "\\|", "\n", " ", "\r", " ", "<", "&lt;").Replace(s)
}
