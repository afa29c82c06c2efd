package report

import (
	"encoding/xml"
	"io"
	"slices"
	"strings"

	"github.com/nadra-dev/nadra/pkg/translate"
)

type junitSuites struct {
	XMLName  xml.Name      `xml:"testsuites"`
	Name     string        `xml:"name,attr"`
	Tests    int           `xml:"tests,attr"`
	Failures int           `xml:"failures,attr"`
	Suites   []*junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	ClassName string        `xml:"classname,attr"`
	Name      string        `xml:"name,attr"`
	File      string        `xml:"file,attr,omitempty"`
	Line      int           `xml:"line,attr,omitempty"`
	Failure   *junitFailure `xml:"failure"`
	Skipped   *junitSkipped `xml:"skipped"`
	SystemOut string        `xml:"system-out,omitempty"`
}

type junitFailure struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"`
	Text    string `xml:",chardata"`
}

// unread reports whether a finding says that the object was not judged.
func unread(f Finding) bool {
	return slices.Contains([]translate.Code{translate.NotYAML, translate.Unrendered, translate.StrayAnnotation}, f.Code)
}

type junitSkipped struct {
	Message string `xml:"message,attr"`
}

// writeJUnit writes a suite for each namespace with a case for each workload, one for the
// networks and one for other objects; no namespace can have the names of these two.
// Blockers fail.
func writeJUnit(w io.Writer, r *Report) error { return encodeXML(w, junitOf(r)) }

// junitOf returns the suites of a report.
func junitOf(r *Report) *junitSuites {
	out := &junitSuites{Name: "kubectl nadra scan"}
	s := findingsByObject(r)
	for i, w := range r.Workloads {
		out.suite(w.Object.Namespace).add(w.Object, short(w.Object), w.Position, s.workloads[i])
	}
	for i, n := range r.Networks {
		out.suite("all networks").add(n.Object, n.Object.Name, n.Position, s.networks[i])
	}
	for _, other := range s.others {
		out.suite("other objects").add(other.object, short(other.object), other.findings[0].Position, other.findings)
	}
	for _, u := range r.Unrendered {
		if !u.Mentions {
			out.suite("not judged").skip(u)
		}
	}
	for _, suite := range out.Suites {
		out.Tests += suite.Tests
		out.Failures += suite.Failures
	}
	return out
}

// suite returns the suite of a name, which is the last one or new: the input is sorted.
func (s *junitSuites) suite(name string) *junitSuite {
	if n := len(s.Suites); n == 0 || s.Suites[n-1].Name != visible(name) {
		s.Suites = append(s.Suites, &junitSuite{Name: visible(name)})
	}
	return s.Suites[len(s.Suites)-1]
}

// skip adds a case that was not run, for something that is not rendered.
func (s *junitSuite) skip(u translate.UnrenderedUnit) {
	s.Tests++
	s.Skipped++
	s.Cases = append(s.Cases, junitCase{
		Name: visible(short(u.Object)), File: visible(u.Position.File), Line: u.Position.Line,
		Skipped: &junitSkipped{Message: "not judged: it must be rendered first"},
	})
}

// add adds a case for an object.
func (s *junitSuite) add(o translate.ObjectRef, name string, at translate.Position, findings []Finding) {
	c := junitCase{ClassName: visible(o.Namespace), Name: visible(name), File: visible(at.File), Line: max(at.Line, 0)}
	var failures, notes []string
	var first string
	for _, f := range findings {
		if f.Severity != translate.Blocker {
			notes = append(notes, visible(sentence(f)))
			continue
		}
		if first == "" {
			first = visible(string(f.Code) + ": " + f.Title)
		}
		failures = append(failures, visible(sentence(f)), visible("What to do: "+f.Fix), visible(docs+f.Anchor))
	}
	if len(failures) > 0 {
		c.Failure = &junitFailure{Message: first, Type: "blocker", Text: strings.Join(failures, "\n")}
		s.Failures++
	}
	if c.Failure == nil && slices.ContainsFunc(findings, unread) {
		c.Skipped = &junitSkipped{Message: "not judged: " + visible(findings[0].Title)}
		s.Skipped++
	}
	c.SystemOut = strings.Join(notes, "\n")
	s.Tests++
	s.Cases = append(s.Cases, c)
}
