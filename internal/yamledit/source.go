package yamledit

import (
	"bytes"
	"slices"
	"unicode/utf8"
)

// source is a text with an index of its lines. The YAML parser reports where a node begins;
// source finds where it ends.
type source struct {
	text   []byte
	starts []int
	// marks has, by line, the offset of every markEvery-th character of a long line. JSON may
	// be one line of many megabytes.
	marks map[int][]int
}

const (
	longLine  = 4096
	markEvery = 1024
)

func newSource(text []byte) source {
	s := source{text: text, starts: lineStarts(text)}
	for line, start := range s.starts {
		end := len(text)
		if line+1 < len(s.starts) {
			end = s.starts[line+1]
		}
		if end-start > longLine {
			s.mark(line, text[start:end])
		}
	}
	return s
}

// mark records the offsets of every markEvery-th character of a line.
func (s *source) mark(line int, text []byte) {
	if s.marks == nil {
		s.marks = map[int][]int{}
	}
	count := 0
	for at := 0; at < len(text); count++ {
		if count%markEvery == 0 {
			s.marks[line] = append(s.marks[line], s.starts[line]+at)
		}
		_, size := utf8.DecodeRune(text[at:])
		at += size
	}
}

// lineStarts returns the offsets of the text's lines by the YAML parser's rules.
func lineStarts(text []byte) []int {
	first := 0
	if bytes.HasPrefix(text, []byte("\xef\xbb\xbf")) {
		first = 3
	}
	starts := []int{first}
	for i := first; i < len(text); i++ {
		switch {
		case text[i] == '\r' && i+1 < len(text) && text[i+1] == '\n':
			i++
		case text[i] == '\n' || text[i] == '\r':
		case text[i] == 0xC2 && i+1 < len(text) && text[i+1] == 0x85:
			i++
		case text[i] == 0xE2 && i+2 < len(text) && text[i+1] == 0x80 && (text[i+2] == 0xA8 || text[i+2] == 0xA9):
			i += 2
		default:
			continue
		}
		starts = append(starts, i+1)
	}
	return starts
}

// offset returns the offset of a line and column, both from 1; a column is a rune.
func (s source) offset(line, column int) int {
	if line < 1 || line > len(s.starts) {
		return len(s.text)
	}
	at := s.starts[line-1]
	if marks := s.marks[line-1]; len(marks) > 0 {
		mark := min((column-1)/markEvery, len(marks)-1)
		at = marks[mark]
		column -= mark * markEvery
	}
	for ; column > 1 && at < len(s.text); column-- {
		_, size := utf8.DecodeRune(s.text[at:])
		at += size
	}
	return at
}

// place returns the line and column, both from 1, of an offset.
func (s source) place(at int) (line, column int) {
	line, found := slices.BinarySearch(s.starts, at)
	if !found {
		line--
	}
	line = max(line, 0)
	from, before := min(s.starts[line], at), 0
	if marks := s.marks[line]; len(marks) > 0 {
		mark, found := slices.BinarySearch(marks, at)
		if !found {
			mark = max(mark-1, 0)
		}
		from, before = min(marks[mark], at), mark*markEvery
	}
	return line + 1, before + utf8.RuneCount(s.text[from:at]) + 1
}
