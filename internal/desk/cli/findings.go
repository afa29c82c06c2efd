package cli

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/nadra-dev/nadra/internal/desk/report"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// failOn is the value of --fail-on.
type failOn struct{ choice }

// The values of --fail-on.
const (
	failNever   = "never"
	failWarning = "warning"
	failBlocker = "blocker"
)

// addFlag adds --fail-on.
func (f *failOn) addFlag(flags *pflag.FlagSet) {
	f.choice = choice{failBlocker, []string{failNever, failWarning, failBlocker}}
	flags.Var(f, "fail-on", "lowest severity with an exit code other than 0: never, warning (exit code 2) or blocker (exit code 3)")
}

// verdict returns an error with the exit code, or nil.
func (f failOn) verdict(n translate.Counts) error { return verdict(f.value, n) }

// verdict returns an error with the exit code for the lowest severity that has one, or nil.
func verdict(lowest string, n translate.Counts) error {
	switch {
	case lowest == failNever:
		return nil
	case n.Blocker > 0:
		return exitError(CodeBlockers)
	case lowest == failWarning && n.Warning > 0:
		return exitError(CodeWarnings)
	}
	return nil
}

// printFindings prints a line for each finding, and the meaning of each code once.
func (a *app) printFindings(findings []translate.Finding, quiet bool) {
	var codes []translate.Code
	for _, f := range findings {
		if quiet && f.Severity != translate.Blocker {
			continue
		}
		a.note("%s", report.Visible(f.String()))
		codes = append(codes, f.Code)
	}
	slices.Sort(codes)
	for _, code := range slices.Compact(codes) {
		rule, _ := translate.RuleOf(code)
		a.note("%s: %s. %s", code, strings.TrimSuffix(rule.Title, "."), rule.Fix)
	}
	if len(codes) > 0 {
		a.note("More about a code: kubectl nadra explain %s", codes[0])
	}
}

// printProblems prints a line for each finding that needs something, and its remedy. With quiet, it prints blockers only.
func (a *app) printProblems(findings []translate.Finding, quiet bool) {
	for _, f := range findings {
		if f.Severity == translate.Blocker || f.Severity == translate.Warning && !quiet {
			a.note("%v\n  %s", f, f.Fix)
		}
	}
}
