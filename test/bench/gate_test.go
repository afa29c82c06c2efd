package bench

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nadra-dev/nadra/test/bench/stats"
	"github.com/nadra-dev/nadra/test/lab"
)

// gateRuns is the number of runs of each program.
const gateRuns = 500

// gateFigures compare the gate with a program that does nothing.
type gateFigures struct {
	Gate, Nothing stats.Sample
	// KiB is the gate's size.
	KiB int64
}

// Added returns the median time that the gate adds to the start of a process.
func (g *gateFigures) Added() float64 { return g.Gate.Median() - g.Nothing.Median() }

// gateGoal is how long the gate may delay a container that need not wait, in milliseconds.
const gateGoal = 5

// Goal reports whether the gate takes less than that.
func (g *gateFigures) Goal() string {
	if g.Gate.Median() < gateGoal {
		return "met"
	}
	return "missed"
}

// BenchmarkGate runs the gate as runc does at every start of a container, for
// one whose pod is attached.
func BenchmarkGate(b *testing.B) {
	figures.begin(b, "gate")
	noLab(b)
	gate := filepath.Join(lab.Root(), "bin", "nadra-gate")
	info, err := os.Stat(gate)
	must(b, err)
	dir := b.TempDir()
	must(b, os.WriteFile(filepath.Join(dir, "claim.json"), []byte(attachedHere(b)), 0o600))
	state := fmt.Appendf(nil, `{"pid":%d,"bundle":%q,"annotations":{"io.kubernetes.cri.sandbox-id":"sandbox-1"}}`, os.Getpid(), dir)
	g := &gateFigures{KiB: info.Size() >> 10}
	for range gateRuns { // in turn, so that noise affects both
		g.Gate.Add(timeOf(b, state, gate, "-records="+dir, "-claims=claim", "-wait=0s"))
		g.Nothing.Add(timeOf(b, nil, "/bin/true"))
	}
	figures.Gate = g
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(g.Gate.Median(), "ms-gate")
	b.ReportMetric(g.Nothing.Median(), "ms-nothing")
}

// timeOf runs a program to its end and returns how long it took.
func timeOf(b *testing.B, stdin []byte, path string, args ...string) time.Duration {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), path, args...)
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(stdin), &stderr
	started := time.Now()
	if err := cmd.Run(); err != nil {
		b.Fatalf("%s: %v\n%s", path, err, stderr.String())
	}
	return time.Since(started)
}

// attachedHere writes the record of a claim that is attached in this process' own network
// namespace, and returns its path.
func attachedHere(b *testing.B) string {
	b.Helper()
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	must(b, err)
	socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	must(b, err)
	defer unix.Close(socket)
	cookie, err := unix.GetsockoptUint64(socket, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	must(b, err)
	return fmt.Sprintf(`{"version":1,"records":[{"phase":"Attached","statusStored":true,"bootID":%q,"sandbox":{"id":"sandbox-1","netNSCookie":%d}}]}`,
		strings.TrimSpace(string(boot)), cookie)
}
