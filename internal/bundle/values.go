package bundle

import (
	"regexp"
	"strings"
)

const (
	// maxName limits the length of a name.
	maxName = 128
	// maxBrackets limits the work on nested brackets. The text after it is redacted.
	maxBrackets = 32 << 20
)

// values finds the values of credentials' names: name=value, name: value, "name":"value" in
// any depth of quoting, --name value, and YAML's values on the next lines.
type values struct {
	text  string
	found []span
	// closing caches where a kind of quote is closed, so that a text full of open quotes
	// is not searched again for each of them.
	closing map[quoting]span
	// next caches the same for sets of characters, and covered the end of a block of
	// lines.
	next    map[string]span
	covered int
	steps   int
}

// quoting is a quote with the backslashes before it.
type quoting struct {
	quote byte
	depth int
}

// valuesIn returns the spans of the values in a text.
func valuesIn(text string) []span {
	v := values{text: text, closing: map[quoting]span{}, next: map[string]span{}}
	for i := 0; i < len(text); i++ {
		if c := text[i]; c == '=' || c == ':' {
			v.at(i)
		}
	}
	v.flags()
	return v.found
}

// add adds a span, unless it is empty.
func (v *values) add(from, to int) {
	if from < to {
		v.found = append(v.found, span{from, to})
	}
}

// at finds the value after a separator, if the name before it is a credential's.
func (v *values) at(i int) {
	name, start, quoted := v.nameBefore(i)
	power := strengthOf(name)
	if power == harmless {
		return
	}
	after := i + 1
	for after < len(v.text) && (v.text[after] == '=' || v.text[after] == '>') { // == and =>
		after++
	}
	value := v.skipBlanks(after)
	depth := 0
	for value+depth < len(v.text) && v.text[value+depth] == '\\' {
		depth++
	}
	switch open := v.byteAt(value + depth); {
	case open == '"' || open == '\'' || open == '`':
		v.quoted(value+depth+1, quoting{open, depth})
	case open == '{' || open == '[':
		v.brackets(value + depth)
	case quoted:
		v.add(value, v.until(value, ",}] \t\r\n"))
	default:
		v.bare(start, value, v.text[i] == ':', value > after, power)
	}
}

// until returns the position of the next of some characters, or the end of the text.
func (v *values) until(from int, chars string) int {
	if known, ok := v.next[chars]; ok && known.from <= from && from <= known.to {
		return known.to
	}
	to := len(v.text)
	if i := strings.IndexAny(v.text[from:], chars); i >= 0 {
		to = from + i
	}
	v.next[chars] = span{from, to}
	return to
}

// byteAt returns the byte at a position, or 0 after the text.
func (v *values) byteAt(i int) byte {
	if i < len(v.text) {
		return v.text[i]
	}
	return 0
}

// skipBlanks returns the position of the next byte that is not a blank.
func (v *values) skipBlanks(i int) int {
	for i < len(v.text) && (v.text[i] == ' ' || v.text[i] == '\t') {
		i++
	}
	return i
}

