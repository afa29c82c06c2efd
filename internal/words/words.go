// Package words makes texts for people: it counts things, and shortens texts and lists to what the API server accepts or a
// message needs.
package words

import (
	"fmt"
	"slices"
	"strings"
)

// Count returns a number with its noun. The plural ends in s, that of a noun in cy in cies, and that of one in ss in sses.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if root, of := strings.CutSuffix(noun, "cy"); of {
		noun = root + "cie"
	} else if strings.HasSuffix(noun, "ss") {
		noun += "e"
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

const ellipsis = "…"

// Short returns s if it has at most limit bytes. Otherwise it returns the beginning of
// s, as valid UTF-8, and an ellipsis.
func Short(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit-len(ellipsis)], "") + ellipsis
}

// ShortList returns items if there are at most most. Otherwise it returns the first ones, and how many more there are.
func ShortList(items []string, most int) []string {
	if len(items) <= most {
		return items
	}
	return append(slices.Clone(items[:most]), fmt.Sprintf("%d more", len(items)-most))
}

// ShortError returns err if its text has at most limit bytes, or is nil. Otherwise it returns an error that
// wraps err and has the beginning of its text.
func ShortError(err error, limit int) error {
	if err == nil || len(err.Error()) <= limit {
		return err
	}
	return &short{err, Short(err.Error(), limit)}
}

// Buffer keeps the first Limit bytes that are written to it. It accepts the rest, too: a process whose output
// nobody reads waits or dies.
type Buffer struct {
	Limit int
	Kept  []byte
	// Cut reports whether more was written than Kept has.
	Cut bool
}

// Write implements io.Writer.
func (b *Buffer) Write(p []byte) (int, error) {
	fits := min(len(p), b.Limit-len(b.Kept))
	b.Kept, b.Cut = append(b.Kept, p[:fits]...), b.Cut || fits < len(p)
	return len(p), nil
}

// short is an error with a shorter text than the one that it wraps.
type short struct {
	err  error
	text string
}

func (e *short) Error() string { return e.text }
func (e *short) Unwrap() error { return e.err }
