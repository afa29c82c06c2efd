// Command record counts the tests of a lane that has ended, and records the lane's result.
//
//	record [-code N] [-runs FILE -commit COMMIT] EVENTS
//
// EVENTS is the lane's file of test2json's events, bin/lanes/LANE.json. record prints
// "LANE: tests=PASSED/ALL failures=N". With -runs it writes the result and what the cluster
// reported ("ran containerd 2.4.2") into the FILE of package support's runs, in place of the
// lane's earlier result, if the NADRA_ variables were the same. A lane without a cluster is not
// recorded. A red result is recorded as well.
//
// A row of docs/reference/support.md is "tested" if a lane of `make lanes` runs it, or if the runs
// have a green record of exactly the pinned version. Kernels, architectures and control groups are
// pinned by nothing, so only records show them. test/docs fails while a record is red, and if a
// pinned version has no row. To record a lane:
//
//  1. Commit your changes, and leave the tree alone until the lane has ended. With uncommitted
//     changes, RUN, PKG, MULTUS, NADRA_MULTUS or NADRA_FEATURE_GATES, make refuses.
//  2. Run the lanes, together or one by one: make e2e-kubernetes RECORD=1, or
//     make e2e-core NADRA_KUBERNETES=1.36 RECORD=1.
//  3. Run go test ./test/docs -update, which writes the tables of the page, and commit them with the
//     record.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nadra-dev/nadra/test/support"
)

// chosenBy lists the variables that choose a cluster's components, and nadra's programs.
var chosenBy = []string{"NADRA_KUBERNETES", "NADRA_KUBELET", "NADRA_EMULATE", "NADRA_RUNTIME", "NADRA_CONTAINERD", "NADRA_LAYOUT", "NADRA_FAMILIES", "NADRA_FIPS140"}

func main() {
	code := flag.Int("code", 0, "the `exit code` of the lane's tests: if it is not 0, there is a failure")
	runs := flag.String("runs", "", "the `file` of recorded runs; empty to record nothing")
	commit := flag.String("commit", "", "the `commit` that was tested")
	flag.Parse()
	if err := record(flag.Arg(0), *code, *runs, *commit); err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
		os.Exit(1)
	}
}

// record counts the tests, prints the result, and records it if runs names a file.
func record(events string, code int, runs, commit string) error {
	file, err := os.Open(events)
	if err != nil {
		return fmt.Errorf("reading the lane's events: %w", err)
	}
	defer func() { _ = file.Close() }()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 64<<20)
	run := support.Run{
		Lane: strings.TrimSuffix(filepath.Base(events), ".json"), With: chosen(os.Getenv),
		Date: time.Now().UTC().Format(time.DateOnly), Commit: commit,
	}
	for lines.Scan() {
		if err := add(&run, lines.Bytes()); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("reading the lane's events: %w", err)
	}
	if code != 0 { // a test binary may fail without a failed test
		run.Failures = max(1, run.Failures)
	}
	slices.Sort(run.Ran)
	run.Ran = slices.Compact(run.Ran)
	fmt.Printf("%s: tests=%d/%d failures=%d\n", run.Lane, run.Passed, run.Tests, run.Failures)
	if runs == "" || len(run.Ran) == 0 {
		return nil
	}
	return write(runs, run)
}

// add adds one event to a run. It counts test functions, without subtests.
func add(run *support.Run, line []byte) error {
	var e struct{ Action, Test, Output string }
	if err := json.Unmarshal(line, &e); err != nil {
		return fmt.Errorf("reading a test event: %w", err)
	}
	if ran, found := strings.CutPrefix(e.Output, "ran "); found && e.Test == "" {
		run.Ran = append(run.Ran, strings.TrimSpace(ran))
	}
	if e.Test == "" || strings.Contains(e.Test, "/") {
		return nil
	}
	switch e.Action {
	case "pass":
		run.Passed++
		run.Tests++
	case "fail":
		run.Failures++
		run.Tests++
	case "skip":
		run.Tests++
	}
	return nil
}

// chosen lists the variables that chose the components, with their values.
func chosen(getenv func(string) string) string {
	var out []string
	for _, name := range chosenBy {
		if value := getenv(name); value != "" {
			out = append(out, name+"="+value)
		}
	}
	return strings.Join(out, " ")
}

// write puts the run into the file.
func write(path string, run support.Run) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading the recorded runs: %w", err)
	}
	var runs []support.Run
	if err := json.Unmarshal(content, &runs); err != nil {
		return fmt.Errorf("reading the recorded runs of %s: %w", path, err)
	}
	if content, err = json.MarshalIndent(support.Record(runs, run), "", "  "); err != nil {
		return fmt.Errorf("recording the run: %w", err)
	}
	if err := os.WriteFile(path, append(content, '\n'), 0o644); err != nil {
		return fmt.Errorf("recording the run: %w", err)
	}
	return nil
}
