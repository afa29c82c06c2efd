package operators

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// spec reads fields, each once, as the API server and an operator's types do, and collects errors
// and notes.
type spec struct {
	path  *field.Path
	known []string
	given map[string]any
	errs  field.ErrorList
	notes []Note
}

// readSpec takes the spec of an object. known has the fields of the CRD.
func (s *spec) readSpec(obj map[string]any, known []string) {
	s.path, s.known = field.NewPath("spec"), known
	if obj["spec"] == nil {
		return
	}
	given, ok := obj["spec"].(map[string]any)
	if !ok {
		s.errs = append(s.errs, field.Invalid(s.path, brief(fmt.Sprint(obj["spec"])), "must be an object"))
	}
	s.given = given
}

// value returns the value of a field. It returns nil for null, which the API server drops.
func (s *spec) value(name string) any {
	value, present := s.given[name]
	if present && value == nil {
		s.note(s.path.Child(name), LeftOut, "null has no effect")
	}
	return value
}

// text reads a string. Both operators treat an empty string as a missing one, regardless of the
// CRD.
func (s *spec) text(name string) string {
	value := s.value(name)
	if value == nil {
		return ""
	}
	text, ok := value.(string)
	switch {
	case !ok:
		s.errs = append(s.errs, field.Invalid(s.path.Child(name), brief(fmt.Sprint(value)), "must be a string: "+stringRemedy(value)))
	case text == "":
		s.note(s.path.Child(name), LeftOut, "an empty value has no effect")
	}
	return text
}

// stringRemedy returns how to make a value a string.
func stringRemedy(value any) string {
	switch value.(type) {
	case map[string]any, []any:
		return "write the JSON as a block after \"|\""
	case bool:
		return "put it in quotes; YAML parses on, off, yes and no as booleans"
	}
	return "put it in quotes"
}

// oneOf reads a string that the CRD restricts to some values.
func (s *spec) oneOf(name string, values ...string) string {
	text := s.text(name)
	if text != "" && !slices.Contains(values, text) {
		s.errs = append(s.errs, field.NotSupported(s.path.Child(name), text, values))
		return ""
	}
	return text
}

// number reads an integer, 0 if it is missing.
func (s *spec) number(name string, maximum int64) int64 {
	n, _ := s.givenNumber(name, maximum)
	return n
}

// givenNumber reads an integer and reports whether it is given.
func (s *spec) givenNumber(name string, maximum int64) (n int64, given bool) {
	value := s.value(name)
	if value == nil {
		return 0, false
	}
	return s.integer(s.path.Child(name), value, maximum)
}

// unlimited is the maximum of numbers without a maximum in the CRD.
const unlimited = math.MaxInt64

// integer checks a number.
func (s *spec) integer(path *field.Path, value any, maximum int64) (n int64, ok bool) {
	n, ok = integer(value)
	if ok && n >= 0 && n <= maximum {
		return n, true
	}
	problem := fmt.Sprintf("must be a whole number from 0 to %d", maximum)
	if maximum == unlimited {
		problem = "must be a whole number, 0 or more"
	}
	if _, isText := value.(string); isText {
		problem += ": remove the quotes"
	}
	s.errs = append(s.errs, field.Invalid(path, brief(fmt.Sprint(value)), problem))
	return 0, false
}

// integer returns a number from any decoder of YAML or JSON.
func integer(value any) (int64, bool) {
	switch v := value.(type) {
	case int:
		return int64(v), true
	case int64:
		return v, true
	case uint64:
		return int64(v), v <= math.MaxInt64 // #nosec G115 -- checked beside
	case float64:
		// 2^63 is the first that int64 does not have.
		return int64(v), v == math.Trunc(v) && math.Abs(v) < 1<<63
	case json.Number:
		n, err := strconv.ParseInt(v.String(), 10, 64)
		return n, err == nil
	}
	return 0, false
}

// unknown adds notes about the fields that the CRD does not have.
func (s *spec) unknown() {
	s.unknownOf(s.path, s.given, s.known)
}

// unknownOf adds notes about the unknown fields of an object.
func (s *spec) unknownOf(path *field.Path, fields map[string]any, known []string) {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if slices.Contains(known, name) {
			continue
		}
		why := "the CRD has no such field, so the API server drops it"
		if meant := resembling(name, known); meant != "" {
			why += ": did you mean " + meant + "?"
		}
		s.note(path.Child(name), Unknown, why)
	}
}

// resembling returns the longest known field with which a name begins, regardless of case. It also
// finds metaPlugins for metaPluginsConfig, which sriov-network-operator's own documents use.
func resembling(name string, known []string) string {
	best := ""
	for _, k := range known {
		if len(k) > len(best) && strings.HasPrefix(strings.ToLower(name), strings.ToLower(k)) {
			best = k
		}
	}
	return best
}

// brief shortens a value to one line for an error.
func brief(text string) string {
	const enough = 60
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > enough {
		return string(runes[:enough]) + "…"
	}
	return text
}
