package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/nadra-dev/nadra/internal/desk/snapshot"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// foldedDifference is the same difference of several pods.
type foldedDifference struct {
	snapshot.Difference
	pods []string
}

// foldDifferences joins equal differences of the pods of a workload, in the order of the
// first of each.
func foldDifferences(list []snapshot.Difference) []foldedDifference {
	type key struct{ code, namespace, workload, iface, message string }
	var out []foldedDifference
	at := map[key]int{}
	for _, d := range list {
		k := key{string(d.Code), d.Namespace, workloadOf(d), d.Interface, d.Message}
		i, seen := at[k]
		if !seen {
			i = len(out)
			at[k] = i
			out = append(out, foldedDifference{Difference: d})
		}
		if d.Pod != "" {
			out[i].pods = append(out[i].pods, podOf(d))
		}
	}
	return out
}

// workloadOf returns the short name of a difference's workload, or of its pod if no workload
// owns that.
func workloadOf(d snapshot.Difference) string {
	switch {
	case d.Workload != nil:
		return shortWorkload(*d.Workload)
	case d.Pod != "":
		return short(translate.ObjectRef{Kind: "Pod", Name: d.Pod})
	case d.Network != "":
		return short(translate.ObjectRef{Kind: "NetworkAttachmentDefinition", Name: d.Network})
	}
	return ""
}

// shortWorkload returns a workload's short name.
func shortWorkload(w snapshot.Workload) string {
	return short(translate.ObjectRef{Kind: w.Kind, Name: w.Name})
}

// podOf names the pod, and its successor if that has another name.
func podOf(d snapshot.Difference) string {
	if d.NowPod != "" {
		return d.Pod + "→" + d.NowPod
	}
	return d.Pod
}

// unexpected returns the differences that are not expected, the worst first.
func unexpected(r *snapshot.Report) []foldedDifference {
	all := foldDifferences(r.Differences)
	var out []foldedDifference
	for _, severity := range []snapshot.Severity{snapshot.Blocker, snapshot.Warning} {
		for _, d := range all {
			if d.Severity == severity {
				out = append(out, d)
			}
		}
	}
	return out
}

// codeCount is a code of a report with its number of differences.
type codeCount struct {
	snapshot.Rule
	count int
}

// codesOf returns the codes of a report, the worst first.
func codesOf(r *snapshot.Report) []codeCount {
	var out []codeCount
	for _, severity := range snapshot.Severities() {
		for _, rule := range snapshot.Rules() {
			n := 0
			for _, d := range r.Differences {
				if d.Code == rule.Code {
					n++
				}
			}
			if n > 0 && rule.Severity == severity {
				out = append(out, codeCount{rule, n})
			}
		}
	}
	return out
}

// writeVerifyTable writes unexpected differences, what the codes mean, and the totals.
func writeVerifyTable(w io.Writer, r *snapshot.Report) error {
	s := sheet{w: w}
	rows := unexpected(r)
	s.table("NAMESPACE\tWORKLOAD\tPODS\tCODE\tSEVERITY\tDIFFERENCE", len(rows), func(i int) []string {
		d := rows[i]
		return []string{cut(d.Namespace), cut(workloadOf(d.Difference)), some(d.pods), string(d.Code), string(d.Severity), d.Message}
	})
	codes := codesOf(r)
	s.table("CODE\tCOUNT\tSEVERITY\tMEANING", len(codes), func(i int) []string {
		return []string{string(codes[i].Code), fmt.Sprint(codes[i].count), string(codes[i].Severity), codes[i].Title}
	})
	s.gap()
	s.println(comparedWords(r))
	s.println(verifyOutcome(r.Summary))
	if len(codes) > 0 {
		s.println("What a code means: kubectl nadra explain " + string(codes[0].Code))
	}
	return s.err
}

// comparedWords describes what was compared.
func comparedWords(r *snapshot.Report) string {
	out := fmt.Sprintf("Compared %s with %s", count(r.Summary.Pods, "pod"), count(r.Summary.Interfaces, "interface"))
	if r.Summary.Missing > 0 {
		out += fmt.Sprintf("; %d more %s missing", r.Summary.Missing, isAre(r.Summary.Missing))
	}
	return fmt.Sprintf("%s. Then: %s. Now: %s.", out, sideWords(r.Was), sideWords(r.Now))
}

// isAre returns the verb for a number.
func isAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// sideWords describes a snapshot.
func sideWords(s snapshot.Side) string {
	words := []string{Visible(s.Source), Visible(s.Taken)}
	out := strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), ", ")
	from := "from outside"
	if s.Observed > 0 {
		from = "from inside of nodes, too"
	}
	return strings.TrimPrefix(out+", "+from, ", ")
}

// verifyOutcome counts the differences in a sentence.
func verifyOutcome(s snapshot.Summary) string {
	out := "No difference."
	switch {
	case s.Blocker+s.Warning > 0:
		out = fmt.Sprintf("%s: %s, %s, %d expected.", count(s.Total(), "difference"), count(s.Blocker, "blocker"), count(s.Warning, "warning"), s.Expected)
	case s.Expected > 0:
		out = fmt.Sprintf("No unexpected difference; %d expected.", s.Expected)
	}
	if s.Ignored > 0 {
		out += fmt.Sprintf(" %d ignored.", s.Ignored)
	}
	return out
}
