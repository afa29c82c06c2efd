package operators

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/nadra-dev/nadra/internal/jsontext"
)

// config is the text of a CNI configuration. It is assembled as the templates do it: with the values
// of the object as they are. The text is JSON if each piece is JSON. It may also be JSON if no piece
// is: an ipam of
//
//	{"type": "static"}, "mtu": 9000
//
// sets the plugin's MTU, and some users rely on it.
type config struct {
	// members has the members of the first plugin, with a comma after each.
	members []byte
	// chained has the plugins after it, with a comma before each.
	chained []byte
	pieces  []piece
}

// assemble returns the whole configuration.
func (c *config) assemble(name, cniVersion string) []byte {
	head := fmt.Appendf(nil, `{"cniVersion":%s,"name":%s,`, mustJSON(cniVersion), mustJSON(name))
	members := bytes.TrimSuffix(c.members, []byte(","))
	if c.chained == nil {
		return slices.Concat(head, members, []byte("}"))
	}
	return slices.Concat(head, []byte(`"plugins":[{`), members, []byte("}"), c.chained, []byte("]}"))
}

// member writes a value as JSON.
func (c *config) member(key string, value any) {
	c.members = fmt.Appendf(c.members, "%q:%s,", key, mustJSON(value))
}

// optional writes a value unless it is empty.
func (c *config) optional(key, value string) {
	if value != "" {
		c.member(key, value)
	}
}

// unlessZero writes a number unless it is 0.
func (r *rendering) unlessZero(name string, maximum int64) {
	n, given := r.givenNumber(name, maximum)
	switch {
	case n != 0:
		r.member(name, n)
	case given:
		r.note(r.path.Child(name), LeftOut, "0 has no effect")
	}
}

// quoted writes the text of a field between quotes, without escaping it.
func (r *rendering) quoted(key, name string) {
	if value := r.text(name); value != "" {
		p := r.piece(name, value, asWritten)
		p.before, p.after = `"`, `"`
		r.members = fmt.Appendf(r.members, `%q:"%s",`, key, p.text)
		r.pieces = append(r.pieces, p)
	}
}

// capabilities writes the object of capabilities as it is.
func (r *rendering) capabilities() {
	if value := r.text("capabilities"); value != "" {
		p := r.piece("capabilities", value, asWritten)
		p.shape = booleans
		r.members = fmt.Appendf(r.members, `"capabilities":%s,`, p.text)
		r.pieces = append(r.pieces, p)
	}
}

// ipam writes the object of ipam, or {} if it is missing.
func (r *rendering) ipam(m manner) {
	value := r.text("ipam")
	if value == "" {
		r.member("ipam", struct{}{})
		return
	}
	p := r.piece("ipam", value, m)
	p.shape = anObject
	r.members = fmt.Appendf(r.members, `"ipam":%s,`, p.text)
	r.pieces = append(r.pieces, p)
}

// metaPlugins writes the plugins after the first one as they are.
func (r *rendering) metaPlugins() {
	if value := r.text("metaPlugins"); value != "" {
		p := r.piece("metaPlugins", value, asWritten)
		p.before, p.after, p.shape = "[{},", "]", plugins
		r.chained = fmt.Appendf(nil, ",%s", p.text)
		r.pieces = append(r.pieces, p)
	}
}

// check reports the pieces that make the text invalid JSON, and those that libcni could not use.
func (c *config) check(text []byte, s *spec) {
	whole := json.Valid(text)
	for _, p := range c.pieces {
		if p.broken {
			continue
		}
		err := p.syntax()
		switch {
		case err != nil && whole:
			s.note(p.path, Altered, "is not valid JSON by itself; the operator's template inserts it as it is, and the definition is valid")
		case err != nil:
			s.errs = append(s.errs, field.Invalid(p.path, brief(p.value), err.Error()))
		default:
			p.checkValue(s)
		}
	}
}

// piece is a text of the object after the YAML of the template was parsed.
type piece struct {
	path  *field.Path
	value string
	text  []byte
	// at has the offset in value of each byte of text.
	at []int
	// before and after make JSON of the text.
	before, after string
	// shape returns an error for JSON that libcni could not use.
	shape  func(json.RawMessage) error
	manner manner
	// broken is set if a quote ends the string. The error is already reported.
	broken bool
}

// manner is how the operator inserts a field into the template.
type manner int

const (
	asWritten manner = iota
	// squeezed removes all white space, also within strings.
	squeezed
)

// piece reads the value of a field as the YAML of the templates does. There, the configuration is a
// string in single quotes over several lines: a doubled quote is one quote, a single quote ends the
// string, and a line break is a space.
func (r *rendering) piece(name, value string, m manner) piece {
	p := piece{path: r.path.Child(name), value: value, manner: m}
	for i := 0; i < len(value); {
		c, size := utf8.DecodeRuneInString(value[i:])
		if m == asWritten || !unicode.IsSpace(c) {
			p.write(c, i)
		}
		i += size
	}
	p.fold()
	if at := p.unquote(); at >= 0 {
		p.broken = true
		line, column := jsontext.Position([]byte(value), at)
		r.errs = append(r.errs, field.Invalid(p.path, brief(value), fmt.Sprintf(
			`line %d, column %d: a single quote ends the YAML string of the operator's template, which then fails: write \u0027 instead`, line, column)))
	}
	return p
}

