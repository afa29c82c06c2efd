package main

import (
	"encoding/json"
	"strings"
	"testing"

	slsa "github.com/in-toto/attestation/go/predicates/provenance/v1"
	intoto "github.com/in-toto/attestation/go/v1"
	"google.golang.org/protobuf/encoding/protojson"
)

// checkProvenance reads the statement with in-toto's library, and compares its files with the
// sums, which have it in addition.
func checkProvenance(t *testing.T, r *release) {
	var statement intoto.Statement
	if err := protojson.Unmarshal(read(t, r.out, statementFile), &statement); err != nil {
		t.Fatal(err)
	}
	if err := statement.Validate(); err != nil || statement.PredicateType != predicateType {
		t.Errorf("the statement is invalid or has no provenance: %v: %s", err, statement.PredicateType)
	}
	var lines []string
	for _, s := range statement.Subject {
		lines = append(lines, s.Digest["sha256"]+"  "+s.Name)
	}
	for line := range strings.Lines(string(read(t, r.out, sumsFile))) {
		line = strings.TrimSpace(line)
		if strings.HasSuffix(line, "  "+statementFile) {
			continue
		}
		if len(lines) == 0 || lines[0] != line {
			t.Fatalf("the provenance has %q, the sums have %s", lines, line)
		}
		lines = lines[1:]
	}
	if len(lines) > 0 {
		t.Errorf("the sums lack %q", lines)
	}
	checkPredicate(t, &statement)
}

func checkPredicate(t *testing.T, statement *intoto.Statement) {
	t.Helper()
	text, err := protojson.Marshal(statement.Predicate)
	if err != nil {
		t.Fatal(err)
	}
	var p slsa.Provenance
	if err := protojson.Unmarshal(text, &p); err != nil {
		t.Fatal(err)
	}
	if err := p.Validate(); err != nil {
		t.Errorf("SLSA's provenance is invalid: %v", err)
	}
	commit := p.BuildDefinition.ResolvedDependencies[0].Digest["gitCommit"]
	command := p.BuildDefinition.ExternalParameters.Fields["command"].GetStringValue()
	version := p.RunDetails.Builder.Version["go"]
	if want := "make release VERSION=" + testVersion + " COMMIT=" + testCommit + " REGISTRY=registry.example/nadra"; commit != testCommit || command != want {
		t.Errorf("commit %s, command %q", commit, command)
	}
	if !strings.HasPrefix(version, "go1.") || p.RunDetails.Metadata != nil {
		t.Errorf("made with %q at %v", version, p.RunDetails.Metadata)
	}
}

// TestStable checks that the statement's spaces are not those of protojson, which differ from
// one program to another.
func TestStable(t *testing.T) {
	text, err := stable(&intoto.Statement{Type: "a", PredicateType: "b"})
	if want := "{\n  \"_type\": \"a\",\n  \"predicateType\": \"b\"\n}\n"; err != nil || string(text) != want || !json.Valid(text) {
		t.Errorf("%q (%v)", text, err)
	}
}
