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

// maxVerbosity is the most that can be had at run time. From 8 on client-go logs
// the bodies of requests and answers; who wants them starts the driver with --v.
const maxVerbosity = 7

// verbosity is klog's -v, which can be changed while the driver runs.
type verbosity struct{ flag.Value }

// serve answers with the level, and takes a new one. It holds until the next one,
// or until the driver ends: then it is the flag's again.
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

func (v verbosity) change(r *http.Request) error {
	const most = 16 // more than any number that is one
	body, err := io.ReadAll(io.LimitReader(r.Body, most))
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
	klog.FromContext(r.Context()).Info("The log level was changed", "from", before, "to", level)
	return nil
}
