package bundle

import (
	"regexp"
	"strconv"
	"strings"
)

var (
	// header matches what klog writes before a message, with the name of the source file.
	header = regexp.MustCompile(`^[IWEF][0-9]{4} [0-9:.]{15} +[0-9]+ ([a-z0-9_]+\.go):[0-9]+\] `)
	// plain matches messages of structured logs, which are constants in the sources.
	plain = regexp.MustCompile(`^"[A-Za-z][A-Za-z ,;:.()/'-]{0,200}"$`)
	pair  = regexp.MustCompile(`^ ([A-Za-z]+)=("(?:[^"\\]|\\.)*"|\[[^\]]*\]|[^ "<\[]+)`)
	// What Go writes about a panic, without arguments of functions.
	goroutine = regexp.MustCompile(`^goroutine [0-9]+ \[[a-z ]+\]:$`)
	called    = regexp.MustCompile(`^((?:created by )?[A-Za-z0-9_.*/()-]+)\([0-9a-fx{}, .?]*\)$`)
	at        = regexp.MustCompile(`^\t/[A-Za-z0-9_./@-]+\.go:[0-9]+( \+0x[0-9a-f]+)?$`)

	sample = regexp.MustCompile(`^([a-z0-9_]+)(?:\{(.*)\})? ([-+0-9.eInfNa]+)$`)
	label  = regexp.MustCompile(`([a-z_]+)="((?:[^"\\]|\\.)*)"`)
)

// ofLibrary is the driver's file that logs texts of the runtime's library, which are no constants of nadra.
const ofLibrary = "nrilog.go"

// log reduces a log of klog, line by line.
func (r *reducer) log(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		out.WriteString(r.line(strings.TrimRight(line, "\r\n")) + "\n")
	}
	return out.String()
}

// line reduces a line of a log.
func (r *reducer) line(line string) string {
	if goroutine.MatchString(line) || at.MatchString(line) {
		return line
	}
	if call := called.FindStringSubmatch(line); call != nil {
		return call[1] + "(…)"
	}
	head := header.FindStringSubmatch(line)
	if head == nil {
		return r.message(line)
	}
	rest := line[len(head[0]):]
	message, err := strconv.QuotedPrefix(rest)
	if err != nil {
		return head[0] + r.message(rest)
	}
	rest = rest[len(message):]
	if !plain.MatchString(message) || head[1] == ofLibrary {
		message = strconv.Quote(r.message(message))
	}
	return head[0] + message + r.pairs(rest)
}

// pairs reduces the keys and values of a line.
func (r *reducer) pairs(text string) string {
	var out strings.Builder
	for text != "" {
		found := pair.FindStringSubmatch(text)
		if found == nil {
			return out.String() + " " + r.message(text)
		}
		text = text[len(found[0]):]
		if of := r.allowed.fields["Log"].of(found[1]); of != nil {
			out.WriteString(" " + found[1] + "=" + r.logValue(found[2], of))
		} else {
			out.WriteString(" " + r.leaveOut(unlisted, found[2]))
		}
	}
	return out.String()
}

// logValue reduces a value of a log line: a word, in quotes or not, or a list of words.
func (r *reducer) logValue(value string, of *rule) string {
	for word := range strings.FieldsFuncSeq(value, func(c rune) bool { return strings.ContainsRune(`[]" ,`, c) }) {
		if kept := r.text(word, of); kept != word {
			return strconv.Quote(r.message(value))
		}
	}
	return value
}

// metrics reduces metrics to samples of known names, with known labels.
func (r *reducer) metrics(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		found := sample.FindStringSubmatch(line)
		if found == nil {
			if line != "" && !strings.HasPrefix(line, "#") {
				r.counts[odd]++
			}
			continue
		}
		of := r.allowed.fields["Metrics"].of(found[1])
		if of == nil {
			r.counts[unlisted]++
			continue
		}
		var labels []string
		for _, l := range label.FindAllStringSubmatch(found[2], -1) {
			if inner := of.of(l[1]); inner != nil {
				labels = append(labels, l[1]+`="`+r.text(l[2], inner)+`"`)
			} else {
				r.counts[unlisted]++
			}
		}
		if labels != nil {
			found[1] += "{" + strings.Join(labels, ",") + "}"
		}
		out.WriteString(found[1] + " " + found[3] + "\n")
	}
	return out.String()
}
