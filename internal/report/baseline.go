package report

import (
	"errors"
	"fmt"

	"sigs.k8s.io/yaml"

	"github.com/nadra-dev/nadra/pkg/translate"
)

// sameness is what makes two findings the same over time: lines move and
// messages get better.
type sameness struct {
	code   translate.Code
	object identity
	field  string
}

func samenessOf(f Finding) sameness { return sameness{f.Code, identityOf(f.Object), f.Field} }

// newFindings are those that the baseline does not have, and how many it has.
// One finding of the baseline makes one known.
func newFindings(findings []Finding, baseline *Report) ([]Finding, int) {
	if baseline == nil {
		return findings, 0
	}
	left := map[sameness]int{}
	for _, f := range baseline.Findings {
		left[samenessOf(f)]++
	}
	out := make([]Finding, 0, len(findings))
	for _, f := range findings {
		if left[samenessOf(f)] > 0 {
			left[samenessOf(f)]--
			continue
		}
		out = append(out, f)
	}
	return out, len(findings) - len(out)
}

const baselineRemedy = "write one with: kubectl nadra scan -o json"

// ReadBaseline reads an earlier report, of JSON or YAML. Fields that it does
// not know are those of a later nadra, and are passed over.
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
		return nil, fmt.Errorf("reading the baseline: it has no kind, so it is no %s; %s", Kind, baselineRemedy)
	case head.Kind != Kind:
		return nil, fmt.Errorf("reading the baseline: its kind is %q, not %s; %s", head.Kind, Kind, baselineRemedy)
	case head.APIVersion != APIVersion:
		return nil, fmt.Errorf("reading the baseline: its apiVersion is %q, this nadra reads %s; %s", head.APIVersion, APIVersion, baselineRemedy)
	}
	r := &Report{}
	if err := yaml.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("reading the baseline (%s): %w", baselineRemedy, err)
	}
	if n := r.Summary.Known; n > 0 {
		return nil, fmt.Errorf("reading the baseline: %w: %s known to an earlier one are not in it; %s, without --baseline",
			errNarrowed, count(n, "finding"), baselineRemedy)
	}
	return r, nil
}

// errNarrowed is a baseline that would make known findings new again.
var errNarrowed = errors.New("it was itself made with a baseline")
