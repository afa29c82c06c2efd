package cli

import (
	"encoding/binary"
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
		if got := inUTF8(written); string(got) != text {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := inUTF8([]byte(text)); string(got) != text {
		t.Errorf("UTF-8 becomes %q", got)
	}
}
