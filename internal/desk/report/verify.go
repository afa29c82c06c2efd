package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nadra-dev/nadra/internal/desk/snapshot"
	"github.com/nadra-dev/nadra/internal/words"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// likeness is what equal differences of a workload's pods have in common.
type likeness struct{ code, namespace, workload, iface, message string }

// likenessAndPod returns what a difference has in common with others, and its pod.
func likenessAndPod(d snapshot.Difference) (likeness, string) {
	pod := ""
	if d.Object.Kind == "Pod" {
		pod = podOf(d)
	}
	return likeness{string(d.Code), d.Object.Namespace, workloadOf(d), d.Interface, d.Message}, pod
}

// workloadOf returns the short name of a difference's workload, or of its object if no workload
// owns that.
func workloadOf(d snapshot.Difference) string {
	if d.Workload != nil {
		return short(translate.ObjectRef{Kind: d.Workload.Kind, Name: d.Workload.Name})
	}
	return short(d.Object)
}

// podOf names the pod, and its successor if that has another name.
func podOf(d snapshot.Difference) string {
	if d.NowPod != "" {
		return d.Object.Name + "→" + d.NowPod
	}
	return d.Object.Name
}

// unexpected returns the differences that are not expected, the worst first.
func unexpected(r *snapshot.Report) []alike[snapshot.Difference] {
	out := slices.DeleteFunc(foldBy(r.Differences, likenessAndPod), func(d alike[snapshot.Difference]) bool { return d.first.Severity == translate.Info })
	slices.SortStableFunc(out, func(a, b alike[snapshot.Difference]) int { return rank(a.first.Severity) - rank(b.first.Severity) })
	return out
}

// writeVerifyTable writes unexpected differences, what the codes mean, and the totals.
func writeVerifyTable(s *sheet, r *snapshot.Report) {
	table(s, "NAMESPACE\tWORKLOAD\tPODS\tCODE\tSEVERITY\tDIFFERENCE", unexpected(r), func(one alike[snapshot.Difference]) []string {
		d := one.first
		return []string{d.Object.Namespace, workloadOf(d), some(one.names), string(d.Code), string(d.Severity), d.Message}
	})
	var findings []translate.Finding
	for _, d := range r.Differences {
		findings = append(findings, d.Finding)
	}
	s.legend(findings)
	s.gap()
	s.println(comparedWords(r))
	s.println(verifyOutcome(r.Summary))
	s.help(findings)
}

// comparedWords describes what was compared.
func comparedWords(r *snapshot.Report) string {
	out := fmt.Sprintf("Compared %s with %s", words.Count(r.Summary.Pods, "pod"), words.Count(r.Summary.Interfaces, "interface"))
	switch n := r.Summary.Missing; {
	case n == 1:
		out += "; 1 more is missing"
	case n > 1:
		out += fmt.Sprintf("; %d more are missing", n)
	}
	return fmt.Sprintf("%s. Then: %s. Now: %s.", out, sideWords(r.Was), sideWords(r.Now))
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
	switch n := s.Findings; {
	case n.Blocker+n.Warning > 0:
		out = words.Count(n.Total(), "difference") + ": " + severityWords(n) + "."
	case n.Info > 0:
		out = fmt.Sprintf("No unexpected difference; %d expected.", n.Info)
	}
	if s.Ignored > 0 {
		out += fmt.Sprintf(" %d ignored.", s.Ignored)
	}
	return out
}
