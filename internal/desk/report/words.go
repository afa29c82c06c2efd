package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/nadra-dev/nadra/internal/words"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// Docs is the address of the documentation.
const Docs = "https://github.com/nadra-dev/nadra/blob/main/"

// address escapes a path of the documentation for a link.
func address(anchor string) string {
	path, fragment, _ := strings.Cut(anchor, "#")
	return strings.NewReplacer("(", "%28", ")", "%29").Replace((&url.URL{Path: path, Fragment: fragment}).String())
}

// Visible returns one line for a value of others. It shows characters that do not print,
// such as a terminal's escape sequences, as Go would write them.
func Visible(s string) string { return visible(s, "") }

// visible returns a value as Visible does, but keeps some characters.
func visible(s, kept string) string {
	if strings.IndexFunc(s, unprintable) < 0 {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case strings.ContainsRune(kept, r):
			b.WriteRune(r)
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case unprintable(r):
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Printable writes texts that may have values of others to a terminal. It shows what does not print as Visible does, apart
// from tabs and the ends of lines.
type Printable struct{ io.Writer }

// Write implements io.Writer.
func (p Printable) Write(text []byte) (int, error) {
	_, err := io.WriteString(p.Writer, visible(string(text), "\t\n"))
	return len(text), err
}

// unprintable reports whether a character does not print. Broken UTF-8 is read as the
// replacement character.
func unprintable(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }

// kinds has kubectl's short names.
var kinds = map[string]string{
	"Deployment": "deploy", "StatefulSet": "sts", "DaemonSet": "ds", "Job": "job", "CronJob": "cj", "Pod": "po",
	"ReplicaSet": "rs", "ReplicationController": "rc", "VirtualMachine": "vm", "VirtualMachineInstance": "vmi",
	"NetworkAttachmentDefinition": "nad", "ResourceQuota": "quota", "DeploymentConfig": "dc",
}

// short returns an object's name with its kind, for example deploy/web.
func short(o translate.ObjectRef) string {
	kind := kinds[o.Kind]
	if kind == "" {
		kind = strings.ToLower(o.Kind)
	}
	return strings.Trim(kind+"/"+o.Name, "/")
}

// local returns a network's name as a workload of the namespace would write it.
func local(network, namespace string) string { return strings.TrimPrefix(network, namespace+"/") }

// locals returns a workload's networks, each once with its number: eight equal interfaces
// would fill a line with one word.
func locals(w Workload) []string {
	times := map[string]int{}
	var names []string
	for _, n := range w.Networks {
		if times[n]++; times[n] == 1 {
			names = append(names, n)
		}
	}
	out := make([]string, 0, len(names))
	for _, n := range names {
		name := local(n, w.Object.Namespace)
		if times[n] > 1 {
			name = fmt.Sprintf("%s (%d×)", name, times[n])
		}
		out = append(out, name)
	}
	return out
}

var worstToMildest = []translate.Severity{translate.Blocker, translate.Warning, translate.Info}

// rank returns a severity's place, the worst first.
func rank(s translate.Severity) int { return slices.Index(worstToMildest, s) }

// worstFirst returns each code once, the worst first.
func worstFirst(codes []translate.Code) []string {
	severity := func(c translate.Code) int {
		rule, _ := translate.RuleOf(c)
		return rank(rule.Severity)
	}
	sorted := slices.Clone(codes)
	slices.SortFunc(sorted, func(a, b translate.Code) int {
		return cmp.Or(cmp.Compare(severity(a), severity(b)), cmp.Compare(a, b))
	})
	var out []string
	for _, c := range slices.Compact(sorted) {
		out = append(out, string(c))
	}
	return out
}

// words returns the counts in words.
func (v Verdicts) words() string {
	stay := "stay"
	if v.Stays == 1 {
		stay = "stays"
	}
	out := fmt.Sprintf("%d ready, %d ready with notes, %d %s", v.Ready, v.ReadyNotes, v.Stays, stay)
	if v.NotJudged > 0 {
		out += fmt.Sprintf(", %d not judged", v.NotJudged)
	}
	if v.NothingToConvert > 0 {
		out += fmt.Sprintf(", %d with nothing to convert", v.NothingToConvert)
	}
	return out
}

// unrenderedWords names what is not rendered and does not mention networks.
func unrenderedWords(r *Report) []string {
	var names []string
	for _, u := range r.Unrendered {
		if !u.Mentions {
			names = append(names, Visible(short(u.Object)))
		}
	}
	if len(names) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("Not judged, and without a word about networks: %s.", some(names))}
}

// words returns the counts in words.
func severityWords(s translate.Counts) string {
	return fmt.Sprintf("%s, %s, %d info", words.Count(s.Blocker, "blocker"), words.Count(s.Warning, "warning"), s.Info)
}

// inputSentence describes the input, so that a report without findings is not empty.
func inputSentence(r *Report) string {
	out := "Looked at " + words.Count(r.Summary.Objects, "object")
	if r.Summary.Files > 0 {
		out += " in " + words.Count(r.Summary.Files, "file")
	}
	out += ofSource(r.Source)
	if names := topKinds(r.Summary.Kinds, 6); names != "" {
		out += ": " + names
	}
	return out + "."
}

// ofSource names the cluster or the files.
func ofSource(source string) string {
	if source == "" {
		return ""
	}
	return " of " + Visible(source)
}

// topKinds returns the n most frequent kinds, and the number of other objects.
func topKinds(all map[string]int, n int) string {
	names := slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		return cmp.Or(cmp.Compare(all[b], all[a]), cmp.Compare(a, b))
	})
	var parts []string
	rest := 0
	for i, name := range names {
		if i < n {
			parts = append(parts, fmt.Sprintf("%d %s", all[name], Visible(name)))
		} else {
			rest += all[name]
		}
	}
	if rest > 0 {
		parts = append(parts, fmt.Sprintf("%d of other kinds", rest))
	}
	return strings.Join(parts, ", ")
}

// outcome describes workloads, networks and findings, with a sentence each.
func outcome(r *Report) []string {
	s := r.Summary
	var out []string
	if s.Workloads.Total() == 0 {
		out = append(out, "No workload here uses additional networks.")
	} else {
		line := words.Count(s.Workloads.Total(), "workload")
		if s.Pods > 0 {
			line += " with " + words.Count(s.Pods, "pod")
		}
		out = append(out, line+": "+s.Workloads.words()+".")
	}
	if n := s.Networks.Total(); n > 0 {
		out = append(out, words.Count(n, "network")+": "+s.Networks.words()+".")
	}
	if n := s.Findings.Total(); n > 0 {
		out = append(out, words.Count(n, "finding")+": "+severityWords(s.Findings)+".")
	}
	return slices.Concat(out, unrenderedWords(r), knownWords(s.Known))
}

// knownWords counts the findings that the baseline has.
func knownWords(n int) []string {
	switch n {
	case 0:
		return nil
	case 1:
		return []string{"1 finding known to the baseline is left out."}
	}
	return []string{fmt.Sprintf("%d findings known to the baseline are left out.", n)}
}
