package report

import (
	"bufio"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"io"
	"strings"

	"github.com/nadra-dev/nadra/internal/words"
	"github.com/nadra-dev/nadra/pkg/translate"
)

var (
	//go:embed page/report.html
	htmlText string
	//go:embed page/report.css
	htmlStyle string
	//go:embed page/report.js
	htmlScript string

	htmlPage = template.Must(template.New("report").Funcs(template.FuncMap{
		"short": short, "locals": locals, "visible": Visible, "lines": lines, "place": translate.Position.String, "count": words.Count, "userName": userName,
		"key": verdictKey, "segments": segments,
		"lower": func(v any) string { return strings.ToLower(fmt.Sprint(v)) }, "docs": func(anchor string) string { return Docs + anchor },
	}).Parse(htmlText))
)

// htmlView is the input of the page's template.
type htmlView struct {
	*Report
	// Policy allows the page its own style and script, and no requests.
	Policy string
	Style  template.CSS
	Script template.JS
	Title  string
	Input  string
	Known  []string
	// Unread has a sentence about what is not rendered and does not mention networks.
	Unread []string
	Groups []htmlGroup
	shown  map[translate.Code]bool
}

// htmlGroup is a code with its findings.
type htmlGroup struct {
	translate.Finding
	Findings []translate.Finding
	// Open shows the findings without a click.
	Open bool
}

// codeLink is a code with the target of its link.
type codeLink struct{ Code, To string }

// Links returns links to the findings of each code, or to the documentation if the baseline
// has all of them.
func (v htmlView) Links(codes []translate.Code) []codeLink {
	var out []codeLink
	for _, c := range worstFirst(codes) {
		to := Docs + address(translate.Code(c).Anchor())
		if v.shown[translate.Code(c)] {
			to = "#" + strings.ToLower(c)
		}
		out = append(out, codeLink{c, to})
	}
	return out
}

// openFindings limits the findings of a blocker that are shown without a click.
const openFindings = 8

// writeHTML writes one self-contained file, for people who do not run the command.
func writeHTML(w io.Writer, r *Report) error {
	v := htmlView{
		Report: r, Style: template.CSS(htmlStyle), Script: template.JS(htmlScript),
		Policy: policy(), Title: "Networks: what moves to DRA, and what stays",
		Input: inputSentence(r), Known: knownWords(r.Summary.Known), Unread: unrenderedWords(r),
		shown: map[translate.Code]bool{},
	}
	for _, g := range groups(r.Findings) {
		v.shown[g.Code] = true
		v.Groups = append(v.Groups, htmlGroup{g.Finding, g.findings, g.Severity == translate.Blocker && len(g.findings) <= openFindings})
	}
	b := bufio.NewWriter(w)
	return errors.Join(htmlPage.Execute(b, v), b.Flush())
}

// policy returns the page's Content-Security-Policy.
func policy() string {
	return fmt.Sprintf("default-src 'none'; style-src '%s'; script-src '%s'; img-src data:; base-uri 'none'; form-action 'none'",
		digest(htmlStyle), digest(htmlScript))
}

// digest returns the source expression of an inline text.
func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// verdictKey returns a verdict for the page's addresses and classes.
func verdictKey(r translate.Readiness) string {
	switch r {
	case translate.ReadyNotes:
		return "notes"
	case translate.NotJudged:
		return "unjudged"
	case translate.NothingToConvert:
		return "nothing"
	}
	return Visible(string(r))
}

// lines makes each line of a message visible.
func lines(s string) string {
	out := strings.Split(strings.ReplaceAll(s, "\r\n", "\n"), "\n")
	for i, line := range out {
		out[i] = Visible(line)
	}
	return strings.Join(out, "\n")
}
