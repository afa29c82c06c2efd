package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nadra-dev/nadra/test/lab"
)

// measurements lists the measurements that the document needs.
var measurements = []string{
	"aligned", "beside", "burst", "late pods", "commands", "delay", "gate", "guest starts", "hook", "memory", "network-status", "pods", "scale", "starts", "webhook",
}

// saved returns the file that keeps figures while others are measured. All measurements
// take more than an hour, and BENCH_RESUME=1 continues an interrupted run.
func saved() string { return filepath.Join(lab.Root(), "bin", "bench", "figures.json") }

// resume reads the figures of an interrupted run. It ignores figures of another commit, or
// of another boot of the machine. With BENCH_RESUME=published it reads those of performance.json, whatever was
// measured, and benchmarks that run replace theirs; the documents say of which commit each is.
func (r *report) resume() error {
	how := os.Getenv("BENCH_RESUME")
	if how == "published" {
		if err := r.readPublished(); err != nil {
			return err
		}
		r.again = true
		return nil
	}
	text, err := os.ReadFile(saved())
	if errors.Is(err, fs.ErrNotExist) || how == "" {
		return nil
	}
	var old report
	if err == nil {
		err = json.Unmarshal(text, &old)
	}
	if err != nil {
		return fmt.Errorf("taking up the figures in %s: %w", saved(), err)
	}
	if old.Commit == r.Commit && old.Boot == r.Boot {
		*r = old
	}
	return nil
}

// readPublished reads the figures of performance.json.
func (r *report) readPublished() error {
	var published struct{ Report report }
	text, err := os.ReadFile(filepath.Join(reference(), "performance.json"))
	if err == nil {
		err = json.Unmarshal(text, &published)
	}
	if err != nil {
		return fmt.Errorf("taking up the published figures: %w", err)
	}
	now := r.Commit
	*r = published.Report
	for _, what := range measurements {
		// Figures from before sources were kept for each measurement are of one run.
		if r.Measured[what] && r.Sources[what] == "" {
			r.setSource(what, r.Machine.Date)
		}
	}
	r.Commit = now
	return nil
}

// setSource records when and of which commit a measurement is.
func (r *report) setSource(what, date string) {
	if r.Sources == nil {
		r.Sources = map[string]string{}
	}
	r.Sources[what] = date + ", commit " + r.Commit
}

// MeasuredHere lists the measurements on nodes of one source, each with all that it has measured: the scheduler's have
// sources of their own.
func (r *report) MeasuredHere() string {
	bySource := map[string][]string{}
	for _, what := range measurements {
		if source := r.Sources[what]; source != "" && what != "scale" && what != "aligned" {
			bySource[source] = append(bySource[source], what)
		}
	}
	var out []string
	for _, source := range slices.Backward(slices.Sorted(maps.Keys(bySource))) {
		out = append(out, strings.Join(bySource[source], ", ")+" on "+source)
	}
	return strings.Join(out, "; ")
}

// forget removes the figures of a measurement that is made again.
func (r *report) forget(what string) {
	switch what {
	case "beside":
		r.Beside = nil
	case "burst":
		r.Bursts = nil
	case "late pods":
		r.LatePods = nil
	case "delay":
		r.Delay = nil
	case "memory":
		r.Memory = nil
	case "network-status":
		r.Lags = nil
	case "pods":
		r.Pods, r.Requests = nil, nil
	case "starts":
		r.Starts = nil
	case "guest starts":
		r.GuestStarts = nil
	}
}

// begin records the machine's load before a measurement, and saves the figures after it. It
// skips finished measurements.
func (r *report) begin(b *testing.B, what string) {
	b.Helper()
	if !slices.Contains(measurements, what) {
		b.Fatalf("%s is not one of the measurements %q", what, measurements)
	}
	if r.Measured[what] && !r.again {
		b.Skipf("%s was measured by the interrupted run", what)
	}
	if r.Measured == nil {
		r.Measured, r.Load = map[string]bool{}, map[string]string{}
	}
	content, err := os.ReadFile("/proc/loadavg")
	must(b, err)
	r.Load[what], _, _ = strings.Cut(string(content), " ")
	before := *r
	r.forget(what)
	b.Cleanup(func() {
		if b.Failed() {
			*r = before
			return
		}
		r.setSource(what, time.Now().UTC().Format(time.DateOnly))
		r.Measured[what] = true
		must(b, r.save())
	})
}

func (r *report) save() error {
	text, err := json.Marshal(r)
	if err == nil {
		err = errors.Join(os.MkdirAll(filepath.Dir(saved()), 0o755), os.WriteFile(saved(), text, 0o644))
	}
	if err != nil {
		return fmt.Errorf("keeping the figures: %w", err)
	}
	return nil
}

// finish writes the documents if everything was measured, or what was measured replaces published figures.
func (r *report) finish() error {
	for _, what := range measurements {
		if !r.Measured[what] && !r.again {
			fmt.Fprintf(os.Stderr, "docs/reference/performance.md is left as it is: %s was not measured\n", what)
			return nil
		}
	}
	return r.write()
}

// write writes all documents.
func (r *report) write() error {
	documents, err := r.documents()
	if err != nil {
		return err
	}
	err = r.writeSizes()
	for name, text := range documents {
		err = errors.Join(err, os.WriteFile(filepath.Join(lab.Root(), "docs", name), text, 0o644))
	}
	return err
}

// reference returns the folder of the documents.
func reference() string { return filepath.Join(lab.Root(), "docs", "reference") }
