package attachment

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// object is a JSON object whose values stay as they are written: numbers beyond
// 2^53 and unknown keys survive being read and written. Of a key that occurs
// twice the last one counts, as everywhere in encoding/json.
type object = map[string]json.RawMessage

// text returns the value of a key if it is a string, else "".
func text(o object, key string) string {
	var s string
	if json.Unmarshal(o[key], &s) != nil {
		return ""
	}
	return s
}

// mustJSON is for values whose encoding cannot fail.
func mustJSON(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encoding %T: %v", v, err))
	}
	return raw
}

// sortedKeys is the same JSON with the keys of all objects sorted: the form in
// which the API server writes a claim's parameters when it writes them anew.
func sortedKeys(raw json.RawMessage) json.RawMessage {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var tree any
	if decoder.Decode(&tree) != nil {
		return raw
	}
	return mustJSON(tree)
}

// isNull reports whether a value is absent or null.
func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }
