package report

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/nadra-dev/nadra/pkg/translate"
)

var csvHeader = []string{
	"namespace", "kind", "name", "pods", "networks", "features", "verdict",
	"code", "severity", "title", "field", "file", "line", "column", "message", "fix", "documentation",
}

// writeCSV writes a row for each finding, and one for each workload without findings.
func writeCSV(w io.Writer, r *Report) error {
	out := csv.NewWriter(w)
	out.UseCRLF = true
	if err := out.Write(csvHeader); err != nil {
		return err
	}
	for _, row := range csvRows(r) {
		for i, c := range row {
			row[i] = harmless(c)
		}
		if err := out.Write(row); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// csvRows returns all rows.
func csvRows(r *Report) [][]string {
	var rows [][]string
	s := findingsByObject(r)
	for i, w := range r.Workloads {
		subject := csvObject(w.Object, w.Readiness, w)
		if len(s.workloads[i]) == 0 {
			rows = append(rows, append(subject, "", "", "", "", w.Position.File, number(w.Position.Line), number(w.Position.Column), "", "", ""))
		}
		rows = append(rows, csvFindings(subject, s.workloads[i])...)
	}
	for i, n := range r.Networks {
		rows = append(rows, csvFindings(csvObject(n.Object, n.Readiness, Workload{}), s.networks[i])...)
	}
	for _, other := range s.others {
		rows = append(rows, csvFindings(csvObject(other.object, "", Workload{}), other.findings)...)
	}
	return rows
}

// csvObject returns the columns about an object.
func csvObject(o translate.ObjectRef, verdict translate.Readiness, w Workload) []string {
	return []string{
		o.Namespace, o.Kind, o.Name, number(w.Pods), strings.Join(w.Networks, " "), strings.Join(w.Features, " "), string(verdict),
	}
}

// csvFindings returns a row for each finding of an object.
func csvFindings(subject []string, findings []Finding) [][]string {
	var rows [][]string
	for _, f := range findings {
		rows = append(rows, append(subject[:len(subject):len(subject)],
			string(f.Code), string(f.Severity), f.Title, f.Field, f.Position.File, number(f.Position.Line), number(f.Position.Column),
			f.Message, f.Fix, docs+f.Anchor))
	}
	return rows
}

// number formats a number, and leaves out zero, which means unknown.
func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// harmless prevents spreadsheets from reading a value as a formula. Some also read the wide
// forms of the signs.
func harmless(s string) string {
	s = visible(s)
	if first, _ := utf8.DecodeRuneInString(s); s != "" && strings.ContainsRune("=+-@＝＋－＠", first) {
		return "'" + s
	}
	return s
}
