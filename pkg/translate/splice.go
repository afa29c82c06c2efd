package translate

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

// edited returns the document's text with edits made. The document is not
// changed. What is returned reads back as the edited tree, or there is an error.
func (d *document) edited(edits []Edit) ([]byte, error) {
	var want any = d.root
	for _, e := range edits {
		if err := patch(&want, e); err != nil {
			return nil, err
		}
	}
	now := &document{file: d.file, line: d.line, text: d.text, root: d.root}
	// What ends at one place of the text is written from the inside out.
	pending := slices.Clone(edits)
	slices.SortStableFunc(pending, func(a, b Edit) int { return cmp.Compare(len(b.Path), len(a.Path)) })
	for len(pending) > 0 {
		rest, err := now.round(pending)
		if err != nil {
			return nil, err
		}
		if len(rest) == len(pending) {
			return nil, errText
		}
		pending = rest
	}
	if now.root == nil || !reads(now.root, want) {
		return nil, errors.New("the changed text reads back as something else")
	}
	return now.text, nil
}

// round makes the edits that are independent of each other in one go, parses
// the text anew, and returns those that wait for the next round.
func (d *document) round(edits []Edit) ([]Edit, error) {
	sp := &splicer{source: d.source(), flow: map[*yaml.Node]bool{}, layout: layoutOf(d)}
	var waiting []Edit
	for _, e := range edits {
		done, err := sp.edit(d.root, e)
		if err != nil {
			return nil, fmt.Errorf("editing %s: %w", e.Path, err)
		}
		if !done {
			waiting = append(waiting, e)
		}
	}
	d.text = sp.apply()
	d.parse()
	if d.err != nil {
		return nil, d.err
	}
	return waiting, nil
}

// splicer collects replacements of parts of a text.
type splicer struct {
	source
	layout layout
	parts  []part
	// flow are the flow collections that have an edit: commas make the next
	// one depend on it.
	flow map[*yaml.Node]bool
	// chomped is set when chomp has been at work.
	chomped bool
}

// part replaces text[from:to]. Parts of the same place keep their order.
type part struct {
	from, to int
	text     string
}

func (sp *splicer) apply() []byte {
	slices.SortStableFunc(sp.parts, func(a, b part) int { return cmp.Compare(a.from, b.from) })
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

func (sp *splicer) put(from, to int, text string) error {
	if from > to || to > len(sp.text) {
		return errText
	}
	sp.parts = append(sp.parts, part{from, to, text})
	return nil
}

// edit adds an edit's parts; done is false if it has to wait.
func (sp *splicer) edit(root *yaml.Node, e Edit) (done bool, err error) {
	parent := root
	for _, s := range e.Path[:len(e.Path)-1] {
		if parent = step(parent, s); parent == nil {
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
		at = keyIndex(parent, last)
	}
	switch {
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

// addBlock puts an entry or item on lines of its own after the last one.
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
		lines = spaces(indent) + entry(field{key, value}, indent, sp.layout)
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

// chomp is for a block of text that the file ends with, without a line end: so
// that it does not get one when lines follow, its header says "-".
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

// addFlow puts an entry or item after the last one, on a line of its own if
// that is how the others are written.
func (sp *splicer) addFlow(parent *yaml.Node, key string, value any) error {
	quoted := sp.layout.quoted
	lead := ""
	if parent.Kind == yaml.MappingNode {
		lead = scalar(key, quoted) + ": "
	}
	start, err := sp.properties(sp.start(parent))
	if err != nil {
		return err
	}
	if len(parent.Content) == 0 {
		return sp.put(start+1, start+1, lead+flow(value, quoted))
	}
	end, err := sp.end(parent.Content[len(parent.Content)-1])
	if err != nil {
		return err
	}
	if first := parent.Content[0]; quoted && first.Line > parent.Line {
		indent := first.Column - 1
		return sp.put(end, end, ","+sp.layout.newline+spaces(indent)+lead+pretty(value, indent, sp.layout))
	}
	return sp.put(end, end, ", "+lead+flow(value, quoted))
}

// set replaces a value. A scalar keeps its quotes.
func (sp *splicer) set(parent *yaml.Node, at int, value any) error {
	key, old := parent.Content[at], parent.Content[at+1]
	end, err := sp.end(old)
	if err != nil {
		return err
	}
	if s, isString := value.(string); isString && old.Kind == yaml.ScalarNode && !isEmpty(old) {
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
		text = entry(field{"k", value}, key.Column-1, sp.layout)[1:]
	}
	return sp.put(from, max(end, from+1), text)
}

func isNumber(s string) bool {
	_, err := strconv.Atoi(s)
	return err == nil
}

// removeBlock takes an entry's lines away, with the comment at their end.
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
	// It shares its line with the "-" of a list.
	if at+2 >= len(parent.Content) {
		return errText
	}
	return sp.put(start, sp.start(parent.Content[at+2]), "")
}

// removeFlow takes an entry away with the comma before or after it.
func (sp *splicer) removeFlow(parent *yaml.Node, at int) error {
	from := sp.start(parent.Content[at])
	to, err := sp.end(parent.Content[at+1])
	if err != nil {
		return err
	}
	switch {
	case at > 0:
		from, err = sp.end(parent.Content[at-1])
	case len(parent.Content) > 2:
		to = sp.start(parent.Content[2])
	default:
		if next := sp.blank(to); next < len(sp.text) && sp.text[next] == ',' {
			to = next + 1
		}
	}
	if err != nil {
		return err
	}
	return sp.put(from, to, "")
}
