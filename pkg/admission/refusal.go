package admission

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// blockers are the findings for which a pod is refused.
func (a admitted) blockers(findings []translate.Finding) []string {
	var out []string
	for _, f := range findings {
		if f.Severity == translate.Blocker {
			out = append(out, a.described(f))
		}
	}
	return out
}

// described is one finding: code, place, message, remedy.
func (a admitted) described(f translate.Finding) string {
	rule, _ := translate.RuleOf(f.Code)
	place := f.Field
	if at := positionIn(a.manifest, f); at != "" && !strings.Contains(f.Message, at) {
		place += ", " + at
	}
	return fmt.Sprintf("%s %s: %s: %s %s", f.Code, place, lowerFirst(rule.Title), ended(f.Message), rule.Fix)
}

// refusal is the text that the API server hands on. It is one line, since events
// repeat it.
func (a admitted) refusal(reasons []string) string {
	hint := fmt.Sprintf("To leave the pod to Multus, set label %s=%s in its workload's pod template.", v1alpha1.OwnerLabel, v1alpha1.OwnerMultus)
	if a.server.Node != "" {
		hint = fmt.Sprintf("To leave the pod to Multus, keep it on nodes without label %s=%s.", v1alpha1.OwnerLabel, v1alpha1.OwnerNadra)
	}
	return reason.NotConvertible.Text(fmt.Sprintf("nadra serves this pod by %s, and cannot attach its networks: %s %s",
		a.server.By, strings.Join(reasons, " "), hint))
}

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

// maxWarning is where the API server may cut a warning; maxWarnings of that
// size are sure to come through.
const maxWarning, maxWarnings = 256, 8

func warnings(findings []translate.Finding) []string {
	var out []string
	for _, f := range findings {
		if f.Severity == translate.Warning && len(out) < maxWarnings {
			out = append(out, warning(f.Code, f.Message))
		}
	}
	return out
}

func warning(code translate.Code, message string) string {
	rule, _ := translate.RuleOf(code)
	text := fmt.Sprintf("%s: %s", code, lowerFirst(rule.Title))
	for _, more := range []string{message, strings.TrimSuffix(rule.Fix, ".")} {
		if more != "" && len(text)+len(more)+2 <= maxWarning {
			text += ": " + more
		}
	}
	return shortened(text, maxWarning)
}

func shortened(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	const dots = "…"
	cut := limit - len(dots)
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + dots
}