// write appends a character that is at an offset of the value.
func (p *piece) write(c rune, at int) {
	before := len(p.text)
	p.text = utf8.AppendRune(p.text, c)
	for range len(p.text) - before {
		p.at = append(p.at, at)
	}
}

// fold replaces each single line break, with the blanks around it, by a space, and removes one line
// break from several in a row.
func (p *piece) fold() {
	text, at := p.text, p.at
	p.text, p.at = nil, nil
	for i := 0; i < len(text); {
		end := i
		for end < len(text) && strings.IndexByte(" \t\r\n", text[end]) >= 0 {
			end++
		}
		switch breaks := bytes.Count(text[i:end], []byte("\n")); {
		case breaks == 1:
			p.write(' ', at[i])
		case breaks > 1:
			for range breaks - 1 {
				p.write('\n', at[i])
			}
		default:
			end = max(end, i+1)
			p.text, p.at = append(p.text, text[i:end]...), append(p.at, at[i:end]...)
		}
		i = end
	}
}

// unquote replaces doubled quotes. It returns the offset of a single quote in the value, or -1.
func (p *piece) unquote() int {
	text, at := p.text, p.at
	p.text, p.at = nil, nil
	for i := 0; i < len(text); i++ {
		if text[i] == '\'' {
			if i+1 == len(text) || text[i+1] != '\'' {
				return at[i]
			}
			i++
		}
		p.text, p.at = append(p.text, text[i]), append(p.at, at[i])
	}
	return -1
}

// whole returns the piece as JSON.
func (p *piece) whole() []byte {
	return slices.Concat([]byte(p.before), p.text, []byte(p.after))
}

// syntax returns an error with the position in the value at which the piece becomes invalid JSON.
func (p *piece) syntax() error {
	text := p.whole()
	err := json.Unmarshal(text, new(json.RawMessage))
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) {
		return err
	}
	offender := jsontext.Offender(text, syntax)
	inValue := len(p.value)
	if i := offender - len(p.before); i < len(p.at) {
		inValue = p.at[max(i, 0)]
	}
	line, column := jsontext.Position([]byte(p.value), inValue)
	return fmt.Errorf("line %d, column %d: %w%s", line, column, err, jsontext.Hint(text, offender, syntax))
}

// checkValue checks a piece that is valid JSON.
func (p *piece) checkValue(s *spec) {
	text := p.whole()
	if p.shape != nil {
		if err := p.shape(text); err != nil {
			s.errs = append(s.errs, field.Invalid(p.path, brief(p.value), err.Error()))
		}
	}
	written := p.before + p.value + p.after
	switch {
	case compact([]byte(written)) == compact(text):
	case p.manner == squeezed:
		s.note(p.path, Altered, "the operator removes all white space, also within strings")
	default:
		s.note(p.path, Altered, "the operator's template is YAML, where two single quotes are one quote, and a line break within a string is a space")
	}
}

// compact returns JSON without white space, or "" if it is invalid.
func compact(text []byte) string {
	var out bytes.Buffer
	if json.Compact(&out, text) != nil {
		return ""
	}
	return out.String()
}

// anObject checks the shape of ipam.
func anObject(text json.RawMessage) error {
	var o map[string]json.RawMessage
	if json.Unmarshal(text, &o) != nil {
		return errors.New(`must be an object: write for example {"type": "host-local", "subnet": "10.1.0.0/24"}`)
	}
	return nil
}

// booleans checks the shape of capabilities.
func booleans(text json.RawMessage) error {
	var b map[string]bool
	if json.Unmarshal(text, &b) != nil {
		return errors.New(`must be an object of booleans: write for example {"mac": true}`)
	}
	return nil
}

// plugins checks the shape of metaPlugins in brackets, after an empty object.
func plugins(text json.RawMessage) error {
	var list []json.RawMessage
	if err := json.Unmarshal(text, &list); err != nil {
		return err
	}
	for i, element := range list[1:] {
		var plugin struct {
			Type string `json:"type"`
		}
		if json.Unmarshal(element, &plugin) != nil || plugin.Type == "" {
			return fmt.Errorf(`plugin %d has no type: write the objects of the plugins with commas between them and without brackets, for example {"type": "tuning"}, {"type": "sbr"}`, i+1)
		}
	}
	return nil
}

// indented indents JSON as sriov-network-operator does.
func indented(text []byte) string {
	var out bytes.Buffer
	if json.Indent(&out, text, "", "    ") != nil {
		return string(text)
	}
	return out.String()
}

// mustJSON encodes a value whose encoding cannot fail.
func mustJSON(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encoding %T: %v", v, err))
	}
	return raw
}
