package reason

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// TestTable checks that every code of codes.go has one complete entry, and that entries
// are ordered by stage.
func TestTable(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "codes.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	declared := map[Code]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			value, isLiteral := spec.Values[0].(*ast.BasicLit)
			if !isLiteral || value.Value != `"`+spec.Names[0].Name+`"` {
				t.Errorf("%s: the code must be the constant's name", spec.Names[0].Name)
			}
			declared[Code(spec.Names[0].Name)] = true
		}
		return true
	})
	stages := []Stage{Publish, Pools, Admit, Prepare, Attach, Gate, Detach, Upgrade, Tools}
	at := 0
	seen := map[Code]bool{}
	for _, e := range All() {
		if got, found := Lookup(e.Code); !found || got != e || seen[e.Code] || !declared[e.Code] {
			t.Errorf("%s: declared %t, seen before %t, Lookup returns %+v", e.Code, declared[e.Code], seen[e.Code], got)
		}
		seen[e.Code] = true
		if e.Meaning == "" || e.Owner == "" {
			t.Errorf("%s lacks a meaning or an owner", e.Code)
		}
		for _, text := range []string{e.Meaning, e.Remedy} {
			if text != "" && !strings.HasSuffix(text, ".") || strings.Contains(text, "|") {
				t.Errorf("%s: %q must be a sentence, without |", e.Code, text)
			}
		}
		stage := slices.Index(stages, e.Stage)
		if stage < at {
			t.Errorf("%s: stage %s is out of order", e.Code, e.Stage)
		}
		at = stage
	}
	for code := range declared {
		if !seen[code] {
			t.Errorf("%s has no entry", code)
		}
	}
}

func TestErrors(t *testing.T) {
	cause := errors.New("file exists")
	err := Errorf(MasterMissing, "plugin %s: %w", "macvlan", cause)
	if err.Error() != "[MasterMissing] plugin macvlan: file exists" || !errors.Is(err, cause) || Of(err) != MasterMissing {
		t.Errorf("%v: code %s", err, Of(err))
	}
	outer := fmt.Errorf("preparing claim a/b: %w", err)
	if got := Wrap(PluginFailed, outer); !errors.Is(got, outer) || got.Error() != outer.Error() || Of(got) != MasterMissing {
		t.Errorf("an error with a code became %v", got)
	}
	if got := Wrap(PluginFailed, cause); Of(got) != PluginFailed || got.Error() != "[PluginFailed] file exists" {
		t.Errorf("an error without a code became %v", got)
	}
	if Wrap(PluginFailed, nil) != nil || Of(nil) != "" || Of(cause) != "" {
		t.Error("nil, or an error without a code, has a code")
	}
	if joined := errors.Join(cause, err); Of(joined) != MasterMissing {
		t.Errorf("%v: code %s", joined, Of(joined))
	}
}

func TestTexts(t *testing.T) {
	for text, want := range map[string][2]Code{ // In, Cause
		"":                   {"", ""},
		"no code":            {"", ""},
		"networks[0]":        {"", ""},
		"[Unknown] x":        {"", ""},
		"[":                  {"", ""},
		"[[NoClaim] pod a/b": {NoClaim, NoClaim},
		"rpc error: networks[0]: [MasterMissing] plugin macvlan":             {MasterMissing, MasterMissing},
		"[AttachTimeout] no success within 55s: [PluginFailed] x":            {AttachTimeout, AttachTimeout},
		"[OtherClaimFailed] claim a/b waits: [NetworkNotFound] x":            {OtherClaimFailed, NetworkNotFound},
		"[OtherNetworkFailed] a: [OtherClaimFailed] b: [c] [PluginFailed] x": {OtherNetworkFailed, PluginFailed},
		"[OtherClaimFailed] the text was cut of":                             {OtherClaimFailed, OtherClaimFailed},
	} {
		if got := [2]Code{In(text), Cause(text)}; got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
