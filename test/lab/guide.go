package lab

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/nadra-dev/nadra/test/cluster"
)

// GuideStep is a block of commands of a page, and the text block after it, which shows what they print.
type GuideStep struct{ Commands, Printed string }

// notRun marks a block of commands that a test cannot carry out. The mark says why.
const notRun = "<!-- not run:"

var guideBlock = regexp.MustCompile("(?ms)^ *```(sh|text)\n(.*?)^ *```$")

// ReadGuide returns the steps of a page of docs/: its blocks of sh, except those that are marked "not run", each with
// the block of text that follows it.
func ReadGuide(page string) ([]GuideStep, error) {
	text, err := os.ReadFile(filepath.Join(Root(), "docs", filepath.FromSlash(page)))
	if err != nil {
		return nil, err
	}
	var out []GuideStep
	before, skipped := 0, false
	for _, at := range guideBlock.FindAllStringSubmatchIndex(string(text), -1) {
		kind, body, between := string(text[at[2]:at[3]]), dedent(string(text[at[4]:at[5]])), string(text[before:at[0]])
		before = at[1]
		switch {
		case kind == "sh":
			if skipped = strings.Contains(between, notRun); !skipped {
				out = append(out, GuideStep{Commands: body})
			}
		case !skipped && len(out) > 0 && out[len(out)-1].Printed == "":
			out[len(out)-1].Printed = body
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("docs/%s has no commands", page)
	}
	return out, nil
}

// dedent removes the indentation of a block in a list.
func dedent(text string) string {
	lines := strings.SplitAfter(text, "\n")
	indent := len(lines[0]) - len(strings.TrimLeft(lines[0], " "))
	for i := range lines {
		lines[i] = strings.TrimPrefix(lines[i], strings.Repeat(" ", indent))
	}
	return strings.Join(lines, "")
}

// Run carries out a step as a reader would, in the root of the source tree, with kubectl and kubectl-nadra in
// PATH. It returns an error if a command fails, or if the commands do not print what the page shows. There … stands
// for any text in a line, and a line with … alone for any lines. Images of the page are those of the lab.
func (s GuideStep) Run(ctx context.Context, c *cluster.Cluster) (printed string, err error) {
	command := c.ControlPlane().Command(ctx, "bash", "-e", "-o", "pipefail", "-c", s.Commands)
	command.Dir = Root()
	for i, v := range command.Env {
		if path, is := strings.CutPrefix(v, "PATH="); is {
			command.Env[i] = "PATH=" + filepath.Join(Root(), "bin") + ":" + path
		}
	}
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	if err := c.ControlPlane().Run(command); err != nil {
		return "", fmt.Errorf("running\n%s: %w\n%s", s.Commands, err, out.String())
	}
	if !guidePattern(s.Printed).MatchString(squeeze(out.String())) {
		return "", fmt.Errorf("the page shows of\n%s\nthis:\n%s\nbut they print:\n%s", s.Commands, s.Printed, out.String())
	}
	return out.String(), nil
}

// guidePattern returns the expression that matches what commands print if a page shows it.
func guidePattern(shown string) *regexp.Regexp {
	if strings.TrimSpace(shown) == "" {
		return regexp.MustCompile(``)
	}
	var out strings.Builder
	out.WriteString(`^`)
	for line := range strings.Lines(squeeze(shown)) {
		if line = strings.TrimSuffix(line, "\n"); line == "…" {
			out.WriteString(`(?:.*\n)*`)
			continue
		}
		out.WriteString(strings.ReplaceAll(regexp.QuoteMeta(line), "…", `.*`) + `\n`)
	}
	out.WriteString(`$`)
	return regexp.MustCompile(out.String())
}

// squeeze returns text without the widths of columns and without empty lines.
func squeeze(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) > 0 {
			out.WriteString(strings.Join(words, " ") + "\n")
		}
	}
	return out.String()
}
