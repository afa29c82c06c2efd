package admission

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/nadra-dev/nadra/internal/words"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// maxBlockers is how many findings a refusal describes.
const maxBlockers = 8

// blockers describes the findings that block, at most maxBlockers.
func (a admitted) blockers(findings []translate.Finding) []string {
	var out []string
	for _, f := range findings {
		if f.Severity == translate.Blocker && len(out) < maxBlockers {
			out = append(out, described(f, a.pod.Annotations))
		}
	}
	return out
}

// described returns code, place, message and remedy of a finding about a pod with annotations.
func described(f translate.Finding, annotations map[string]string) string {
	rule, _ := translate.RuleOf(f.Code)
	place := f.Field
	if at := positionIn(annotations, f); at != "" && !strings.Contains(f.Message, at) {
		place += ", " + at
	}
	return fmt.Sprintf("%s %s: %s: %s %s", f.Code, place, lowerFirst(rule.Title), ended(f.Message), rule.Fix)
}

// refusal returns the text of a refusal. It is one line, because events repeat it.
func (a admitted) refusal(reasons []string) string {
	return reason.NotConvertible.Text(fmt.Sprintf("nadra serves this pod because of %s and cannot attach its networks: %s %s%s",
		a.server.By, strings.Join(reasons, " "), a.given.hint(), a.server.leaveHint()))
}

// leaveHint returns the sentence that tells how Multus gets the pod.
func (s Server) leaveHint() string {
	if s.Node != "" {
		return fmt.Sprintf("To leave the pod to Multus, keep it on nodes without label %s=%s.", v1alpha1.OwnerLabel, v1alpha1.OwnerNadra)
	}
	return fmt.Sprintf("To leave the pod to Multus, set label %s=%s in its workload's pod template.", v1alpha1.OwnerLabel, v1alpha1.OwnerMultus)
}

// ended ends a sentence with a full stop.
func ended(s string) string {
	if strings.HasSuffix(s, ".") || strings.HasSuffix(s, "?") {
		return s
	}
	return s + "."
}

func lowerFirst(s string) string {
	r, size := utf8.DecodeRuneInString(s)
	return strings.ToLower(string(r)) + s[size:]
}

// maxWarning is the length at which the API server may cut a warning. It delivers at least maxWarnings
// warnings of that length.
const maxWarning, maxWarnings = 256, 8

// warnings returns the warnings of findings.
func warnings(findings []translate.Finding) []string {
	var out []string
	for _, f := range findings {
		if f.Severity == translate.Warning && len(out) < maxWarnings {
			out = append(out, warning(f.Code, f.Message))
		}
	}
	return out
}

// warning returns the code and title of a finding, with message and remedy if there is room.
func warning(code translate.Code, message string) string {
	rule, _ := translate.RuleOf(code)
	text := fmt.Sprintf("%s: %s", code, lowerFirst(rule.Title))
	for _, more := range []string{message, strings.TrimSuffix(rule.Fix, ".")} {
		if more != "" && len(text)+len(more)+2 <= maxWarning {
			text += ": " + more
		}
	}
	return words.Short(text, maxWarning)
}
