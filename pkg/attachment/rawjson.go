package attachment

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
)

// object is a JSON object with raw values, so that numbers beyond 2^53 and unknown keys are
// preserved. The last one of duplicate keys is effective, as everywhere in encoding/json.
type object = map[string]json.RawMessage

// pluginKeys are the keys of a plugin's configuration that nadra writes by one spelling.
var pluginKeys = []string{"args", "device", "deviceID", "hwaddr", "kernelpath", "linkInContainer", "mac", "master", "mode", "pciBusID", "vlan"}

// spelled decodes a JSON object, with its keys of known in that spelling, because plugins read a key in whatever
// case (encoding/json). It refuses two keys that are one for them: which of them counts would depend on their order, which
// nadra changes. It returns nil for null.
func spelled(raw json.RawMessage, known ...string) (object, error) {
	if isNull(raw) {
		return nil, nil
	}
	var in object
	if err := decodeJSON(raw, &in); err != nil {
		return nil, err
	}
	spelling := make(map[string]string, len(known))
	for _, key := range known {
		spelling[folded(key)] = key
	}
	out, keys := make(object, len(in)), make(map[string]string, len(in))
	for _, key := range slices.Sorted(maps.Keys(in)) {
		one := folded(key)
		if other, found := keys[one]; found {
			return nil, fmt.Errorf("keys %q and %q are the same for plugins: remove one of them", other, key)
		}
		keys[one] = key
		out[cmp.Or(spelling[one], key)] = in[key]
	}
	return out, nil
}

// folded returns a key as encoding/json compares it with the names of fields.
func folded(key string) string {
	return strings.Map(func(r rune) rune {
		next := unicode.SimpleFold(r)
		for next > r {
			r, next = next, unicode.SimpleFold(next)
		}
		return next
	}, key)
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
