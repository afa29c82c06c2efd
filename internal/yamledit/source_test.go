package yamledit

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// TestPlaces checks that place and offset are inverse, in lines of any length.
func TestPlaces(t *testing.T) {
	text := "a\n" + strings.Repeat("äb€", 3*markEvery) + "\r\n\n" + strings.Repeat("x", longLine+7)
	s := newSource([]byte(text))
	if len(s.marks) != 2 {
		t.Fatalf("%d lines have marks", len(s.marks))
	}
	line, column := 1, 1
	for at, c := range text {
		if l, got := s.place(at); l != line || got != column {
			t.Fatalf("%d is at %d:%d, not %d:%d", at, l, got, line, column)
		}
		if got := s.offset(line, column); got != at {
			t.Fatalf("%d:%d is %d, not %d", line, column, got, at)
		}
		if column++; c == '\n' {
			line, column = line+1, 1
		}
	}
	if got := s.offset(line, column+utf8.RuneCountInString(text)); got != len(text) {
		t.Errorf("the offset behind the end is %d", got)
	}
}
