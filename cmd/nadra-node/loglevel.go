package main

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"k8s.io/klog/v2"
)

// maxVerbosity is the highest level that can be set at run time. From level 8 on,
// client-go logs the bodies of requests and responses: start the driver with --v for
// that.
const maxVerbosity = 7

// verbosity is klog's flag -v. It can be changed while the driver runs.
type verbosity struct{ flag.Value }

// serve returns the level for GET and sets it for PUT. A restarted driver has the
// flag's level again.
func (v verbosity) serve(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet:
		answer(w, http.StatusOK, v.String()+"\n")
	case http.MethodPut:
		if err := v.change(r); err != nil {
			answer(w, http.StatusBadRequest, err.Error()+"\n")
			return
		}
		answer(w, http.StatusOK, v.String()+"\n")
	default:
		w.Header().Set("Allow", "GET, PUT")
		answer(w, http.StatusMethodNotAllowed, "GET shows the level, PUT sets it\n")
	}
}

// change sets the level to the number in the request's body.
func (v verbosity) change(r *http.Request) error {
	const maxBytes = 16 // more than any valid level has
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBytes))
	if err != nil {
		return fmt.Errorf("reading the level: %w", err)
	}
	text := strings.TrimSpace(string(body))
	level, err := strconv.Atoi(text)
	if err != nil || level < 0 || level > maxVerbosity {
		return fmt.Errorf("the level is %q: it must be a number from 0 to %d", text, maxVerbosity)
	}
	before := v.String()
	if err := v.Set(strconv.Itoa(level)); err != nil {
		return fmt.Errorf("setting the level: %w", err)
	}
	klog.FromContext(r.Context()).Info("Log level changed", "from", before, "to", level)
	return nil
}
