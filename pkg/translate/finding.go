package translate

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Severity is what a finding means for its workload.
type Severity string

// The severities, the mildest first.
const (
	Info    Severity = "info"    // nothing needs to be done
	Warning Severity = "warning" // converted, or left as it is on purpose; check it
	Blocker Severity = "blocker" // left as it is, and nadra cannot serve it
)

// Position is a place in the input. Lines and columns count from 1.
type Position struct {
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
	// Offset is the offset in the value of a scalar, in bytes; 0 if the position is that of the scalar.
	Offset int `json:"-"`
}

// String returns file:line:column, as far as they are known. Objects of a cluster have no lines.
func (p Position) String() string {
	out := p.File
	for _, n := range []int{p.Line, p.Column} {
		if n <= 0 {
			break
		}
		out += ":" + strconv.Itoa(n)
	}
	return out
}

// WithoutLine returns the position without line and column, for an object that is in no file.
func (p Position) WithoutLine() Position { return Position{File: p.File} }

// ObjectRef names an object of the input.
type ObjectRef struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name,omitempty"`
}

// String returns Kind namespace/name.
func (r ObjectRef) String() string {
	name := r.Name
	if r.Namespace != "" {
		name = r.Namespace + "/" + r.Name
	}
	return strings.TrimSpace(r.Kind + " " + name)
}

// Finding is one observation about the input. Its Rule explains what it means and what to do.
type Finding struct {
	Code     Code      `json:"code"`
	Severity Severity  `json:"severity"`
	Object   ObjectRef `json:"object,omitzero"`
	// Field is the path within the object, e.g. spec.template.spec.hostNetwork.
	Field    string   `json:"field,omitempty"`
	Position Position `json:"position,omitzero"`
	Message  string   `json:"message"`
	// The texts of its rule, if it was given them. Fix may be its own.
	Title  string `json:"title,omitempty"`
	What   string `json:"what,omitempty"`
	Why    string `json:"why,omitempty"`
	Fix    string `json:"fix,omitempty"`
	Anchor string `json:"anchor,omitempty"`
}

// NewFinding returns a finding with the severity and the texts of its rule, which is one of rules.
func NewFinding(rules []Rule, code Code, object ObjectRef, message string) Finding {
	rule, _ := FindRule(rules, code)
	return Finding{Code: code, Severity: rule.Severity, Object: object, Message: message}.WithRule(rule)
}

// WithRule returns the finding with the texts of its rule.
func (f Finding) WithRule(r Rule) Finding {
	f.Title, f.What, f.Why, f.Fix, f.Anchor = r.Title, r.What, r.Why, r.Fix, f.Code.Anchor()
	return f
}

// Counts counts findings by severity.
type Counts struct {
	Info    int `json:"info"`
	Warning int `json:"warning"`
	Blocker int `json:"blocker"`
}

// Total returns the sum.
func (c Counts) Total() int { return c.Info + c.Warning + c.Blocker }

// Count counts findings.
func Count(all []Finding) (c Counts) {
	for _, f := range all {
		c.Add(f.Severity)
	}
	return c
}

// Add counts a finding of a severity.
func (c *Counts) Add(s Severity) {
	switch s {
	case Info:
		c.Info++
	case Warning:
		c.Warning++
	case Blocker:
		c.Blocker++
	}
}

// String returns one line in the form of compilers.
func (f Finding) String() string {
	at := f.Position.String()
	if at != "" {
		at += ": "
	}
	return fmt.Sprintf("%s%s %s: %s", at, f.Severity, f.Code, f.Statement())
}

// Statement returns the object, the field and the message.
func (f Finding) Statement() string {
	out := f.Object.String()
	if f.Field != "" {
		out += ": " + f.Field
	}
	return strings.TrimPrefix(out+": "+f.Message, ": ")
}

// Readiness is the verdict on a workload.
type Readiness string

// The verdicts.
const (
	Ready Readiness = "ready"
	// ReadyNotes: somebody has something to decide, or to lose.
	ReadyNotes Readiness = "ready with notes"
	Stays      Readiness = "stays"
	// NotJudged: the manifests must be rendered first, nadra does not know where the object has its pod
	// template, or whether a network that is not in the input draws from a pool.
	NotJudged Readiness = "not judged"
	// NothingToConvert: the object names networks, or has the annotation, and none is attached by it.
	NothingToConvert Readiness = "nothing to convert"
)

// Verdict is the result for one workload that uses networks.
type Verdict struct {
	Object    ObjectRef `json:"object"`
	Position  Position  `json:"position"`
	Readiness Readiness `json:"readiness"`
	// Networks has the requested networks in order, as far as the annotation can be read.
	Networks []string `json:"networks,omitempty"`
	// Changed is set if the conversion edits the workload.
	Changed bool `json:"changed"`
	// Codes has the codes of its findings, sorted.
	Codes []Code `json:"codes,omitempty"`
	// Features has the keys that its annotation uses besides names, and "resources" if limits or
	// requests name the pool of a network; sorted.
	Features []string `json:"features,omitempty"`
	// Owner is the controller that made the object, or nil.
	Owner *ObjectRef `json:"owner,omitempty"`
	// Edits change the object; their paths begin at it.
	Edits []Edit `json:"-"`
	// Tests are operations of JSON Patch that check the names of the containers that the edits address by index.
	Tests []Edit `json:"-"`
}

// NetworkVerdict is the result for one network of the input.
type NetworkVerdict struct {
	Object    ObjectRef `json:"object"`
	Position  Position  `json:"position"`
	Readiness Readiness `json:"readiness"`
	// Class is the name of its DeviceClass, or empty if it gets none.
	Class string `json:"class,omitempty"`
	// Plugins has the types of its chain, in order. IPAM is the first IPAM plugin of the chain.
	Plugins []string `json:"plugins,omitempty"`
	IPAM    string   `json:"ipam,omitempty"`
	// Pool is the resource from which it draws.
	Pool  string `json:"pool,omitempty"`
	Codes []Code `json:"codes,omitempty"`
}

// readiness returns the verdict that findings give by their severity.
func readiness(findings []Finding) Readiness {
	r := Ready
	for _, f := range findings {
		switch f.Severity {
		case Blocker:
			return Stays
		case Warning:
			r = ReadyNotes
		}
	}
	return r
}

func codesOf(findings []Finding) []Code {
	var codes []Code
	for _, f := range findings {
		codes = append(codes, f.Code)
	}
	slices.Sort(codes)
	return slices.Compact(codes)
}

// sortFindings sorts by position. Findings of one position keep their order.
func sortFindings(findings []Finding, order map[string]int) {
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(
			cmp.Compare(order[a.Position.File], order[b.Position.File]),
			cmp.Compare(a.Position.Line, b.Position.Line),
			cmp.Compare(a.Position.Column, b.Position.Column),
		)
	})
}
