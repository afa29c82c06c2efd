//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/nadra-dev/nadra/test/lab"
)

var (
	// ofTheMoment matches lines that count objects of other tests, too, or report for what
	// a container waits at the moment.
	ofTheMoment = regexp.MustCompile(`^(\d+ |Kept |not reached containers)`)
	// madeUp matches texts that differ in each run: the ends of claims' names, and pods'
	// addresses.
	madeUp = regexp.MustCompile(`-[0-9a-z]{5},|\d+/24`)
)

// documented returns an error unless a command's output has all lines of its example in
// docs/operate. It may have more, because the cluster has more than the example's
// objects.
func documented(command, printed string) error {
	names, err := filepath.Glob(filepath.Join(lab.Root(), "docs", "operate", "*.md"))
	if err != nil {
		return err
	}
	var example, where string
	for _, name := range names {
		page, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if _, after, found := strings.Cut(string(page), "\n```\n$ kubectl nadra "+command+"\n"); found {
			example, where = after, name
		}
	}
	if where == "" {
		return fmt.Errorf("no page of docs/operate has an example of kubectl nadra %s", command)
	}
	example, _, _ = strings.Cut(example, "\n```\n")
	have := columns(printed)
	for _, line := range columns(example) {
		if !ofTheMoment.MatchString(line) && !slices.Contains(have, line) {
			return fmt.Errorf("%s shows of kubectl nadra %s what it does not print: %q, in\n%s", where, command, line, printed)
		}
	}
	return nil
}

// columns returns a text's lines without the width of their columns and without made-up
// texts.
func columns(text string) (out []string) {
	for line := range strings.Lines(text) {
		out = append(out, madeUp.ReplaceAllString(strings.Join(strings.Fields(line), " "), "…"))
	}
	return out
}
