package translate

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nadra-dev/nadra/internal/yamledit"
	"github.com/nadra-dev/nadra/test/golden"
)

// corpus reads the public manifests in the folder $NADRA_CORPUS, those of each repository as one input.
func corpus(t testing.TB) map[string][]File {
	t.Helper()
	root := os.Getenv("NADRA_CORPUS")
	if root == "" {
		t.Skip("set NADRA_CORPUS to a folder of manifests to convert all of them")
	}
	out := map[string][]File{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".yaml") {
			return err
		}
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel(root, path)
		out[filepath.Dir(name)] = append(out[filepath.Dir(name)], File{Name: name, Data: data})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestCorpus(t *testing.T) {
	for _, pools := range []bool{false, true} {
		counts := map[Readiness]int{}
		codes := map[Code]int{}
		var changed, created int
		inputs := corpus(t)
		for _, name := range slices.Sorted(maps.Keys(inputs)) {
			in := Input{Files: inputs[name], Options: Options{Pools: pools}}
			got := Convert(in)
			checkParses(t, got)
			checkIdempotent(t, in, got)
			for _, w := range got.Workloads {
				counts[w.Readiness]++
				if w.Changed {
					changed++
				}
			}
			for _, f := range got.Findings {
				codes[f.Code]++
				if f.Code == NotEditable || f.Code == NotYAML || f.Code == SharedByAnchor {
					t.Errorf("not expected in the corpus: %v", f)
				}
			}
			created += len(got.Created)
		}
		t.Logf("pools %v: %v, %d changed, %d objects created", pools, counts, changed, created)
		for _, code := range slices.Sorted(maps.Keys(codes)) {
			t.Logf("  %s %d", code, codes[code])
		}
	}
}

const verdictsPath = "../../testdata/translate/corpus-verdicts.tsv"

// TestCorpusVerdicts compares the verdicts on all workloads and networks of the corpus, so that a change
// of the rules shows which of them it affects.
func TestCorpusVerdicts(t *testing.T) {
	inputs := corpus(t)
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(inputs)) {
		got := Convert(Input{Files: inputs[name]})
		for _, w := range got.Workloads {
			fmt.Fprintf(&b, "%s\t%s\t%s\t%v\n", w.Position.File, w.Object, w.Readiness, w.Codes)
		}
		for _, n := range got.Networks {
			fmt.Fprintf(&b, "%s\t%s\t%s\t%v\n", n.Position.File, n.Object, n.Readiness, n.Codes)
		}
	}
	golden.Check(t, verdictsPath, b.String())
}

// checkParses checks that the output parses if the input did.
func checkParses(t testing.TB, got Result) {
	t.Helper()
	for _, f := range got.Files {
		for _, part := range yamledit.Split(f.Data) {
			if _, err := yamledit.Parse(part); err != nil && !bytes.Contains(f.Data, part.Text) {
				t.Errorf("%s: the output does not parse: %v", f.Name, err)
			}
		}
	}
}

// checkIdempotent checks that converting the output changes nothing.
func checkIdempotent(t testing.TB, in Input, got Result) {
	t.Helper()
	again := in
	again.Files = slices.Clone(got.Files)
	var made bytes.Buffer
	for _, c := range got.Created {
		made.WriteString("---\n")
		made.Write(c.YAML())
	}
	again.Files = append(again.Files, File{Name: "created.yaml", Data: made.Bytes()})
	second := Convert(again)
	for i, f := range got.Files {
		if !bytes.Equal(f.Data, second.Files[i].Data) {
			t.Errorf("%s: converting it again changes it:\n%s\nbecomes\n%s", f.Name, f.Data, second.Files[i].Data)
		}
	}
	for _, c := range second.Created {
		t.Errorf("converting again creates\n%s", c.YAML())
	}
}
