package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/test/golden"
)

const (
	reasonsBegin = "<!-- begin: generated from pkg/api/reason/table.go by go test ./test/docs -run TestReasonsAreDocumented -update -->\n"
	reasonsEnd   = "<!-- end -->\n"
)

// stageTexts introduces the reasons of each stage, in the order of the page.
var stageTexts = []struct {
	stage reason.Stage
	text  string
}{
	{reason.Publish, "The node does not offer the network."},
	{reason.Pools, "The node does not serve a resource pool as it is defined."},
	{reason.Admit, "The webhook refuses the pod."},
	{reason.Prepare, "The driver does not prepare the pod's claims."},
	{reason.Attach, "The driver does not attach the pod's networks, or not yet."},
	{reason.Gate, "The gate does not let a container start."},
	{reason.Detach, "A network is not detached yet, or has changed."},
	{reason.Upgrade, "`kubectl nadra upgrade` stops, or refuses."},
	{reason.Tools, "Another command of `kubectl nadra` stops, or refuses."},
}

// reasonsPage is the page of the reasons.
const reasonsPage = "docs/reference/reasons.md"

// TestReasonsAreDocumented compares the generated part of docs/reference/reasons.md with
// the table of reasons.
func TestReasonsAreDocumented(t *testing.T) {
	path := filepath.Join(root, filepath.FromSlash(reasonsPage))
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, begins := strings.Cut(string(page), reasonsBegin)
	_, tail, ends := strings.Cut(rest, reasonsEnd)
	if !begins || !ends {
		t.Fatalf("%s has no lines %q and %q", reasonsPage, reasonsBegin, reasonsEnd)
	}
	for _, s := range parse(reasonsPage, head+tail).sections {
		if _, found := reason.Lookup(reason.Code(s.heading)); found {
			t.Errorf("%s: section %s has the name of a reason", reasonsPage, s.heading)
		}
	}
	var out strings.Builder
	written := 0
	for _, s := range stageTexts {
		fmt.Fprintf(&out, "\n## %s\n\n%s\n\n| Reason | What it means | Whose job | What to do |\n| --- | --- | --- | --- |\n", s.stage, s.text)
		for _, e := range reason.All() {
			if e.Stage == s.stage {
				written++
				fmt.Fprintf(&out, "| <a id=%q></a>`%s` | %s | %s | %s |\n", strings.ToLower(string(e.Code)), e.Code, e.Meaning, e.Owner, remedy(e))
			}
		}
	}
	if written != len(reason.All()) {
		t.Errorf("wrote %d of %d reasons: a stage is missing", written, len(reason.All()))
	}
	golden.Check(t, path, head+reasonsBegin+out.String()+"\n"+reasonsEnd+tail)
}

// remedy returns an entry's remedy for the page.
func remedy(e reason.Entry) string {
	if e.Remedy == "" {
		return "Nothing: the cause goes away by itself."
	}
	return e.Remedy
}

// TestNamedReasons checks that every page names only reasons that exist: a word in
// brackets in inline code is one.
func TestNamedReasons(t *testing.T) {
	named := 0
	for _, p := range pages(t) {
		for _, code := range p.codes() {
			for _, m := range regexp.MustCompile(`\[([A-Z][a-z]+[A-Z]\w+)\] `).FindAllStringSubmatch(code, -1) {
				named++
				if _, found := reason.Lookup(reason.Code(m[1])); !found {
					t.Errorf("%s names the reason %s, which does not exist", p.path, m[1])
				}
			}
		}
	}
	if named == 0 {
		t.Error("the pages name no reason")
	}
}

// TestReasonsAreMade checks that the product makes errors or texts of every code.
func TestReasonsAreMade(t *testing.T) {
	made := map[reason.Code]bool{}
	used := regexp.MustCompile(`\breason\.([A-Z]\w+)\b`)
	for name, text := range sources(t, []string{"cmd", "internal", "pkg"}, ".go") {
		if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "pkg/api/reason/") || strings.HasPrefix(name, "internal/desk/inspect/") {
			continue
		}
		for _, m := range used.FindAllStringSubmatch(text, -1) {
			made[reason.Code(m[1])] = true
		}
	}
	for _, e := range reason.All() {
		if !made[e.Code] {
			t.Errorf("nothing makes errors of %s", e.Code)
		}
	}
}
