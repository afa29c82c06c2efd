package admission

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// positionIn returns the position of a finding in the value of the networks annotation. The finding
// itself has the position in the API server's JSON of the pod, which its author has not seen.
// positionIn returns "" if the position is that of the value.
func positionIn(manifest []byte, f translate.Finding) string {
	start := -1
	for _, key := range []string{attachment.NetworksAnnotation, attachment.OwnNetworksAnnotation} {
		if strings.HasSuffix(f.Field, "["+key+"]") {
			start = valueStart(manifest, "metadata", "annotations", key)
		}
	}
	at := offset(manifest, f.Position)
	if start < 0 || at <= start || at > len(manifest) {
		return ""
	}
	var before string
	if json.Unmarshal(append(bytes.Clone(manifest[start:at]), '"'), &before) != nil || before == "" {
		return ""
	}
	line := strings.Count(before, "\n")
	column := utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1
	if line == 0 {
		return fmt.Sprintf("column %d", column)
	}
	return fmt.Sprintf("line %d, column %d", line+1, column)
}

// valueStart returns the offset of the value to which keys lead, or -1.
func valueStart(text []byte, path ...string) int {
	decoder := json.NewDecoder(bytes.NewReader(text))
	for _, key := range path {
		if !enter(decoder, key) {
			return -1
		}
	}
	at := int(decoder.InputOffset())
	for at < len(text) && strings.IndexByte(" \t\r\n:", text[at]) >= 0 {
		at++
	}
	return at
}

// enter reads an object up to the value of a key.
func enter(decoder *json.Decoder, key string) bool {
	if token, err := decoder.Token(); err != nil || token != json.Delim('{') {
		return false
	}
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return false
		}
		if token == key {
			return true
		}
		var skipped json.RawMessage
		if decoder.Decode(&skipped) != nil {
			return false
		}
	}
	return false
}

// offset returns the offset of a position. Its column counts characters.
func offset(text []byte, p translate.Position) int {
	at := 0
	for line := 1; line < p.Line; line++ {
		i := bytes.IndexByte(text[at:], '\n')
		if i < 0 {
			return -1
		}
		at += i + 1
	}
	for column := 1; column < p.Column && at < len(text); column++ {
		_, size := utf8.DecodeRune(text[at:])
		at += size
	}
	return at
}
