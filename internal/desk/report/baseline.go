package report

import (
	"errors"
	"fmt"

	"sigs.k8s.io/yaml"

	"github.com/nadra-dev/nadra/pkg/translate"
)

// findingKey identifies a finding over time, while lines move and messages change.
type findingKey struct {
	code   translate.Code
	object identity
	field  string
}

func keyOf(f Finding) findingKey { return findingKey{f.Code, identityOf(f.Object), f.Field} }

// newFindings returns the findings that the baseline does not have, and the number of those
// that it has. Each finding of the baseline matches one finding.
func newFindings(findings []Finding, baseline *Report) ([]Finding, int) {
	if baseline == nil {
		return findings, 0
	}
	left := map[findingKey]int{}
	for _, f := range baseline.Findings {
		left[keyOf(f)]++
	}
	out := make([]Finding, 0, len(findings))
	for _, f := range findings {
		if left[keyOf(f)] > 0 {
			left[keyOf(f)]--
			continue
		}
		out = append(out, f)
	}
	return out, len(findings) - len(out)
}

const baselineRemedy = "write one with: kubectl nadra scan -o json"

// ReadBaseline parses an earlier report, in JSON or YAML. It ignores unknown fields, which a
// later nadra may have.
func ReadBaseline(data []byte) (*Report, error) {
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := yaml.Unmarshal(data, &head); err != nil {
		return nil, fmt.Errorf("reading the baseline: neither JSON nor YAML (%s): %w", baselineRemedy, err)
	}
	switch {
	case head.Kind == "":
		return nil, fmt.Errorf("reading the baseline: it has no kind, so it is not a %s; %s", Kind, baselineRemedy)
	case head.Kind != Kind:
		return nil, fmt.Errorf("reading the baseline: its kind is %q, not %s; %s", head.Kind, Kind, baselineRemedy)
	case head.APIVersion != APIVersion:
		return nil, fmt.Errorf("reading the baseline: its apiVersion is %q, and this version of nadra reads %s; %s", head.APIVersion, APIVersion, baselineRemedy)
	}
	r := &Report{}
	if err := yaml.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("reading the baseline (%s): %w", baselineRemedy, err)
	}
	if n := r.Summary.Known; n > 0 {
		return nil, fmt.Errorf("reading the baseline: %w: it lacks %s of an earlier baseline; %s, without --baseline",
			errNarrowed, count(n, "finding"), baselineRemedy)
	}
	return r, nil
}

// errNarrowed is the error for a baseline that would make known findings new again.
var errNarrowed = errors.New("it was written with a baseline itself")
