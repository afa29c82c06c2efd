package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nadra-dev/nadra/internal/desk/canary"
	"github.com/nadra-dev/nadra/internal/desk/cleanup"
	"github.com/nadra-dev/nadra/internal/desk/doctor"
	"github.com/nadra-dev/nadra/internal/desk/report"
	"github.com/nadra-dev/nadra/internal/desk/snapshot"
	"github.com/nadra-dev/nadra/internal/desk/upgrade"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/translate"
)

const explainHelp = `Explain a code: a finding (NADRA-001), an obstacle to an upgrade (NADRA-301), a
difference (NADRA-401), a problem of a canary (NADRA-470), a user of nadra
(NADRA-501), or a reason (PluginTimeout), which events, conditions and refusals show
in brackets.

For a pod of the live cluster, show the first step from its networks to its
interfaces that fails, whose job it is, and what to do. Of a workload, such as
deploy/web, the pods that are not ready come first.

Without arguments, list all codes.

Exit codes for a pod: 0 no step fails, 3 a step fails.`

const explainExamples = `  kubectl nadra explain NADRA-018
  kubectl nadra explain PluginTimeout
  kubectl nadra explain pod/web -n shop
  kubectl nadra explain deploy/web -n shop`

func (a *app) explain() *cobra.Command {
	var flags *printFlags
	command := &cobra.Command{
		Use:     "explain [CODE | TYPE/NAME]",
		Short:   "Explain a code, or why a pod has no network",
		Long:    explainHelp,
		Example: explainExamples,
		Args:    cobra.MaximumNArgs(2),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			var codes []string
			for _, r := range allRules() {
				codes = append(codes, string(r.Code)+"\t"+r.Title)
			}
			for _, e := range reason.All() {
				codes = append(codes, string(e.Code)+"\t"+e.Meaning)
			}
			return codes, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(command *cobra.Command, args []string) error {
			if len(args) == 0 {
				return report.Codes(a.Out, allRules())
			}
			if isObject(args) {
				return a.explainObject(command.Context(), args, flags)
			}
			if len(args) > 1 {
				return fmt.Errorf("explaining %q: give one code, or TYPE/NAME", args)
			}
			if command.Flags().Changed("output") {
				return fmt.Errorf("explaining %q: -o is for a pod: leave it out", args[0])
			}
			return explainCode(a.Out, args[0])
		},
	}
	flags = addPrintFlags(command, "text")
	command.Flags().Lookup("output").Usage = "for a pod: " + strings.TrimPrefix(command.Flags().Lookup("output").Usage, "output ")
	return command
}

// allRules returns the rules of all findings, sorted by code.
func allRules() []translate.Rule {
	return slices.Concat(translate.Rules(), doctor.Rules(), upgrade.Rules(), snapshot.Rules(), canary.Rules(), cleanup.Rules())
}

// explainCode explains the code of a rule or a reason, in any case and with or without
// brackets.
func explainCode(w io.Writer, text string) error {
	code := strings.Trim(text, "[]")
	if i := slices.IndexFunc(reason.All(), func(e reason.Entry) bool { return strings.EqualFold(string(e.Code), code) }); i >= 0 {
		return explainReason(w, reason.All()[i])
	}
	r, found := translate.FindRule(allRules(), codeOf(code))
	if !found {
		var reasons []string
		for _, e := range reason.All() {
			reasons = append(reasons, string(e.Code))
		}
		if names := meant(code, reasons); names != "" {
			return fmt.Errorf("explaining %q: it is not a code%s", text, names)
		}
		return fmt.Errorf("explaining %q: neither a code nor TYPE/NAME: kubectl nadra explain lists all codes", text)
	}
	return writeParts(w, fmt.Sprintf("%s (%s): %s", r.Code, r.Severity, r.Title), r.Code.Anchor(),
		part{"What", r.What}, part{"Why", r.Why}, part{"Fix", r.Fix})
}

// codeOf returns the code that somebody means: in any case, with any zeros before its number, or as 0.1.0-rc.1 called it:
// NADRA-U01 for NADRA-301, and NADRA-V01 for NADRA-401.
func codeOf(text string) translate.Code {
	prefix, number, found := strings.Cut(strings.ToUpper(text), "-")
	if !found || number == "" {
		return translate.Code(text)
	}
	for older, hundreds := range map[string]string{"U": "3", "V": "4"} {
		if rest, found := strings.CutPrefix(number, older); found {
			number = hundreds + digits(rest, 2)
		}
	}
	return translate.Code(prefix + "-" + digits(number, 3))
}

// digits returns a number with zeros up to a width.
func digits(number string, width int) string {
	number = strings.TrimLeft(number, "0")
	return strings.Repeat("0", max(0, width-len(number))) + number
}

// explainReason explains the code of a reason.
func explainReason(w io.Writer, e reason.Entry) error {
	remedy := e.Remedy
	if remedy == "" {
		remedy = "Nothing: it passes by itself."
	}
	return writeParts(w, fmt.Sprintf("%s (%s)", e.Code, e.Stage), "docs/reference/reasons.md#"+strings.ToLower(string(e.Code)),
		part{"What", e.Meaning}, part{"Who", string(e.Owner)}, part{"Fix", remedy})
}

// part is a paragraph with its name.
type part struct{ name, text string }

// writeParts writes a title, the parts that have a text, and a link.
func writeParts(w io.Writer, title, anchor string, parts ...part) error {
	var b strings.Builder
	b.WriteString(title + "\n\n")
	for _, p := range parts {
		if p.text != "" {
			fmt.Fprintf(&b, "%-6s%s\n", p.name+":", p.text)
		}
	}
	fmt.Fprintf(&b, "\nMore: %s\n", report.Docs+anchor)
	_, err := io.WriteString(w, b.String())
	return err
}
