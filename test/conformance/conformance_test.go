//go:build e2e

package conformance

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/conformance/compare"
	"github.com/nadra-dev/nadra/test/lab"
)

// verdicts has the verdicts of this run, for its last line.
var verdicts compare.Verdicts

// TestConformance runs inside of a node; see TestMain.
func TestConformance(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute)
	defer cancel()
	var err error
	verdicts.Rows, err = rows(t)
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
	if whole := verdicts.Cases == len(all); whole { // and not only a part, by -run
		for _, stale := range verdicts.Stale() {
			t.Errorf("docs/reference/compatibility.md: %s", stale)
		}
	}
}

// rows returns the rows of docs/reference/compatibility.md for the Multus of this run. The page must
// name its version.
func rows(t *testing.T) (map[string]compare.Row, error) {
	version, err := cluster.MultusVersion(os.Getenv(multusEnv))
	if err != nil {
		return nil, err
	}
	pinned, err := cluster.PinnedMultus()
	if err != nil {
		return nil, err
	}
	page, err := os.ReadFile(filepath.Join(lab.Root(), "docs/reference/compatibility.md"))
	if err != nil {
		return nil, err
	}
	t.Logf("Multus is %s", version)
	if !strings.Contains(string(page), version) {
		t.Errorf("docs/reference/compatibility.md does not name Multus %s: look at every difference, and put the page right", version)
	}
	if version == pinned {
		return compare.Page(string(page))
	}
	return compare.NewerPage(string(page))
}

func judge(ctx context.Context, t *testing.T, w *world, c Case) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	multus, nadra, err := w.compare(ctx, c)
	if err != nil {
		verdicts.Fail()
		t.Fatalf("%v\nThe end of nadra-node's log:\n%s", err, w.nadra.log(15))
	}
	verdict := verdicts.Judge(compare.Subject{
		About: c.About, Differs: c.Differs, Asked: c.Annotations[attachment.NetworksAnnotation],
	}, differences(c, multus, nadra))
	note := ""
	if multus.Error != "" && nadra.Error != "" {
		note = fmt.Sprintf("\n  neither starts the pod; multus: %.300s\n  nadra: %.300s", multus.Error, nadra.Error)
	}
	if len(verdict.Unlisted) > 0 {
		t.Errorf("%s%s", verdict, note)
		return
	}
	t.Logf("%s%s", verdict, note)
}

// differences returns the differences between the sides, and between both sides and the
// case's expectation.
func differences(c Case, multus, nadra compare.Side) []compare.Difference {
	out := compare.Sides(multus, nadra, c.text())
	if both := multus.Error != "" && nadra.Error != ""; both && !c.Foreign && !c.MayFail && !c.Fails {
		out = append(out, compare.Difference{Path: "expectation: the pod starts", Multus: multus.Error, Nadra: nadra.Error})
	}
	if none := multus.Error == "" && nadra.Error == ""; c.Fails && none {
		out = append(out, compare.Difference{Path: "expectation: the pod does not start", Multus: "it starts", Nadra: "it starts"})
	}
	return out
}

// allCases returns the suite's own cases and those of the corpus, in waves. A wave has no
// two networks with one name.
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
	t.Logf("%d own cases, and %d pods of %s: %s", len(own), len(corpus.cases), dir, corpus.about)
	return append([][]Case{own}, waves(corpus.cases)...), nil
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
