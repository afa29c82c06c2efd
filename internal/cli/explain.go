package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nadra-dev/nadra/internal/snapshot"
	"github.com/nadra-dev/nadra/internal/upgrade"
	"github.com/nadra-dev/nadra/pkg/translate"
)

const explainHelp = `Say in plain words what a code of a finding or a difference means or, for a pod
of the live cluster, where the chain from its networks to its interfaces breaks,
whose job that is, and what to do.

Without arguments, list all codes.

Exit codes for a pod: 0 nothing fails, 3 a step fails.`

func (a *app) explain() *cobra.Command {
	var format string
	command := &cobra.Command{
		Use:     "explain [CODE | pod/NAME]",
		Short:   "Say what a finding means, or why a pod has no network",
		Long:    explainHelp,
		Example: "  kubectl nadra explain NADRA-018\n  kubectl nadra explain pod/web -n shop",
		Args:    cobra.MaximumNArgs(2),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			var codes []string
			for _, r := range allRules() {
				codes = append(codes, r.code+"\t"+r.title)
			}
			return codes, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(command *cobra.Command, args []string) error {
			if len(args) == 0 {
				return listRules(a.Out)
			}
			if _, isPod := podOf(args); isPod {
				return a.explainPod(command.Context(), args, format)
			}
			if len(args) > 1 {
				return fmt.Errorf("explaining %q: give one code, or pod/NAME", args)
			}
			return explainCode(a.Out, args[0])
		},
	}
	command.Flags().StringVarP(&format, "output", "o", "text", "for a pod: text, json or yaml")
	return command
}

// rule is one of a finding's, of a difference's, or of what is in an upgrade's way.
type rule struct{ code, severity, title, what, why, fix, anchor string }

// allRules are those of findings, of differences, and of upgrades. The last have
// no severity and no fix of their own: a plan gives both for each object.
func allRules() []rule {
	var out []rule
	for _, r := range translate.Rules() {
		out = append(out, rule{string(r.Code), string(r.Severity), r.Title, r.What, r.Why, r.Fix, r.Code.Anchor()})
	}
	for _, r := range snapshot.Rules() {
		out = append(out, rule{string(r.Code), string(r.Severity), r.Title, r.What, r.Why, r.Fix, r.Code.Anchor()})
	}
	for _, r := range upgrade.Rules() {
		out = append(out, rule{code: r.Code, severity: "upgrade", title: r.Title, why: r.Why, anchor: r.Anchor()})
	}
	return out
}

func listRules(w io.Writer) error {
	for _, r := range allRules() {
		if _, err := fmt.Fprintf(w, "%s  %-8s  %s\n", r.code, r.severity, r.title); err != nil {
			return err
		}
	}
	return nil
}

func explainCode(w io.Writer, text string) error {
	all := allRules()
	i := slices.IndexFunc(all, func(r rule) bool { return strings.EqualFold(r.code, text) })
	if i < 0 {
		return fmt.Errorf("explaining %q: there is no such code: kubectl nadra explain lists all", text)
	}
	r := all[i]
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s): %s\n\n", r.code, r.severity, r.title)
	for _, part := range []struct{ name, text string }{{"What: ", r.what}, {"Why:  ", r.why}, {"Fix:  ", r.fix}} {
		if part.text != "" {
			b.WriteString(part.name + part.text + "\n")
		}
	}
	fmt.Fprintf(&b, "\nMore: %s\n", docs+r.anchor)
	_, err := io.WriteString(w, b.String())
	return err
}

// docs is where the documentation is.
const docs = "https://github.com/nadra-dev/nadra/blob/main/"
