package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// module is the one whose tests the lanes run.
const module = "github.com/nadra-dev/nadra"

// test is a test function that has failed.
type test struct{ folder, name string }

// failures reads what gotestsum notes of a run (test2json's events) and returns the
// test functions that failed, in the order of their ends. It refuses what is no such
// note; one that breaks off, as the run did, counts as far as it goes.
func failures(events io.Reader) ([]test, error) {
	var out []test
	decoder := json.NewDecoder(events)
	for {
		var e struct{ Action, Package, Test string }
		switch err := decoder.Decode(&e); {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return out, nil
		case err != nil:
			return nil, fmt.Errorf("reading the notes of a run: %w", err)
		}
		if e.Action == "fail" && e.Test != "" && !strings.Contains(e.Test, "/") {
			out = append(out, test{"." + strings.TrimPrefix(e.Package, module), e.Test})
		}
	}
}
