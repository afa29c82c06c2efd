package hookcommand

import (
	"bytes"
	"slices"
)

const (
	// maxTail is the number of lines in an error.
	maxTail = 10
	// maxLine is the longest line. Longer ones are split.
	maxLine = 4096
)

// lines is a writer that splits output into lines. exec.Cmd calls it from one goroutine.
type lines struct {
	say     func(line string)
	partial []byte
	tail    []string
}

// Write implements io.Writer.
func (l *lines) Write(p []byte) (int, error) {
	l.partial = append(l.partial, p...)
	for {
		line, rest, complete := bytes.Cut(l.partial, []byte{'\n'})
		if len(line) > maxLine || !complete && len(line) == maxLine {
			line, rest, complete = l.partial[:maxLine], l.partial[maxLine:], true
		}
		if !complete {
			return len(p), nil
		}
		l.add(line)
		l.partial = slices.Clone(rest)
	}
}

// end adds what follows the last line break.
func (l *lines) end() {
	if len(l.partial) > 0 {
		l.add(l.partial)
		l.partial = nil
	}
}

// add reports a line, and keeps it as one of the last.
func (l *lines) add(line []byte) {
	text := string(bytes.TrimRight(line, "\r"))
	l.say(text)
	l.tail = append(l.tail, text)
	l.tail = l.tail[max(len(l.tail)-maxTail, 0):]
}
