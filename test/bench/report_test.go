package bench

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"text/template"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/test/bench/stats"
	"github.com/nadra-dev/nadra/test/lab"
)

// report has the content of docs/reference/performance.md and performance-tables.md.
type report struct {
	// Commit is the source that was measured, Boot the machine's boot ID.
	Commit, Boot string
	Machine      machine
	// Measured has the names of the finished measurements.
	Measured map[string]bool
	// Load is the load average of the last minute before each measurement.
	Load map[string]string
	// Sources has the date and the commit of each measurement.
	Sources       map[string]string
	Gate          *gateFigures
	Hook          []hookFigures
	Beside        []besideFigures
	Pods          []podFigures
	Requests      []requestFigures
	Starts        []startFigures
	GuestStarts   stats.Sample
	Bursts        []burstFigures
	LatePods      []burstFigures
	Lags          []lagFigures
	Delay         []delayFigures
	Memory        []memoryFigures
	ContainerPeak float64
	Commands      []commandFigures
	Webhook       *webhookFigures
	Scale         []scaleFigures
	RealWrites    *realWrites
	// ScaleSource tells when and from what Scale was measured.
	ScaleSource string
	Aligned     []alignedFigures
	// AlignedSource tells when and from what Aligned was measured.
	AlignedSource string
	// again is set if benchmarks replace figures of an earlier run.
	again bool
}

// machine describes where the figures were measured.
type machine struct {
	Date, CPU, Kernel, Go                    string
	CPUs                                     int
	Kubernetes, Runtime, Plugins, Filesystem string
	// Multus is the version that nadra is compared with.
	Multus string
}

//go:embed *.tmpl
var templates embed.FS

// documents renders the report: the files below docs/, by name.
func (r *report) documents() (map[string][]byte, error) {
	t, err := template.ParseFS(templates, "*.tmpl")
	if err != nil {
		return nil, err
	}
	out := map[string][]byte{}
	for name, from := range map[string]string{
		"reference/performance.md":        "performance.md.tmpl",
		"reference/performance-tables.md": "performance-tables.md.tmpl",
		"pictures/cost.svg":               "cost.svg.tmpl",
	} {
		var text bytes.Buffer
		if err := t.ExecuteTemplate(&text, from, r); err != nil {
			return nil, err
		}
		out[name] = text.Bytes()
	}
	out["reference/performance.json"], err = r.json()
	return out, err
}

func thisMachine(ctx context.Context, l *lab.Lab) (machine, error) {
	m := machine{Date: time.Now().UTC().Format(time.DateOnly), CPUs: runtime.NumCPU(), Go: runtime.Version()}
	nodes, err := l.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return m, err
	}
	info := nodes.Items[0].Status.NodeInfo
	m.Kernel, m.Kubernetes, m.Runtime = info.KernelVersion, info.KubeletVersion, strings.Replace(info.ContainerRuntimeVersion, "://", " ", 1)
	for _, from := range []struct {
		into          *string
		path, pattern string
	}{
		{&m.CPU, "/proc/cpuinfo", `model name\s*: (.*)`},
		{&m.Filesystem, "/proc/mounts", `(?m)^\S+ / (\S+) `},
		{&m.Plugins, filepath.Join(lab.Root(), "test/cluster/components/cni/go.mod"), `containernetworking/plugins (\S+)`},
		{&m.Multus, filepath.Join(lab.Root(), "test/cluster/components/multus/go.mod"), `multus-cni\.v4 (\S+)`},
	} {
		if *from.into, err = find(from.path, from.pattern); err != nil {
			return m, err
		}
	}
	return m, nil
}

// find returns the match of a pattern's group in a file.
func find(path, pattern string) (string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	match := regexp.MustCompile(pattern).FindSubmatch(content)
	if match == nil {
		return "", fmt.Errorf("finding %s in %s: no match", pattern, path)
	}
	return string(match[1]), nil
}

// commit returns the commit of the source, with a plus if the tree has changes.
func commit(ctx context.Context) (string, error) {
	cmd := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty=+", "--exclude=*")
	cmd.Dir = lab.Root()
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("asking git for the commit: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// PodsPlain returns the times of plain pods, with which other kinds are compared.
func (r *report) PodsPlain() stats.Sample { return r.Pods[0].Ready }

// Times returns the median of a kind as a multiple of that of plain pods.
func (r *report) Times(p podFigures) float64 { return p.Ready.Median() / r.PodsPlain().Median() }

// Overhead returns the time that nadra adds to each attachment.
func (h hookFigures) Overhead() float64 { return h.Figures["ms/attachment-added"] }

// Outside returns the part of the hook in which no plugin runs, per attachment.
func (h hookFigures) Outside() float64 { return h.Figures["ms/attachment-outside-plugins"] }

// hookGoal is the most that nadra may add to an attachment, in milliseconds.
const hookGoal = 2

// Goal reports whether nadra adds less than that by both measures. Cases with the state in
// memory have no goal, because nobody runs nadra so.
func (h hookFigures) Goal() string {
	switch {
	case strings.Contains(h.Case, "state-in-memory"):
		return "–"
	case h.Outside() < hookGoal && h.Overhead() < hookGoal:
		return "met"
	}
	return "missed"
}
