package translate

import "fmt"

// Edited makes edits to a manifest of one document. Like a conversion's, they
// leave every other byte as it is.
func Edited(f File, edits []Edit) ([]byte, error) {
	docs := split(f)
	if len(docs) != 1 {
		return nil, fmt.Errorf("editing %s: it has %d documents: only one can be edited", f.Name, len(docs))
	}
	d := docs[0]
	if d.parse(); d.err != nil {
		return nil, fmt.Errorf("editing %s: %w", f.Name, d.err)
	}
	if d.root == nil {
		return nil, fmt.Errorf("editing %s: it is empty", f.Name)
	}
	text, err := d.edited(edits)
	if err != nil {
		return nil, fmt.Errorf("editing %s: %w", f.Name, err)
	}
	return text, nil
}

// Documents cuts a text into its documents; joined, they are the text.
func Documents(text []byte) [][]byte {
	var out [][]byte
	for _, d := range split(File{Data: text}) {
		out = append(out, d.text)
	}
	return out
}
