package cli

import (
	"encoding/binary"
	"strings"
	"testing"
	"unicode/utf16"
)

// TestUTF16 reads what PowerShell writes to a file.
func TestUTF16(t *testing.T) {
	const text = "a: ü\n---\nb: 𝄞\n"
	for name, order := range map[string]binary.AppendByteOrder{"little endian": binary.LittleEndian, "big endian": binary.BigEndian} {
		var written []byte
		for _, unit := range utf16.Encode([]rune("\ufeff" + text)) {
			written = order.AppendUint16(written, unit)
		}
		if got, err := limited(strings.NewReader(string(written)), "a file"); err != nil || string(got) != text {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
