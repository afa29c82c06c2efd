package admission

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"sigs.k8s.io/yaml"

	"github.com/nadra-dev/nadra/test/golden"
)

// TestGolden decides about the pods of each archive, "pod/…", in the cluster of its section "cluster",
// and compares with the sections "decision/…". The comment has the options, one word each, after
// "options:".
func TestGolden(t *testing.T) {
	paths, err := filepath.Glob("../../testdata/admission/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatal("no archives", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			golden.Check(t, path, string(decided(t, archive)))
		})
	}
}

// decided returns the archive with the decisions.
func decided(t *testing.T, archive *txtar.Archive) []byte {
	t.Helper()
	o := optionsOf(t, string(archive.Comment))
	out := &txtar.Archive{Comment: archive.Comment}
	var manifests []byte
	for _, f := range archive.Files {
		if f.Name == "cluster" {
			manifests = f.Data
			out.Files = append(out.Files, f)
		}
	}
	for _, f := range archive.Files {
		name, isPod := strings.CutPrefix(f.Name, "pod/")
		if !isPod {
			continue
		}
		pod, err := yaml.YAMLToJSON(f.Data)
		if err != nil {
			t.Fatal(err)
		}
		d := Pod(pod, "shop", o, clusterOf(t, manifests).lookups())
		checkAdmitted(t, pod, "shop", o, clusterOf(t, manifests))
		out.Files = append(out.Files, f, txtar.File{Name: "decision/" + name, Data: textOf(t, d)})
	}
	return txtar.Format(out)
}

func optionsOf(t *testing.T, comment string) Options {
	t.Helper()
	o := Options{}
	_, list, _ := strings.Cut(comment, "options:")
	list, _, _ = strings.Cut(list, "\n")
	for _, word := range strings.Fields(list) {
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "default":
			o.DefaultOwner = value
		case "isolation":
			o.Isolation.On = true
			o.Isolation.Global = slices.DeleteFunc(strings.Split(value, ","), func(s string) bool { return s == "" })
		case "pools":
			o.Pools = true
		case "default-networks":
			networks, err := ParseDefaultNetworks(strings.Split(value, ","))
			if err != nil {
				t.Fatal(err)
			}
			o.DefaultNetworks = networks
		case "system":
			o.SystemNamespaces = strings.Split(value, ",")
		case "beside-multus":
			o.BesideMultus = true
		case "never-claims":
			o.NeverClaims = true
		case "no-pod-info":
			o.NoPodInfo = true
		case "no-virtual-machines":
			o.NoVirtualMachines = true
		default:
			t.Fatalf("option %q is not known", word)
		}
	}
	return o
}

// textOf returns a decision as text, with one edit on a line.
func textOf(t *testing.T, d Decision) []byte {
	t.Helper()
	var b strings.Builder
	fmt.Fprintln(&b, d.Outcome)
	if d.Refusal != "" {
		fmt.Fprintln(&b, d.Refusal)
	}
	for _, w := range d.Warnings {
		fmt.Fprintln(&b, "warning:", w)
	}
	for _, e := range d.Edits {
		text, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "edit: %s\n", text)
	}
	for _, template := range d.Templates {
		text, err := json.Marshal(template.Spec)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "template: %s/%s %s\n", template.Namespace, template.Name, text)
	}
	return []byte(b.String())
}
