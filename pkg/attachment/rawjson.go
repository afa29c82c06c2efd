package attachment

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// object is a JSON object with raw values, so that numbers beyond 2^53 and unknown keys are
// preserved. The last one of duplicate keys is effective, as everywhere in encoding/json.
type object = map[string]json.RawMessage

// text returns the value of a key if it is a string, or "".
func text(o object, key string) string {
	var s string
	if json.Unmarshal(o[key], &s) != nil {
		return ""
	}
	return s
}

// mustJSON encodes a value whose encoding cannot fail.
func mustJSON(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encoding %T: %v", v, err))
	}
	return raw
}

// sortedKeys returns the same JSON with the keys of all objects sorted, as the API server writes parameters in
// a server-side apply. It refuses an apply to a claim's status, by any driver, if that changes a byte of the
// allocation, which has the parameters of the claim and of its class.
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
