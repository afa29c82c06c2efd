package translate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/nadra-dev/nadra/internal/golden"
	"github.com/nadra-dev/nadra/internal/yamledit"
	"github.com/nadra-dev/nadra/pkg/attachment"
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
		var changed, created, accounts int
		inputs := corpus(t)
		for _, name := range slices.Sorted(maps.Keys(inputs)) {
			in := Input{Files: inputs[name], Options: Options{Pools: pools}}
			got := Convert(in)
			checkParses(t, got)
			checkIdempotent(t, in, got)
			checkAccounts(t, in, got)
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
			accounts += len(got.Accounts)
		}
		t.Logf("pools %v: %v, %d changed, %d objects created, %d fields accounted for", pools, counts, changed, created, accounts)
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

// checkAccounts checks that each key of each element and each matched resource has one account. It
// counts them in the input without the code of the conversion.
func checkAccounts(t testing.TB, in Input, got Result) {
	t.Helper()
	type account struct {
		at    Position
		field string
	}
	seen := map[account]int{}
	total := 0
	for _, a := range got.Accounts {
		seen[account{a.Position, a.Field}]++
		if a.Outcome != Converted && a.Code == "" {
			t.Errorf("%s: %s is %s without a finding", a.Object, a.Field, a.Outcome)
		}
	}
	for a, n := range seen {
		if n != 1 {
			t.Errorf("%s: %s is accounted for %d times", a.at, a.field, n)
		}
	}
	resources := 0
	for _, a := range got.Accounts {
		if strings.Contains(a.Field, ".resources.") {
			resources++
		} else {
			total++
		}
	}
	c := &counter{pools: map[string]string{}}
	c.each(in, c.networks)
	c.each(in, c.pods)
	if total != c.keys {
		t.Errorf("%d keys of elements are accounted for, the input has %d", total, c.keys)
	}
	if resources != c.resources {
		t.Errorf("%d resources are accounted for, the input has %d", resources, c.resources)
	}
}

// counter counts the fields that must have an account, by plain decoding.
type counter struct {
	pools           map[string]string // by namespace/name of the network
	keys, resources int
}

func (c *counter) each(in Input, f func(v any, namespace string)) {
	for _, file := range in.Files {
		decoder := yaml.NewDecoder(bytes.NewReader(file.Data))
		for {
			var doc map[string]any
			if decoder.Decode(&doc) != nil {
				break
			}
			f(doc, "")
		}
	}
}

// describe returns kind, namespace and annotations of a mapping. The default namespace is around.
func describe(v map[string]any, around string) (kind, namespace string, annotations map[string]any) {
	kind, _ = v["kind"].(string)
	metadata, _ := v["metadata"].(map[string]any)
	annotations, _ = metadata["annotations"].(map[string]any)
	if namespace, _ = metadata["namespace"].(string); namespace == "" {
		namespace = around
	}
	if namespace == "" {
		namespace = "default"
	}
	return kind, namespace, annotations
}

func (c *counter) networks(v any, _ string) {
	m, _ := v.(map[string]any)
	kind, namespace, annotations := describe(m, "")
	if pool, found := annotations[attachment.ResourceNameAnnotation].(string); found && kind == nadKind {
		c.pools[fmt.Sprint(namespace, "/", m["metadata"].(map[string]any)["name"])] = pool
	}
}

// pods visits all mappings with a pod's metadata and spec.
func (c *counter) pods(v any, around string) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			c.pods(item, around)
		}
	case map[string]any:
		kind, namespace, annotations := describe(v, around)
		if strings.HasPrefix(kind, "VirtualMachine") {
			return
		}
		if value, found := annotations[attachment.NetworksAnnotation].(string); found && (kind == "" || kind == "Pod") {
			c.keys += keysInValue(value)
			spec, _ := v["spec"].(map[string]any)
			c.matched(value, namespace, spec)
		}
		for _, item := range v {
			c.pods(item, namespace)
		}
	}
}

// matched counts the limits and requests of the pools from which a pod's networks draw.
func (c *counter) matched(value, namespace string, spec map[string]any) {
	selections, err := attachment.ParseSelections(value, namespace)
	if err != nil {
		return
	}
	pools := map[string]bool{}
	for _, s := range selections {
		if pool := c.pools[s.Network.String()]; pool != "" {
			pools[pool] = true
		}
	}
	for _, list := range []string{"containers", "initContainers"} {
		containers, _ := spec[list].([]any)
		for _, container := range containers {
			resources, _ := container.(map[string]any)["resources"].(map[string]any)
			for _, list := range []string{"limits", "requests"} {
				entries, _ := resources[list].(map[string]any)
				for name := range entries {
					if pools[name] {
						c.resources++
					}
				}
			}
		}
	}
}

func keysInValue(value string) int {
	var elements []map[string]any
	if json.Unmarshal([]byte(value), &elements) != nil {
		n := 0
		for item := range strings.SplitSeq(value, ",") {
			n += 1 + strings.Count(item, "/") + strings.Count(item, "@")
		}
		return n
	}
	n := 0
	for _, e := range elements {
		n += len(e)
	}
	return n
}
