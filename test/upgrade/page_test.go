//go:build e2e

package upgrade

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/nadra-dev/nadra/test/lab"
)

var update = flag.Bool("update", false, "write the output of commands in docs/migrate/upgrade.md")

// page has what commands have printed that docs/migrate/upgrade.md shows.
type page struct {
	shown []shown
	// names replaces paths and nodes by their names on the page.
	names *strings.Replacer
}

// shown is a command with its output, and its name in the marks around it on the page.
type shown struct{ name, text string }

// show runs a command and keeps for the page what a terminal shows of it for good.
func (f *fixture) show(name string, args ...string) {
	f.Helper()
	printed := f.printed(args...)
	out := printed.Out
	for line := range strings.Lines(printed.Err) {
		if !strings.HasSuffix(line, " …\n") { // what a command does at the moment
			out += line
		}
	}
	f.Log(out)
	f.page.shown = append(f.page.shown, shown{name, "```\n$ kubectl nadra " + strings.Join(args, " ") + "\n" + strings.TrimRight(out, "\n") + "\n```\n"})
}

// published compares the page with what the commands have printed. It ignores what differs in each run: times, names,
// and the nodes of pods.
func (f *fixture) published() {
	f.Helper()
	if os.Getenv("NADRA_CORPUS") == "" {
		f.Log("docs/migrate/upgrade.md is not compared: its output is of a stack with workloads of the corpus")
		return
	}
	path := filepath.Join(lab.Root(), "docs", "migrate", "upgrade.md")
	text, err := os.ReadFile(path)
	f.Must(err)
	was, now := string(text), string(text)
	for _, s := range f.page.shown {
		now, err = s.insert(now, f.page.names)
		f.Must(err)
	}
	if *update {
		f.Must(os.WriteFile(path, []byte(now), 0o644))
		return
	}
	if diff := cmp.Diff(steady(was), steady(now)); diff != "" {
		f.Errorf("docs/migrate/upgrade.md differs from the commands' output (-page +printed); write it with -args -update:\n%s", diff)
	}
}

// insert replaces what a page shows of the command, indented like the marks around it.
func (s shown) insert(page string, names *strings.Replacer) (string, error) {
	part, err := regexp.Compile(`(?s)( *)(<!-- ` + s.name + ` -->\n).*?( *<!-- /` + s.name + ` -->\n)`)
	if err != nil {
		return "", err
	}
	m := part.FindStringSubmatch(page)
	if m == nil {
		return "", fmt.Errorf("docs/migrate/upgrade.md has no marks <!-- %s --> and <!-- /%s -->", s.name, s.name)
	}
	var text strings.Builder
	for line := range strings.Lines(names.Replace(s.text)) {
		text.WriteString(strings.TrimRight(m[1]+line, " \n") + "\n")
	}
	return strings.Replace(page, m[0], m[1]+m[2]+text.String()+m[3], 1), nil
}

var varying = []struct {
	what *regexp.Regexp
	as   string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`), "TIME"},
	{regexp.MustCompile(`(?m)^ *NADRA-4(04|24) .*\n`), ""}, // on another node, another address
	{regexp.MustCompile(`\d+ expected\.`), "N expected."},
	{regexp.MustCompile(`\d+ pods still have (.*), of \d+ workloads; the oldest is \d+ minutes? old`), "N pods still have $1"},
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
