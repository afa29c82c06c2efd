package yamledit

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Edited applies edits to a file that has one document, and returns its new text. name is the
// file's name in errors.
func Edited(name string, data []byte, edits []Edit) ([]byte, error) {
	parts := Split(data)
	if len(parts) != 1 {
		return nil, fmt.Errorf("editing %s: it has %d documents: only a file with one document can be edited", name, len(parts))
	}
	d, err := Parse(parts[0])
	if err != nil {
		return nil, fmt.Errorf("editing %s: %w", name, err)
	}
	if d.Root == nil {
		return nil, fmt.Errorf("editing %s: it is empty", name)
	}
	text, err := d.Edit(edits)
	if err != nil {
		return nil, fmt.Errorf("editing %s: %w", name, err)
	}
	return text, nil
}

// Edit returns the document's text with the edits applied. It does not change the document. It
// returns an error unless the new text parses as the edited tree.
func (d *Document) Edit(edits []Edit) ([]byte, error) {
	var want any = d.Root
	for _, e := range edits {
		if err := patch(&want, e); err != nil {
			return nil, err
		}
	}
	now := d
	// Values that end at the same place of the text are written from the inside out.
	pending := slices.Clone(edits)
	slices.SortStableFunc(pending, func(a, b Edit) int { return cmp.Compare(len(b.Path), len(a.Path)) })
	for len(pending) > 0 {
		next, rest, err := now.round(pending)
		if err != nil {
			return nil, err
		}
		if len(rest) == len(pending) {
			return nil, errText
		}
		now, pending = next, rest
	}
	if now.Root == nil || !reads(now.Root, want) {
		return nil, errors.New("the changed text does not parse as the edited document")
	}
	return now.Text, nil
}

// round applies the edits that are independent of each other. It returns the document that the
// new text parses as, and the edits that wait for the next round.
func (d *Document) round(edits []Edit) (next *Document, waiting []Edit, err error) {
	sp := &splicer{source: d.source(), flow: map[*yaml.Node]bool{}, layout: layoutOf(d)}
	for _, e := range edits {
		done, err := sp.edit(d.Root, e)
		if err != nil {
			return nil, nil, fmt.Errorf("editing %s: %w", e.Path, err)
		}
		if !done {
			waiting = append(waiting, e)
		}
	}
	next, err = Parse(Part{Line: d.Line, Text: sp.apply()})
	return next, waiting, err
}

// splicer collects replacements in a text.
type splicer struct {
	source
	layout layout
	parts  []replacement
	// flow has the flow collections that have an edit. Commas make further edits depend on it,
	// so they wait for the next round.
	flow map[*yaml.Node]bool
	// chomped is set once chomp has changed a header.
	chomped bool
}

// replacement replaces text[from:to]. Replacements at the same place keep their order.
type replacement struct {
	from, to int
	text     string
}

// apply returns the text with all replacements.
func (sp *splicer) apply() []byte {
	slices.SortStableFunc(sp.parts, func(a, b replacement) int { return cmp.Compare(a.from, b.from) })
	var out bytes.Buffer
	at := 0
	for _, p := range sp.parts {
		if p.from > at {
			out.Write(sp.text[at:p.from])
		}
		out.WriteString(p.text)
		at = max(at, p.to)
	}
	out.Write(sp.text[at:])
	return out.Bytes()
}

// put adds a replacement.
func (sp *splicer) put(from, to int, text string) error {
	if from > to || to > len(sp.text) {
		return errText
	}
	sp.parts = append(sp.parts, replacement{from, to, text})
	return nil
}

// edit adds the replacements of an edit. done is false if the edit has to wait.
func (sp *splicer) edit(root *yaml.Node, e Edit) (done bool, err error) {
	parent := root
	for _, s := range e.Path[:len(e.Path)-1] {
		if parent = Child(parent, s); parent == nil {
			return false, errText
		}
	}
	inFlow := parent.Style&yaml.FlowStyle != 0
	if inFlow && sp.flow[parent] {
		return false, nil
	}
	sp.flow[parent] = inFlow
	last := e.Path[len(e.Path)-1]
	at := -1
	if parent.Kind == yaml.MappingNode {
		at = KeyIndex(parent, last)
	}
	switch {
	case e.Op == Rename && at >= 0:
		return true, sp.rename(parent.Content[at], fmt.Sprint(e.Value))
	case e.Op == Remove && at >= 0 && inFlow:
		return true, sp.removeFlow(parent, at)
	case e.Op == Remove && at >= 0:
		return true, sp.removeBlock(parent, at)
	case e.Op != Remove && at >= 0:
		return true, sp.set(parent, at, e.Value)
	case e.Op == Add && inFlow:
		return true, sp.addFlow(parent, last, e.Value)
	case e.Op == Add:
		return true, sp.addBlock(parent, last, e.Value)
	}
	return false, errText
}

