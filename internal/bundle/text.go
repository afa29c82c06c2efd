package bundle

import (
	"regexp"
	"slices"
	"strings"
)

// Redactor redacts credentials, and counts its redactions.
type Redactor struct {
	// Counts counts redactions by their kind. Callers may read and reset it.
	Counts map[string]int
}

// NewRedactor returns a Redactor without redactions.
func NewRedactor() *Redactor { return &Redactor{Counts: map[string]int{}} }

// shapes are the shapes of credentials, which need no name. The order matters, because a PEM
// block may contain the others.
var shapes = []struct {
	kind string
	find *regexp.Regexp
	with string
}{
	// A log that was cut may lack the end or the beginning of a block.
	{pemBlock, regexp.MustCompile(`-----BEGIN [^-]*-----(?s:.*?)(?:-----END [^-]*-----|\z)`), Mark},
	{pemBlock, regexp.MustCompile(`[A-Za-z0-9+/=\s\\]*-----END [^-]*-----`), Mark},
	{pemBlock, regexp.MustCompile(`LS0tLS1CRUdJTi[A-Za-z0-9+/=_-]*`), Mark}, // the same in base64
	{userinfo, regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*:(?:\\*/){2})[^\s"'<>]*@`), "${1}" + Mark + "@"},
	{tokenShape, regexp.MustCompile(`(?i)\b(bearer\s+)[A-Za-z0-9._~+/=-]+`), "${1}" + Mark},
	{tokenShape, regexp.MustCompile(`eyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_.-]*`), Mark},
	{tokenShape, regexp.MustCompile(`(?:gh[pousr]_|github_pat_|glpat-|xox[abprs]-|AKIA|ASIA|hvs\.|sha256~)[A-Za-z0-9_.-]{8,}`), Mark},
}

// Text redacts a log, a message, or another text in which names have values.
func (r *Redactor) Text(text string) string {
	for _, s := range shapes {
		if !s.find.MatchString(text) {
			continue
		}
		text = s.find.ReplaceAllStringFunc(text, func(found string) string {
			out := s.find.ReplaceAllString(found, s.with)
			if out != found {
				r.Counts[s.kind]++
			}
			return out
		})
	}
	return r.cut(text, valuesIn(text))
}

// span is a part of a text.
type span struct{ from, to int }

// cut replaces the spans, which may overlap, by the mark.
func (r *Redactor) cut(text string, spans []span) string {
	if len(spans) == 0 {
		return text
	}
	slices.SortFunc(spans, func(a, b span) int {
		if a.from != b.from {
			return a.from - b.from
		}
		return a.to - b.to
	})
	var out strings.Builder
	done := 0
	for i := 0; i < len(spans); {
		from, to := spans[i].from, spans[i].to
		for i++; i < len(spans) && spans[i].from <= to; i++ {
			to = max(to, spans[i].to)
		}
		out.WriteString(text[done:from])
		out.WriteString(Mark)
		if text[from:to] != Mark {
			r.Counts[credential]++
		}
		done = to
	}
	out.WriteString(text[done:])
	return out.String()
}
