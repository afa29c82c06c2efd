package bundle

import (
	"regexp"
	"strings"
)

const (
	// nameAtMost is how far back a name is looked for.
	nameAtMost = 128
	// bracketsAtMost bounds the work on brackets in brackets; behind it, all is
	// taken out.
	bracketsAtMost = 32 << 20
)

// values finds what stands behind names of credentials: name=value, name: value,
// "name":"value" in any depth of quoting, --name value, and what YAML has below.
type values struct {
	text  string
	found []span
	// closing remembers where a quote of a kind is closed, so that a text full
	// of open quotes is not searched again for each.
	closing map[quoting]span
	// next does so for sets of characters, and covered is how far a block of
	// lines goes.
	next    map[string]span
	covered int
	steps   int
}

// quoting is a quote with the backslashes before it.
type quoting struct {
	quote byte
	depth int
}

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

func (v *values) add(from, to int) {
	if from < to {
		v.found = append(v.found, span{from, to})
	}
}

// at looks at a separator: at the name before it, and the value behind.
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

// until is where the next of some characters stands; the end of the text where
// none does.
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

func (v *values) byteAt(i int) byte {
	if i < len(v.text) {
		return v.text[i]
	}
	return 0
}

func (v *values) skipBlanks(i int) int {
	for i < len(v.text) && (v.text[i] == ' ' || v.text[i] == '\t') {
		i++
	}
	return i
}

// nameBefore is what stands before the separator at i, where it begins, and
// whether it is in quotes.
func (v *values) nameBefore(i int) (name string, start int, quoted bool) {
	end, first := i, max(0, i-nameAtMost)
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

func isNameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c >= 0x80 || strings.IndexByte(`_.-/[]\`, c) >= 0
}

// quoted takes the text up to the quote that has no more backslashes than the
// opening one; what is stuck to that quote belongs to it. Without one it takes all.
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

// closed is where the quote is closed; the end of the text where it is not.
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

// brackets takes an object or a list, with what is stuck to it.
func (v *values) brackets(from int) {
	depth, inside := 0, byte(0)
	for i := from; i < len(v.text); i++ {
		if v.steps++; v.steps > bracketsAtMost {
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
	// block is where YAML has the value on the lines below.
	block  = regexp.MustCompile(`^(?:[|>][-+0-9]*)?[ \t\r]*(?:#.*)?$`)
	scheme = regexp.MustCompile(`^(?i:basic|digest|negotiate|token)[ \t]+`)
)

// bare takes a value without quotes. A strong name has all of the line where
// blanks may belong to the value, a weak one the next word.
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

// below is the end of the lines that belong to the name, by YAML's indentation.
func (v *values) below(name, end int) int {
	if name < v.covered { // what is below it is below the name of that block, too
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

func indentation(line string) int { return len(line) - len(strings.TrimLeft(line, " \t")) }

var flag = regexp.MustCompile(`(?:^|[\s"'\[(])--?([A-Za-z][A-Za-z0-9_.-]*)["',]*[ \t]+("[^"]*"|'[^']*'|[^\s-]\S*)`)

// flags takes the words behind flags of a command line.
func (v *values) flags() {
	for _, at := range flag.FindAllStringSubmatchIndex(v.text, -1) {
		if strengthOf(v.text[at[2]:at[3]]) != harmless {
			v.add(at[4], at[5])
		}
	}
}
