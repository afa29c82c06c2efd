package translate

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
)

// elementKey is one key of one element of the annotation, as its author wrote it.
type elementKey struct {
	element int
	key     string
	value   json.RawMessage
	// at is the offset in the annotation's value.
	at int
}

// effect is what a key of an element does.
type effect int

const (
	effective effect = iota
	overruled
	unknown
)

// elementKeys returns the keys of all elements in the order of the text, with duplicates. For the
// comma form it returns the keys that the items stand for, for an invalid annotation none.
func elementKeys(annotation string) []elementKey {
	if !strings.ContainsAny(annotation, `[{"`) {
		return itemKeys(annotation)
	}
	decoder := json.NewDecoder(strings.NewReader(annotation))
	var keys []elementKey
	if token, err := decoder.Token(); err != nil || token != json.Delim('[') {
		return nil
	}
	for i := 0; decoder.More(); i++ {
		if token, err := decoder.Token(); err != nil || token != json.Delim('{') {
			return nil
		}
		for decoder.More() {
			k, err := nextKey(decoder, annotation)
			if err != nil {
				return nil
			}
			k.element = i
			keys = append(keys, k)
		}
		if _, err := decoder.Token(); err != nil {
			return nil
		}
	}
	return keys
}

func nextKey(decoder *json.Decoder, text string) (elementKey, error) {
	before := int(decoder.InputOffset())
	token, err := decoder.Token()
	if err != nil {
		return elementKey{}, err
	}
	k := elementKey{at: before + max(strings.IndexByte(text[before:], '"'), 0)}
	k.key, _ = token.(string)
	return k, decoder.Decode(&k.value)
}

// itemKeys returns the keys of the comma form.
func itemKeys(annotation string) []elementKey {
	if annotation == "" {
		return nil
	}
	var keys []elementKey
	at := 0
	for i, item := range strings.Split(annotation, ",") {
		start := at + len(item) - len(strings.TrimLeft(item, " \t\r\n"))
		if strings.Contains(item, "/") {
			keys = append(keys, elementKey{element: i, key: "namespace", at: start})
		}
		keys = append(keys, elementKey{element: i, key: "name", at: start})
		if strings.Contains(item, "@") {
			keys = append(keys, elementKey{element: i, key: "interface", at: start})
		}
		at += len(item) + 1
	}
	return keys
}

// effects returns the effect of each key. The last one of equal keys is effective, regardless of
// case, and interface overrules interfaceRequest.
func effects(keys []elementKey, unknownOf func(element int) []string) []effect {
	type place struct {
		element int
		key     string
	}
	last := map[place]int{}
	for i, k := range keys {
		last[place{k.element, strings.ToLower(k.key)}] = i
	}
	out := make([]effect, len(keys))
	for i, k := range keys {
		name := strings.ToLower(k.key)
		named, given := last[place{k.element, "interface"}]
		switch {
		case slices.Contains(unknownOf(k.element), k.key):
			out[i] = unknown
		case last[place{k.element, name}] != i, name == "interfacerequest" && given && !isEmpty(keys[named].value):
			out[i] = overruled
		}
	}
	return out
}

// isEmpty reports whether the value of a key is an empty string or null.
func isEmpty(value json.RawMessage) bool { return string(value) == `""` || string(value) == "null" }

// slashInName returns the first name of a JSON element that contains a namespace.
func slashInName(keys []elementKey) (elementKey, bool) {
	for _, k := range keys {
		if k.value != nil && strings.EqualFold(k.key, "name") && bytes.ContainsRune(k.value, '/') {
			return k, true
		}
	}
	return elementKey{}, false
}

// syntaxOffset returns the offset at which a JSON annotation becomes invalid.
func syntaxOffset(annotation string) int {
	var v any
	var syntax *json.SyntaxError
	if !errors.As(json.Unmarshal([]byte(annotation), &v), &syntax) {
		return 0
	}
	if strings.HasPrefix(syntax.Error(), "unexpected end") {
		return len(annotation)
	}
	return max(int(syntax.Offset)-1, 0)
}
