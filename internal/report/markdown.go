package report

import (
	"fmt"
	"io"
	"net/url"
	"strings"
)

// writeMarkdown writes a text for a change ticket, in GitHub's Markdown.
func writeMarkdown(w io.Writer, r *Report) error {
	p := page{w: w}
	p.line("# Networks: what moves to DRA, and what stays")
	p.line("")
	for _, sentence := range append([]string{inputSentence(r)}, outcome(r)...) {
		p.line("- " + prose(sentence))
	}
	p.namespaces(r)
	p.workloads(r)
	p.findings(r)
	return p.err
}

// page writes Markdown.
type page struct {
	w   io.Writer
	err error
}

// line writes a line.
func (p *page) line(s string) {
	if p.err == nil {
		_, p.err = io.WriteString(p.w, s+"\n")
	}
}

// heading writes a line between empty lines.
func (p *page) heading(s string) {
	p.line("")
	p.line(s)
	p.line("")
}

// row writes a row of a table.
func (p *page) row(cells ...string) { p.line("| " + strings.Join(cells, " | ") + " |") }

// namespaces writes the verdicts of each namespace.
func (p *page) namespaces(r *Report) {
	if len(r.Namespaces) == 0 {
		return
	}
	p.heading("## Namespaces")
	p.row("Namespace", "Workloads", "Ready", "Ready with notes", "Stays", "Not judged", "Nothing to convert")
	p.row("---", "---:", "---:", "---:", "---:", "---:", "---:")
	for _, n := range r.Namespaces {
		p.row(append([]string{code(n.Name)}, verdictCells(n.Workloads)...)...)
	}
	p.row(append([]string{"**all**"}, verdictCells(r.Summary.Workloads)...)...)
}

// verdictCells returns the counts of verdicts, their sum first.
func verdictCells(v Verdicts) []string {
	var out []string
	for _, n := range []int{v.Total(), v.Ready, v.ReadyNotes, v.Stays, v.NotJudged, v.NothingToConvert} {
		out = append(out, fmt.Sprint(n))
	}
	return out
}

// workloads writes a row for each workload.
func (p *page) workloads(r *Report) {
	if len(r.Workloads) == 0 {
		return
	}
	p.heading("## Workloads")
	p.row("Namespace", "Workload", "Pods", "Networks", "Verdict", "Findings")
	p.row("---", "---", "---:", "---", "---", "---")
	for _, w := range r.Workloads {
		p.row(code(w.Object.Namespace), code(short(w.Object)), number(w.Pods), codes(locals(w)), prose(string(w.Readiness)), prose(strings.Join(worstFirst(w.Codes), ", ")))
	}
}

// findings writes the findings by code.
func (p *page) findings(r *Report) {
	if len(r.Findings) == 0 {
		return
	}
	p.heading("## Findings")
	for i, g := range groups(r.Findings) {
		if i > 0 {
			p.line("")
		}
		p.line(fmt.Sprintf("### %s: %s (%s, %d)", prose(string(g.Code)), prose(g.Title), prose(string(g.Severity)), len(g.findings)))
		p.line("")
		p.explain(g)
		for _, f := range g.findings {
			p.line("- " + item(f))
		}
	}
}

// explain writes the texts of a code's rule.
func (p *page) explain(g group) {
	for _, text := range []string{g.What, g.Why} {
		if text != "" {
			p.line(prose(text))
			p.line("")
		}
	}
	p.line(strings.TrimSpace("**What to do:** "+prose(g.Fix)) + " [" + prose(string(g.Code)) + "](" + docs + address(g.Anchor) + ")")
	p.line("")
}

// item returns a finding below the heading of its code.
func item(f Finding) string {
	out := code(strings.TrimPrefix(f.Object.Namespace+"/"+short(f.Object), "/"))
	if f.Field != "" {
		out += ", " + code(f.Field)
	}
	out += ": " + prose(f.Message)
	if at := place(f.Position); at != "" {
		out += " (" + code(at) + ")"
	}
	return out
}

// codes formats values as code, separated by commas.
func codes(items []string) string {
	out := make([]string, 0, len(items))
	for _, item := range items {
		out = append(out, code(item))
	}
	return strings.Join(out, ", ")
}

// address escapes the target of a link, so that no character ends it early.
func address(anchor string) string {
	path, fragment, _ := strings.Cut(anchor, "#")
	return strings.NewReplacer("(", "%28", ")", "%29").Replace((&url.URL{Path: path, Fragment: fragment}).String())
}

// code formats a value as code. A bar ends a cell even in code unless it is escaped, and
// code shows entities as text, so values with a bar are formatted as prose.
func code(s string) string {
	if s = visible(s); s == "" {
		return ""
	}
	if strings.ContainsAny(s, "`|\\") || strings.TrimSpace(s) != s {
		return prose(s)
	}
	return "`" + s + "`"
}

// marks escapes the characters that Markdown does not read as text.
var marks = func() *strings.Replacer {
	pairs := []string{"&", "&amp;", "<", "&lt;", ">", "&gt;", "|", "&#124;", "@", "&#64;", "://", "&#58;//"}
	for _, c := range "\\`*_{}[]#~$" {
		pairs = append(pairs, string(c), "\\"+string(c))
	}
	return strings.NewReplacer(pairs...)
}()

// prose formats a value as text on one line.
func prose(s string) string { return marks.Replace(visible(s)) }
