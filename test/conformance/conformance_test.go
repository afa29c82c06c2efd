//go:build e2e

package conformance

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nadra-dev/nadra/test/conformance/compare"
	"github.com/nadra-dev/nadra/test/lab"
)

// verdicts are those of this run, for its last line.
var verdicts compare.Verdicts

// TestConformance runs inside of a node; see TestMain.
func TestConformance(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute)
	defer cancel()
	page, err := os.ReadFile(filepath.Join(lab.Root(), "docs/compatibility.md"))
	must(t, err)
	verdicts.Rows, err = compare.Page(string(page))
	must(t, err)
	waves, err := allCases(t)
	must(t, err)
	var all []Case
	for _, wave := range waves {
		all = append(all, wave...)
	}
	root := lab.Root()
	w, err := newWorld(ctx, Programs{
		Multus: os.Getenv(multusEnv), Plugin: os.Getenv(pluginEnv),
		Nadra: filepath.Join(root, "bin/nadra-node"), Gate: filepath.Join(root, "bin/nadra-gate"),
	}, os.Getenv("KUBECONFIG"), all)
	must(t, err)
	defer func() {
		if err := w.nadra.stop(); err != nil {
			t.Errorf("stopping nadra-node: %v", err)
		}
	}()
	for _, wave := range waves {
		must(t, w.createNetworks(ctx, wave))
		must(t, w.published(ctx))
		for _, c := range wave {
			t.Run(c.Name, func(t *testing.T) { judge(ctx, t, w, c) })
		}
		must(t, w.deleteNetworks(ctx, wave))
	}
	if whole := verdicts.Cases == len(all); whole { // and not a part, by -run
		for _, stale := range verdicts.Stale() {
			t.Errorf("docs/compatibility.md: %s", stale)
		}
	}
}

func judge(ctx context.Context, t *testing.T, w *world, c Case) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	differences, err := w.compare(ctx, c)
	if err != nil {
		verdicts.Fail()
		t.Fatalf("%v\nThe end of nadra-node's log:\n%s", err, w.nadra.log(15))
	}
	verdict := verdicts.Judge(c.About, differences)
	if len(verdict.Unlisted) > 0 {
		t.Error(verdict)
		return
	}
	t.Log(verdict)
}

// allCases are the suite's own and those of the corpus, in waves of which each
// has no two networks of one name.
func allCases(t *testing.T) ([][]Case, error) {
	own, err := ownCases("testdata/cases")
	if err != nil {
		return nil, err
	}
	dir := os.Getenv(corpusEnv)
	if dir == "" {
		t.Logf("%s is not set: only the suite's own cases", corpusEnv)
		return [][]Case{own}, nil
	}
	corpus, err := corpusCases(dir)
	if err != nil {
		return nil, err
	}
	t.Logf("%d own cases, and %d pods of %s: %s", len(own), len(corpus.cases), dir, corpus.left)
	return append([][]Case{own}, waves(corpus.cases)...), nil
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
