package report

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nadra-dev/nadra/internal/desk/document"
	"github.com/nadra-dev/nadra/internal/words"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// findingKey identifies a finding over time, while lines move and messages change.
type findingKey struct {
	code   translate.Code
	object identity
	field  string
	// networks has those of the object that the message names; the fingerprints of SARIF lack them.
	networks string
}

func keyOf(f translate.Finding) findingKey {
	return findingKey{code: f.Code, object: identityOf(f.Object), field: f.Field}
}

// keys returns the keys of findings, whose objects are among the workloads or have no networks.
func keys(findings []translate.Finding, workloads []Workload) []findingKey {
	networks := map[identity][]string{}
	for _, w := range workloads {
		networks[identityOf(w.Object)] = append(networks[identityOf(w.Object)], w.Networks...)
	}
	out := make([]findingKey, len(findings))
	for i, f := range findings {
		out[i] = keyOf(f)
		named := slices.DeleteFunc(slices.Clone(networks[out[i].object]), func(n string) bool { return !strings.Contains(f.Message, n) })
		slices.Sort(named)
		out[i].networks = strings.Join(slices.Compact(named), ",")
	}
	return out
}

// newFindings returns the findings that the baseline does not have, and the number of those
// that it has. Each finding of the baseline matches one finding.
func newFindings(findings []translate.Finding, workloads []Workload, baseline *Report) ([]translate.Finding, int) {
	if baseline == nil {
		return findings, 0
	}
	left := map[findingKey]int{}
	for _, key := range keys(baseline.Findings, baseline.Workloads) {
		left[key]++
	}
	out := make([]translate.Finding, 0, len(findings))
	for i, key := range keys(findings, workloads) {
		if left[key] > 0 {
			left[key]--
			continue
		}
		out = append(out, findings[i])
	}
	return out, len(findings) - len(out)
}

const baselineRemedy = "write one with: kubectl nadra scan -o json"

// ReadBaseline parses an earlier report, in JSON or YAML. It ignores unknown fields, which a
// later nadra may have.
func ReadBaseline(data []byte) (*Report, error) {
	r := &Report{}
	if err := document.Read(data, APIVersion, Kind, baselineRemedy, r); err != nil {
		return nil, err
	}
	if n := r.Summary.Known; n > 0 {
		return nil, fmt.Errorf("%w: it lacks %s of an earlier baseline; %s, without --baseline",
			errNarrowed, words.Count(n, "finding"), baselineRemedy)
	}
	return r, nil
}

// errNarrowed is the error for a baseline that would make known findings new again.
var errNarrowed = errors.New("it was written with a baseline itself")
