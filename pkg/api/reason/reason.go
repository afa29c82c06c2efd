// Package reason defines a code for everything that nadra refuses, withholds or fails to do.
//
// An error carries its code from the place that makes it, and shows it in its text, in
// brackets before the sentence: "[MasterMissing] plugin macvlan: …". Events, conditions
// of claims, refusals and logs show the text. Programs go by the code, which Of finds in an
// error and In and Cause in a text; sentences are for people and may change at any time.
//
// The package imports the standard library only, since nadra-gate links it.
package reason

import (
	"errors"
	"fmt"
	"strings"
)

// Code identifies why something is refused, withheld or failed.
type Code string

// Coded is an error with a code. Its text begins with the code.
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

// Errorf returns an error with a code. It formats like fmt.Errorf, including %w.
func Errorf(code Code, format string, args ...any) error {
	return &coded{code, fmt.Errorf(format, args...)}
}

// Wrap gives an error a code, unless it has one already, since the place nearest to the
// cause knows best. It returns nil for nil.
func Wrap(code Code, err error) error {
	if err == nil || Of(err) != "" {
		return err
	}
	return &coded{code, err}
}

// Of returns the outermost code of an error, or "" without one.
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

// In returns the first code in a text, or "" without one. Kubelet, container runtime and
// API server put their own words around nadra's texts.
func In(text string) Code {
	code, _ := next(text)
	return code
}

// Cause returns the code in a text that says what to do, or "" without one. It is the
// first, unless that one only points to the reason of another claim or network, which
// follows it in the text.
func Cause(text string) Code {
	first, rest := next(text)
	for code := first; code != ""; code, rest = next(rest) {
		if code != OtherClaimFailed && code != OtherNetworkFailed {
			return code
		}
	}
	return first
}

// next returns the first code in a text and the text after it. Other words in brackets
// are not codes.
func next(text string) (code Code, rest string) {
	for {
		_, after, found := strings.Cut(text, "[")
		if !found {
			return "", ""
		}
		if name, rest, closed := strings.Cut(after, "]"); closed {
			if _, known := Lookup(Code(name)); known {
				return Code(name), rest
			}
		}
		text = after
	}
}
