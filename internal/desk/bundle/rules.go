package bundle

import (
	_ "embed"
	"regexp"
	"strings"
	"sync"

	"sigs.k8s.io/yaml"

	"github.com/nadra-dev/nadra/pkg/api/reason"
)

//go:embed fields.yaml
var fieldsFile []byte

// rule says what is kept of a value: by a shape, or by the fields of an object.
type rule struct {
	shape  string
	fields map[string]*rule
}

// Special names in fields.yaml.
const (
	sameFields = "(same)"
	ifJSON     = "(json)"
	otherwise  = "(else)"
)

// load reads fields.yaml, which is part of the program: the rules by kind, and an expression for the
// phrases that are kept of a message.
var load = sync.OnceValues(func() (allowed *rule, known *regexp.Regexp) {
	var file map[string]any
	if err := yaml.Unmarshal(fieldsFile, &file); err != nil {
		panic("reading fields.yaml: " + err.Error()) // TestFields runs into it first
	}
	parts := []string{`\bNADRA-[0-9]{3}\b`}
	for _, e := range reason.All() {
		parts = append(parts, `\b`+string(e.Code)+`\b`)
	}
	phrases, _ := file["phrases"].([]any)
	for _, p := range phrases {
		parts = append(parts, `(?i:\b`+regexp.QuoteMeta(p.(string))+`\b)`)
	}
	delete(file, "phrases")
	return newRule(file), regexp.MustCompile(strings.Join(parts, "|"))
})

// newRule returns the rule for a part of fields.yaml.
func newRule(part any) *rule {
	fields, isObject := part.(map[string]any)
	if !isObject {
		shape, _ := part.(string) // anything else allows nothing
		return &rule{shape: shape}
	}
	r := &rule{fields: map[string]*rule{}}
	for name, inner := range fields {
		if name != sameFields {
			r.fields[name] = newRule(inner)
			continue
		}
		for name := range strings.FieldsSeq(inner.(string)) {
			r.fields[name] = &rule{shape: "same"}
		}
	}
	return r
}

// of returns the rule for a field, or nil if the field is not listed.
func (r *rule) of(name string) *rule {
	if found := r.fields[name]; found != nil && !strings.HasSuffix(name, "*") && !strings.HasPrefix(name, "(") {
		return found
	}
	if !shapes["word"].MatchString(name) {
		return nil
	}
	for pattern, inner := range r.fields {
		if prefix, isPattern := strings.CutSuffix(pattern, "*"); isPattern && prefix != "" && strings.HasPrefix(name, prefix) {
			return inner
		}
	}
	return r.fields["*"]
}

// shapes match the strings that the rules of these names keep.
var shapes = map[string]*regexp.Regexp{
	"word":     regexp.MustCompile(`^[A-Za-z0-9._:/,+*-]{0,253}(@sha256:[0-9a-f]{64})?$`),
	"same":     regexp.MustCompile(`^[A-Za-z0-9._:/,+*-]{0,253}$`),
	"number":   regexp.MustCompile(`^(true|false)?$`),
	"title":    regexp.MustCompile(`^[A-Za-z0-9 .,:;()'/_~+-]{0,200}(@sha256:[0-9a-f]{64})?$`),
	"networks": regexp.MustCompile(`^[a-z0-9./@, \n-]*$`),
	"pci":      regexp.MustCompile(`^[0-9a-f:.,]*$`),
}