// nameBefore returns the name before the separator at i, its start, and whether it is
// quoted.
func (v *values) nameBefore(i int) (name string, start int, quoted bool) {
	end, first := i, max(0, i-maxName)
	for end > first && (v.text[end-1] == ' ' || v.text[end-1] == '\t' || v.text[end-1] == ':') {
		end--
	}
	if end == first {
		return "", 0, false
	}
	quote := v.text[end-1]
	if quote == '"' || quote == '\'' {
		inside := strings.TrimRight(v.text[first:end-1], `\`)
		begin := strings.LastIndexAny(inside, "\n"+string(quote)) + 1
		return inside[begin:], first + begin, true
	}
	start = end
	for start > first && isNameByte(v.text[start-1]) {
		start--
	}
	return v.text[start:end], start, false
}

// isNameByte reports whether a byte can be part of a name.
func isNameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c >= 0x80 || strings.IndexByte(`_.-/[]\`, c) >= 0
}

// quoted adds the text up to the quote that has no more backslashes than the opening one,
// with the characters that follow that quote directly. Without such a quote it adds all
// text.
func (v *values) quoted(from int, q quoting) {
	end := v.closed(from, q)
	to := end
	for to < len(v.text) && v.text[to] == '\\' {
		to++
	}
	to++
	for to < len(v.text) && strings.IndexByte("\\\"'`", v.text[to]) >= 0 {
		to++
	}
	if to < len(v.text) && strings.IndexByte(" \t\r\n,;:&}])", v.text[to]) < 0 {
		end = v.until(to, " \t\r\n")
	}
	v.add(from, end)
}

// closed returns the position where the quote is closed, or the end of the text.
func (v *values) closed(from int, q quoting) int {
	if known, ok := v.closing[q]; ok && known.from <= from && from <= known.to {
		return known.to
	}
	end, run := len(v.text), 0
	for i := from; i < len(v.text); i++ {
		if v.text[i] == '\\' {
			run++
			continue
		}
		if v.text[i] == q.quote && run <= q.depth {
			end = i - run
			break
		}
		run = 0
	}
	v.closing[q] = span{from, end}
	return end
}

// brackets adds an object or a list, with the characters that follow it directly.
func (v *values) brackets(from int) {
	depth, inside := 0, byte(0)
	for i := from; i < len(v.text); i++ {
		if v.steps++; v.steps > maxBrackets {
			break
		}
		switch c := v.text[i]; {
		case inside != 0:
			switch c {
			case '\\':
				i++
			case inside:
				inside = 0
			}
		case c == '"':
			inside = c
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth--; depth == 0 {
				v.add(from, v.until(i+1, " \t\r\n,;}])\"'\\"))
				return
			}
		}
	}
	v.add(from, len(v.text))
}

var (
	// block matches a line whose value YAML has on the next lines.
	block  = regexp.MustCompile(`^(?:[|>][-+0-9]*)?[ \t\r]*(?:#.*)?$`)
	scheme = regexp.MustCompile(`^(?i:basic|digest|negotiate|token)[ \t]+`)
)

// bare adds a value without quotes: the rest of the line for a strong name, if blanks may
// belong to the value, and the next word for a weak one.
func (v *values) bare(name, from int, colon, spaced bool, power strength) {
	end := v.until(from, "\n")
	line := v.text[from:end]
	switch {
	case colon && block.MatchString(line):
		v.add(from, max(end, v.below(name, end)))
	case power == strong && (colon || spaced):
		v.add(from, from+len(strings.TrimRight(line, " \t\r")))
	default:
		word := len(scheme.FindString(line))
		v.add(from, v.until(from+word, " \t\r\n"))
	}
}

// below returns the end of the lines that belong to the name, by YAML's indentation.
func (v *values) below(name, end int) int {
	if name < v.covered { // the block of another name contains this one
		return v.covered
	}
	begin := strings.LastIndexByte(v.text[:name], '\n') + 1
	own := indentation(v.text[begin:])
	last := end
	for end < len(v.text) {
		line := v.text[end+1 : v.until(end+1, "\n")]
		trimmed := strings.TrimSpace(line)
		deep := indentation(line)
		if trimmed != "" && deep <= own && (deep < own || !strings.HasPrefix(trimmed, "- ")) {
			break
		}
		end += 1 + len(line)
		if trimmed != "" {
			last = end
		}
	}
	v.covered = last
	return last
}

// indentation counts the blanks at the start of a line.
func indentation(line string) int { return len(line) - len(strings.TrimLeft(line, " \t")) }

var flag = regexp.MustCompile(`(?:^|[\s"'\[(])--?([A-Za-z][A-Za-z0-9_.-]*)["',]*[ \t]+("[^"]*"|'[^']*'|[^\s-]\S*)`)

// flags adds the words after flags of a command line.
func (v *values) flags() {
	for _, at := range flag.FindAllStringSubmatchIndex(v.text, -1) {
		if strengthOf(v.text[at[2]:at[3]]) != harmless {
			v.add(at[4], at[5])
		}
	}
}
