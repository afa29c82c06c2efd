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
	// ofTheMoment begins a line that counts what other tests have left, too, or says
	// what a container waits for right now.
	ofTheMoment = regexp.MustCompile(`^(\d+ |Left alone|not reached containers)`)
	// madeUp is what is another in each run: the ends of claims' names, and which
	// address of its subnet a pod gets.
	madeUp = regexp.MustCompile(`-[0-9a-z]{5},|\d+/24`)
)

// documented says so of what a command has printed, if that has the lines of
// the example in docs/operations.md. It may have more: the cluster is not only the
// example's.
func documented(command, printed string) error {
	page, err := os.ReadFile(filepath.Join(lab.Root(), "docs", "operations.md"))
	if err != nil {
		return err
	}
	_, example, found := strings.Cut(string(page), "\n```\n$ kubectl nadra "+command+"\n")
	if !found {
		return fmt.Errorf("docs/operations.md has no example of kubectl nadra %s", command)
	}
	example, _, _ = strings.Cut(example, "\n```\n")
	have := columns(printed)
	for _, line := range columns(example) {
		if !ofTheMoment.MatchString(line) && !slices.Contains(have, line) {
			return fmt.Errorf("docs/operations.md shows of kubectl nadra %s what it does not print: %q, in\n%s", command, line, printed)
		}
	}
	return nil
}

// columns are a text's lines, whatever the width of their columns, without what
// is made up.
func columns(text string) (out []string) {
	for line := range strings.Lines(text) {
		out = append(out, madeUp.ReplaceAllString(strings.Join(strings.Fields(line), " "), "…"))
	}
	return out
}
