package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/nadra-dev/nadra/test/flagtable"
)

// TestReference compares docs/reference/flags.md with the driver's flags, and with the subcommands and theirs: another
// version of kubectl nadra runs them in a pod of this one.
func TestReference(t *testing.T) {
	flagtable.Check(t, "nadra-node", flagsOf(t, driverCommand))
	out := "\n"
	for _, c := range commands() {
		out += fmt.Sprintf("## nadra-node %s\n\n`%s`, for %s: %s\n", c.name, c.usage(), c.user(), c.summary)
		before := []string{""} // each verb that has flags of its own
		if verbs, _, found := strings.Cut(strings.TrimPrefix(c.args, "("), ") [flags]"); found && strings.HasPrefix(c.args, "(") {
			before = strings.Split(verbs, " | ")
		}
		for _, verb := range before {
			fs := flagsOf(t, c, strings.Fields(verb)...)
			if fs == nil {
				continue
			}
			if verb != "" {
				out = strings.TrimRight(out, "\n") + fmt.Sprintf("\n\n## nadra-node %s %s\n", c.name, verb)
			}
			out += flagtable.Table(fs)
		}
	}
	flagtable.CheckPart(t, "subcommands of nadra-node", out)
}

// flagsOf returns the flags of a subcommand with these arguments, or nil if it takes none.
func flagsOf(t *testing.T, c command, args ...string) *flag.FlagSet {
	t.Helper()
	err := c.run(t.Context(), append(args, "-h"), io.Discard)
	var help *helpRequest
	if errors.As(err, &help) {
		return help.flags
	}
	if err != nil {
		t.Fatalf("%s %q: %v", c.name, args, err)
	}
	return nil
}
