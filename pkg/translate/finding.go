package translate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Severity says what a finding means for the workload it is about.
type Severity string

// The severities, the mildest first.
const (
	Info    Severity = "info"    // good to know
	Warning Severity = "warning" // converted, or rightly left alone; somebody should look
	Blocker Severity = "blocker" // left as it is, and cannot be served
)

// Position is a place in the input; lines and columns count from 1.
type Position struct {
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
}

// String returns file:line:column, or what there is of it.
func (p Position) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// WithoutLine is the position for an object that no file has.
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

// Finding is one thing that whoever migrates should know. What it means, why,
// and what to do about it is its Rule.
type Finding struct {
	Code     Code      `json:"code"`
	Severity Severity  `json:"severity"`
	Object   ObjectRef `json:"object"`
	// Field is the path within the object, e.g. spec.template.spec.hostNetwork.
	Field    string   `json:"field,omitempty"`
	Position Position `json:"position"`
	Message  string   `json:"message"`
}

// String is one line as compilers print it.
func (f Finding) String() string {
	place := f.Object.String()
	if f.Field != "" {
		place += ": " + f.Field
	}
	return fmt.Sprintf("%s: %s %s: %s: %s", f.Position, f.Severity, f.Code, place, f.Message)
}

// Readiness is the verdict on a workload.
type Readiness string

// The verdicts.
const (
	Ready      Readiness = "ready"
	ReadyNotes Readiness = "ready with notes"
	Stays      Readiness = "stays"
)

// Verdict says what became of a workload that has to do with networks.
type Verdict struct {
	Object    ObjectRef `json:"object"`
	Position  Position  `json:"position"`
	Readiness Readiness `json:"readiness"`
	// Networks are those asked for, in order, where they could be read.
	Networks []string `json:"networks,omitempty"`
	// Changed is set where the conversion edits the workload.
	Changed bool `json:"changed"`
	// Codes are those of its findings, sorted.
	Codes []Code `json:"codes,omitempty"`
	// Features are what its annotation uses beyond names, as the keys of its
	// elements, and "resources" where a device plugin serves it; sorted.
	Features []string `json:"features,omitempty"`
	// Owner is the controller that made the object, if one did.
	Owner *ObjectRef `json:"owner,omitempty"`
	// Edits change the object; their paths begin at it.
	Edits []Edit `json:"-"`
}

// NetworkVerdict says what a network of the input is, and whether it can be
// served.
type NetworkVerdict struct {
	Object    ObjectRef `json:"object"`
	Position  Position  `json:"position"`
	Readiness Readiness `json:"readiness"`
	// Class is the name of its DeviceClass; empty where it gets none.
	Class string `json:"class,omitempty"`
	// Plugins are the types of its chain, in order; IPAM is that of the first
	// plugin that has one.
	Plugins []string `json:"plugins,omitempty"`
	IPAM    string   `json:"ipam,omitempty"`
	// Pool is the resource that it draws from.
	Pool string `json:"pool,omitempty"`
	// RenderedFrom is the network operator's object in the input that it would
	// be rendered from, where the input does not have the network itself.
	RenderedFrom *ObjectRef `json:"renderedFrom,omitempty"`
	Codes        []Code     `json:"codes,omitempty"`
}

func readiness(findings []Finding) Readiness {
	r := Ready
	for _, f := range findings {
		if f.Severity == Blocker {
			return Stays
		}
		r = ReadyNotes
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

// sortFindings orders by place; findings of one place keep their order.
func sortFindings(findings []Finding, order map[string]int) {
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(
			cmp.Compare(order[a.Position.File], order[b.Position.File]),
			cmp.Compare(a.Position.Line, b.Position.Line),
			cmp.Compare(a.Position.Column, b.Position.Column),
		)
	})
}
