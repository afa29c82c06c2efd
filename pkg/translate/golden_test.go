package translate

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nadra-dev/nadra/test/golden"
)

// section is a section of a txtar archive: the line "-- name --" and the lines after it.
type section struct {
	name string
	data []byte
}

// archive parses a txtar archive. The comment before the first section has the options, after
// "options:".
func archive(text []byte) (comment string, sections []section) {
	var b strings.Builder
	for line := range bytes.Lines(text) {
		l := strings.TrimRight(string(line), "\n")
		if strings.HasPrefix(l, "-- ") && strings.HasSuffix(l, " --") {
			sections = append(sections, section{name: strings.TrimSpace(l[3 : len(l)-3])})
			continue
		}
		if n := len(sections); n > 0 {
			sections[n-1].data = append(sections[n-1].data, line...)
		} else {
			b.Write(line)
		}
	}
	return b.String(), sections
}

func optionsOf(t *testing.T, comment string) Options {
	t.Helper()
	o := Options{}
	_, list, _ := strings.Cut(comment, "options:")
	list, _, _ = strings.Cut(list, "\n")
	for _, word := range strings.Fields(list) {
		switch {
		case word == "pools":
			o.Pools = true
		case word == "no-pod-info":
			o.NoPodInfo = true
		case word == "no-virtual-machines":
			o.NoVirtualMachines = true
		case word == "drop-annotation":
			o.DropAnnotation = true
		case word == "beside-multus":
			o.BesideMultus = true
		case word == "all-networks":
			o.AllNetworks = true
		case word == "await-networks":
			o.AllNetworks, o.AwaitNetworks = true, true
		case strings.HasPrefix(word, "template="): // e.g. template=Trainer.example.com:spec.worker
			kind, at, _ := strings.Cut(strings.TrimPrefix(word, "template="), ":")
			kind, group, _ := strings.Cut(kind, ".")
			o.Templates = append(o.Templates, TemplatePath{Group: group, Kind: kind, Path: strings.Split(at, ".")})
		case strings.HasPrefix(word, "device-class="): // e.g. device-class=shop/lan:nic.example.com
			key, class, _ := strings.Cut(strings.TrimPrefix(word, "device-class="), ":")
			if o.DeviceClasses == nil {
				o.DeviceClasses = map[string]string{}
			}
			o.DeviceClasses[key] = class
		case strings.HasPrefix(word, "resource-prefix="):
			o.ResourcePrefix = strings.TrimPrefix(word, "resource-prefix=")
		case strings.HasPrefix(word, "node="):
			facts := strings.SplitN(strings.TrimPrefix(word, "node="), "/", 3)
			o.Nodes = append(o.Nodes, NodeFacts{Name: facts[0], Plugins: strings.Split(facts[1], ","), Interfaces: strings.Split(facts[2], ",")})
		case strings.HasPrefix(word, "pool="): // e.g. pool=intel.com/sriov:driver:sriov.example.com; nothing serves the others
			parts := strings.SplitN(strings.TrimPrefix(word, "pool="), ":", 3)
			before := o.PoolServer
			o.PoolServer = func(pool string) PoolFacts {
				switch {
				case pool == parts[0]:
					return PoolFacts{Server: PoolServer(parts[1]), By: parts[2]}
				case before != nil:
					return before(pool)
				}
				return PoolFacts{Server: PoolOfNobody}
			}
		case strings.HasPrefix(word, "range="): // e.g. range=services:10.96.0.0/12
			of, text, _ := strings.Cut(strings.TrimPrefix(word, "range="), ":")
			r, _ := RangeOf(text, of)
			o.ClusterRanges = append(o.ClusterRanges, r)
		case strings.HasPrefix(word, "namespace="):
			o.Namespace = strings.TrimPrefix(word, "namespace=")
		default:
			t.Fatalf("unknown option %q", word)
		}
	}
	return o
}

// TestGolden converts the files of each archive, "in/…", beside those in "context/…", and compares with
// the other sections: "out/…" has the changed files, "created" the created objects, and "findings" the
// findings and verdicts.
func TestGolden(t *testing.T) {
	archives, err := filepath.Glob("../../testdata/translate/*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatal("no archives", err)
	}
	covered := map[Code]bool{}
	for _, path := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) { checkArchive(t, path, covered) })
	}
	for _, r := range rules {
		if !covered[r.Code] {
			t.Errorf("no archive shows %s (%s)", r.Code, r.Title)
		}
	}
}

func checkArchive(t *testing.T, path string, covered map[Code]bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	comment, sections := archive(text)
	in := Input{Options: optionsOf(t, comment)}
	var inputs []section
	for _, s := range sections {
		if name, found := strings.CutPrefix(s.name, "in/"); found {
			in.Files = append(in.Files, File{Name: name, Data: s.data})
			inputs = append(inputs, s)
		}
		if name, found := strings.CutPrefix(s.name, "context/"); found {
			in.Context = append(in.Context, File{Name: name, Data: s.data})
			inputs = append(inputs, s)
		}
	}
	got := Convert(in)
	for _, f := range got.Findings {
		covered[f.Code] = true
	}
	checkParses(t, got)
	checkIdempotent(t, in, got)
	golden.Check(t, path, comment+write(append(inputs, results(in, got)...)))
}

func results(in Input, got Result) []section {
	var out []section
	for i, f := range got.Files {
		if !bytes.Equal(f.Data, in.Files[i].Data) {
			out = append(out, section{"out/" + f.Name, f.Data})
		}
	}
	var created, findings bytes.Buffer
	for _, c := range got.Created {
		fmt.Fprintf(&created, "--- # %s\n%s", strings.Join(c.For, ", "), c.YAML())
	}
	for _, f := range got.Findings {
		fmt.Fprintln(&findings, f)
	}
	for _, w := range got.Workloads {
		fmt.Fprintf(&findings, "%s: %s", w.Object, w.Readiness)
		if len(w.Features) > 0 {
			fmt.Fprintf(&findings, "; uses %s", strings.Join(w.Features, ", "))
		}
		if w.Owner != nil {
			fmt.Fprintf(&findings, "; of %s %s", w.Owner.APIVersion, w.Owner)
		}
		findings.WriteByte('\n')
	}
	for _, u := range got.Unrendered {
		fmt.Fprintf(&findings, "%s: not rendered; mentions networks: %v\n", u.Object, u.Mentions)
	}
	for _, n := range got.Networks {
		fmt.Fprintf(&findings, "%s: %s; class %q; %s; ipam %q; pool %q\n", n.Object, n.Readiness, n.Class, n.Plugins, n.IPAM, n.Pool)
	}
	if created.Len() > 0 {
		out = append(out, section{"created", created.Bytes()})
	}
	return slices.Clip(append(out, section{"findings", findings.Bytes()}))
}

func write(sections []section) string {
	var b strings.Builder
	for _, s := range sections {
		fmt.Fprintf(&b, "-- %s --\n%s", s.name, s.data)
		if len(s.data) > 0 && s.data[len(s.data)-1] != '\n' {
			b.WriteByte('\n')
		}
	}
	return b.String()
}
