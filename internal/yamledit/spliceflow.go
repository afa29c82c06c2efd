package yamledit

import "go.yaml.in/yaml/v3"

// addFlow adds an entry or item after the last one, on a new line if the others are on lines
// of their own.
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

// removeFlow removes an entry with the comma before or after it.
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
