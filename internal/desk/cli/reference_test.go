package cli

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/nadra-dev/nadra/test/golden"
)

// TestReference compares docs/reference/cli.md with the help of all commands.
func TestReference(t *testing.T) {
	root := newRoot(genericiooptions.IOStreams{In: strings.NewReader(""), Out: io.Discard, ErrOut: io.Discard}, new(atomic.Bool))
	var out strings.Builder
	fmt.Fprintf(&out, "# kubectl nadra\n\n<!-- Made of the commands' help: go test ./internal/desk/cli -run TestReference -args -update -->\n\n"+
		"`kubectl nadra` is a plugin of kubectl: the program `kubectl-nadra` in a directory of `PATH`. [Exit codes](#exit-codes) are the same for all commands.\n\n"+
		"`kubectl nadra completion` writes the completion of a shell for `kubectl-nadra`. For kubectl to complete `kubectl nadra`, put `kubectl_complete-nadra`,\n"+
		"which is beside the program in a release, into a directory of `PATH`, too.\n\n"+
		"```\n%s\n```\n\n"+
		"## Exit codes\n\nThe list above is that of all commands. On Windows kubectl exits with 1 for every error of a plugin: scripts there call `kubectl-nadra`. Beyond it:\n\n"+
		"* 1: an unknown command or flag is an error, too.\n"+
		"* 2: also expected differences, with `verify --strict`, and leftovers, with `cleanup --fail-on=warning`.\n"+
		"* 4: of [upgrade](../migrate/upgrade.md), [cleanup](../operate/cleanup.md) and [uninstall](../install/uninstall.md).\n\n"+
		"Standard output has data only. Findings and progress go to standard error, also the steps of `upgrade` and `uninstall`; `-q` leaves only errors and blockers.\n",
		root.Long)
	var write func(c *cobra.Command)
	write = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			if !sub.IsAvailableCommand() {
				continue
			}
			writeCommand(&out, sub)
			write(sub)
		}
	}
	write(root)
	fmt.Fprintf(&out, "\n## Flags of all commands\n\nThey choose the cluster, as kubectl's flags of the same names do.\n\n```\n%s```\n", root.PersistentFlags().FlagUsages())
	golden.Check(t, filepath.Join("..", "..", "..", "docs", "reference", "cli.md"), out.String())
}

// writeCommand writes the section of one command.
func writeCommand(out *strings.Builder, c *cobra.Command) {
	fmt.Fprintf(out, "\n## %s\n\n```\n%s\n\n%s\n", c.CommandPath(), c.UseLine(), strings.TrimRight(cmp.Or(c.Long, c.Short), "\n"))
	if c.Example != "" {
		fmt.Fprintf(out, "\nExamples:\n%s\n", strings.TrimRight(c.Example, "\n"))
	}
	if c.HasAvailableLocalFlags() {
		fmt.Fprintf(out, "\nFlags:\n%s", c.LocalFlags().FlagUsages())
	}
	out.WriteString("```\n")
}

// TestPages checks that docs/migrate/scan.md shows what the script page.txtar prints.
func TestPages(t *testing.T) {
	script, err := txtar.ParseFile(filepath.Join("testdata", "script", "page.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "migrate", "scan.md"))
	if err != nil {
		t.Fatal(err)
	}
	if printed := string(script.Files[len(script.Files)-1].Data); !strings.Contains(string(page), "```text\n"+printed+"```\n") {
		t.Errorf("docs/migrate/scan.md does not show what the script page.txtar prints:\n%s", printed)
	}
}
