package report

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/nadra-dev/nadra/pkg/translate"
)

// schema returns the standard's schema; see testdata/README.md.
func schema(t testing.TB) *jsonschema.Schema {
	t.Helper()
	f, err := os.Open("testdata/sarif-schema-2.1.0.json")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	text, err := jsonschema.UnmarshalJSON(f)
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource(sarifSchema, text); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(sarifSchema)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func checkSARIF(t testing.TB, s *jsonschema.Schema, text string) {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(v); err != nil {
		t.Errorf("%v:\n%.2000s", err, text)
	}
}

func TestSARIFIsValid(t *testing.T) {
	s := schema(t)
	for _, r := range reports() {
		checkSARIF(t, s, written(t, "sarif", r))
	}
	checkSARIF(t, s, written(t, "sarif", Build(large(60))))
	if s.Validate(map[string]any{"version": "2.1.0"}) == nil {
		t.Error("the schema takes anything")
	}
}

func sarifResults(t testing.TB, r *Report) []sarifResult {
	t.Helper()
	var log sarifLog
	if err := json.Unmarshal([]byte(written(t, "sarif", r)), &log); err != nil {
		t.Fatal(err)
	}
	return log.Runs[0].Results
}

// TestFingerprints checks that fingerprints differ, and stay when lines and messages change.
func TestFingerprints(t *testing.T) {
	before := small(false)
	before.Result.Findings = append(before.Result.Findings, before.Result.Findings...)
	after := small(false)
	after.Result.Findings = append(after.Result.Findings, after.Result.Findings...)
	for i := range after.Result.Findings {
		after.Result.Findings[i].Position.Line += 40
		after.Result.Findings[i].Message = "in other words"
	}
	seen := map[string]bool{}
	now := sarifResults(t, Build(after))
	for i, result := range sarifResults(t, Build(before)) {
		print := result.PartialFingerprints["nadraFinding/v1"]
		if seen[print] {
			t.Errorf("%s is there twice", print)
		}
		seen[print] = true
		if now[i].PartialFingerprints["nadraFinding/v1"] != print {
			t.Errorf("the fingerprint of %s changes with its line", result.RuleID)
		}
	}
}

func TestSARIFPlaces(t *testing.T) {
	for file, want := range map[string]string{
		"a b/c#d?e%.yaml": "a%20b/c%23d%3Fe%25.yaml", "x:y.yaml": "./x:y.yaml", "../up.yaml": "../up.yaml",
		"/abs/é.yaml": "file:///abs/%C3%A9.yaml", "\xff\n": "%FF%0A", "<stdin>": "%3Cstdin%3E",
	} {
		f := translate.Finding{Code: translate.NotYAML, Severity: translate.Blocker, Position: translate.Position{File: file, Line: 3}}
		got := sarifResults(t, Build(Input{Result: translate.Result{Findings: []translate.Finding{f}}}))[0].Locations[0].PhysicalLocation
		if got.ArtifactLocation.URI != want || got.Region != (sarifRegion{StartLine: 3}) {
			t.Errorf("%s becomes %+v, want %s", file, got, want)
		}
	}
	for _, result := range sarifResults(t, Build(small(true))) {
		if result.Locations[0].PhysicalLocation != nil || len(result.Locations[0].LogicalLocations) != 2 {
			t.Errorf("a live object has the place %+v", result.Locations[0])
		}
	}
}