// addBlock adds an entry or item on new lines after the last one.
func (sp *splicer) addBlock(parent *yaml.Node, key string, value any) error {
	if len(parent.Content) == 0 {
		return errText
	}
	end, err := sp.end(parent)
	if err != nil {
		return err
	}
	indent := parent.Content[0].Column - 1
	var lines string
	if parent.Kind == yaml.SequenceNode {
		indent = parent.Column - 1
		lines = block([]any{value}, indent, sp.layout)
	} else {
		lines = spaces(indent) + entry(Field{key, value}, indent, sp.layout)
	}
	at := sp.nextLine(end)
	if at == len(sp.text) && !bytes.HasSuffix(sp.text, []byte("\n")) {
		if err := sp.chomp(parent); err != nil {
			return err
		}
		return sp.put(at, at, sp.layout.newline+lines)
	}
	return sp.put(at, at, lines+sp.layout.newline)
}

// chomp writes "-" into the header of a block of text with which the file ends, without a line
// end. Otherwise the value would get a line end when lines follow.
func (sp *splicer) chomp(n *yaml.Node) error {
	for len(n.Content) > 0 {
		n = n.Content[len(n.Content)-1]
	}
	if n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) == 0 || sp.chomped {
		return nil
	}
	at, err := sp.properties(sp.start(n))
	if err != nil {
		return err
	}
	sp.chomped = true
	header := sp.text[at:sp.nextLine(at)]
	switch indicator := bytes.IndexAny(header, "+-#\n"); {
	case indicator < 0 || header[indicator] == '-':
		return nil
	case header[indicator] == '+':
		return sp.put(at+indicator, at+indicator+1, "-")
	}
	return sp.put(at+1, at+1, "-")
}

// set replaces a value. A scalar keeps its quotes.
func (sp *splicer) set(parent *yaml.Node, at int, value any) error {
	key, old := parent.Content[at], parent.Content[at+1]
	end, err := sp.end(old)
	if err != nil {
		return err
	}
	if s, isString := value.(string); isString && old.Kind == yaml.ScalarNode && !IsEmpty(old) {
		quoted := old.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 || isNumber(s) && old.ShortTag() == "!!str"
		if !quoted && isNumber(s) {
			return sp.put(sp.start(old), end, s)
		}
		if old.Style&yaml.SingleQuotedStyle != 0 {
			return sp.put(sp.start(old), end, "'"+strings.ReplaceAll(s, "'", "''")+"'")
		}
		return sp.put(sp.start(old), end, scalar(s, quoted))
	}
	from, err := sp.end(key)
	if err != nil {
		return err
	}
	text := ": " + flow(value, sp.layout.quoted)
	if parent.Style&yaml.FlowStyle == 0 {
		text = entry(Field{"k", value}, key.Column-1, sp.layout)[1:]
	}
	return sp.put(from, max(end, from+1), text)
}

// rename replaces a key, which keeps its quotes.
func (sp *splicer) rename(key *yaml.Node, name string) error {
	end, err := sp.end(key)
	if err != nil {
		return err
	}
	if key.Style&yaml.SingleQuotedStyle != 0 {
		return sp.put(sp.start(key), end, "'"+strings.ReplaceAll(name, "'", "''")+"'")
	}
	return sp.put(sp.start(key), end, scalar(name, key.Style&yaml.DoubleQuotedStyle != 0))
}

func isNumber(s string) bool {
	_, err := strconv.Atoi(s)
	return err == nil
}

// removeBlock removes the lines of an entry, with the comment at their end.
func (sp *splicer) removeBlock(parent *yaml.Node, at int) error {
	key := parent.Content[at]
	end, err := sp.end(parent.Content[at+1])
	if err != nil {
		return err
	}
	start := sp.start(key)
	line := sp.lineStart(start)
	if len(bytes.TrimLeft(sp.text[line:start], " ")) == 0 {
		return sp.put(line, sp.nextLine(end), "")
	}
	// The entry shares its line with the "-" of a list.
	if at+2 >= len(parent.Content) {
		return errText
	}
	return sp.put(start, sp.start(parent.Content[at+2]), "")
}
