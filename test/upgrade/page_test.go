//go:build e2e

package upgrade

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/nadra-dev/nadra/test/lab"
)

var update = flag.Bool("update", false, "write docs/migrate/upgrade-example.md")

// page is the documentation's example of a move: commands and their output.
type page struct {
	text strings.Builder
	// names replaces paths and nodes by their names on the page.
	names *strings.Replacer
}

// shown runs a command and adds it to the page, with what a terminal shows of it for good.
func (f *fixture) shown(args ...string) {
	f.Helper()
	printed := f.printed(args...)
	out := printed.Out
	for line := range strings.Lines(printed.Err) {
		if !strings.HasSuffix(line, " …\n") { // what a command does at the moment
			out += line
		}
	}
	f.Log(out)
	f.page.text.WriteString("```\n$ kubectl nadra " + strings.Join(args, " ") + "\n" + strings.TrimRight(out, "\n") + "\n```\n\n")
}

// write adds a sentence to the page.
func (f *fixture) write(text string) { f.page.text.WriteString(text + "\n\n") }

const pageHead = `# A move, from its first to its last command

Two nodes move from Multus' thick daemon to nadra, and nadra is removed in the end. Each command is shown with what it printed on a real
cluster. Between the commands the nodes also moved back and forth, pods were recreated, and the upgrade was interrupted and resumed.
[How do I move a cluster?](upgrade.md) explains the commands.

`

// published compares the page with the documentation. It ignores what differs in each run:
// times, names, and the nodes of pods.
func (f *fixture) published() {
	f.Helper()
	if os.Getenv("NADRA_CORPUS") == "" {
		f.Log("docs/migrate/upgrade-example.md is not compared: it is of a stack with workloads of the corpus")
		return
	}
	now := pageHead + f.page.names.Replace(strings.TrimRight(f.page.text.String(), "\n")) + "\n"
	path := filepath.Join(lab.Root(), "docs", "migrate", "upgrade-example.md")
	if *update {
		f.Must(os.WriteFile(path, []byte(now), 0o644))
		return
	}
	was, err := os.ReadFile(path)
	f.Must(err)
	if diff := cmp.Diff(steady(string(was)), steady(now)); diff != "" {
		f.Errorf("docs/migrate/upgrade-example.md differs from the commands' output (-page +printed); write it with -args -update:\n%s", diff)
	}
}

var varying = []struct {
	what *regexp.Regexp
	as   string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`), "TIME"},
	{regexp.MustCompile(`(?m)^NADRA-4(04|24) .*\n`), ""}, // on another node, another address
	{regexp.MustCompile(`\d+ expected\.`), "N expected."},
	{regexp.MustCompile(`\d+ pods still have (.*), of \d+ workloads; the oldest is \d+ minutes? old`), "N pods still have $1"},
	{regexp.MustCompile(`(?m)^Looked at \d+ objects.*\n`), ""},   // with ReplicaSets and classes that come and go
	{regexp.MustCompile(`(?m)^Kept \d+ objects? .*\n`), ""},      // how old it is
	{regexp.MustCompile(`(?m)^deleted ResourceClaim.*\n`), ""},   // the controller may have been first
	{regexp.MustCompile(`(?m)^deleted ResourceSlice .*\n`), ""},  // in the order of names made up
	{regexp.MustCompile(`(?m)^node node-[ab]: removed.*\n`), ""}, // in any order
	{regexp.MustCompile(`-[0-9a-f]{8,10}-[0-9a-z]{5}\b`), "-POD"},
	{regexp.MustCompile(`\b(probe|networks|nadra-node)-[0-9a-z]{5}\b`), "$1-POD"},
	{regexp.MustCompile(`  +`), "  "},
}

func steady(text string) string {
	for _, v := range varying {
		text = v.what.ReplaceAllString(text, v.as)
	}
	return text
}
