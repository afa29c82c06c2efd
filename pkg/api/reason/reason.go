// Package reason has the codes of everything that nadra refuses, withholds or fails to do.
//
// A code is in the error value from the place where the error is made, and so in its text,
// in brackets before the sentence: "[MasterMissing] plugin macvlan: …". Events, conditions
// of claims, refusals and logs show the text. Programs go by the code, found by Of in an
// error and by In in a text; sentences are for people and may change at any time.
//
// reason.go has the error values, codes.go the codes, table.go what each code means, whose
// job it is and what to do, which `kubectl nadra explain` and docs/troubleshooting.md show.
package reason

import (
	"errors"
	"fmt"
	"strings"
)

// Code identifies why something is refused, withheld or failed.
type Code string

// Coded is what errors of other types with a code implement. Their text begins with it.
type Coded interface {
	error
	ReasonCode() Code
}

// coded is an error with a code.
type coded struct {
	code Code
	err  error
}

func (e *coded) Error() string    { return e.code.Text(e.err.Error()) }
func (e *coded) Unwrap() error    { return e.err }
func (e *coded) ReasonCode() Code { return e.code }

// Errorf returns an error with a code. It formats as fmt.Errorf does, %w included.
func Errorf(code Code, format string, args ...any) error {
	return &coded{code, fmt.Errorf(format, args...)}
}

// Wrap gives an error a code, unless it has one already: the place that is nearest to the
// cause knows best. It returns nil for nil.
func Wrap(code Code, err error) error {
	if err == nil || Of(err) != "" {
		return err
	}
	return &coded{code, err}
}

// Of returns the outermost code of an error, "" if it has none.
func Of(err error) Code {
	if e := Coded(nil); errors.As(err, &e) {
		return e.ReasonCode()
	}
	return ""
}

// Text puts the code before a message.
func (c Code) Text(message string) string { return "[" + string(c) + "] " + message }

// Message returns the text of an error without its code, for a text that has another code.
func Message(err error) string { return strings.Replace(err.Error(), Of(err).Text(""), "", 1) }

// In returns the first code in a text, "" if it has none. Kubelet, container runtime and
// API server put words of their own around the texts of nadra.
func In(text string) Code {
	for rest := text; ; {
		_, after, found := strings.Cut(rest, "[")
		if !found {
			return ""
		}
		if name, _, closed := strings.Cut(after, "]"); closed {
			if _, known := Lookup(Code(name)); known {
				return Code(name)
			}
		}
		rest = after
	}
}
