//go:build e2e

package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nadra-dev/nadra/test/bench/stats"
	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

const (
	manyNADs = 100
	// memoryPods with podNetworks each make 100 attachments.
	memoryPods  = 25
	podNetworks = 4
)

// memoryFigures are one state of the driver, in MiB.
type memoryFigures struct {
	State string
	// RSS is what is resident, Anon that part of it which is not the program
	// file, Peak the most of RSS so far.
	RSS, Anon, Peak float64
}

// BenchmarkMemory looks at the driver's process on a fresh cluster, then with
// many networks, then with many attachments.
func BenchmarkMemory(b *testing.B) {
	figures.noteLoad("memory")
	l := setup(b, "memory", "mem0")
	p := findProcess(b, l.Cluster.Node(1), "nadra-node")
	b.ReportMetric(0, "ns/op")
	note := func(state, unit string) {
		f := p.memory(b, state)
		figures.Memory = append(figures.Memory, f)
		b.ReportMetric(f.RSS, "MiB-"+unit)
	}
	note("idle, no NADs", "idle")
	createNADs(b, l)
	note(fmt.Sprintf("idle, %d NADs", manyNADs), "NADs")
	startPods(b, l)
	note(fmt.Sprintf("%d NADs, %d attachments (%d pods with %d networks)", manyNADs, memoryPods*podNetworks, memoryPods, podNetworks), "attachments")
	figures.ContainerPeak = p.containerPeak(b)
	b.ReportMetric(figures.ContainerPeak, "MiB-container-peak")
}

func createNADs(b *testing.B, l *lab.Lab) {
	var names []string
	for i := range manyNADs {
		name := networkNo(i)
		must(b, l.CreateNAD(b.Context(), "memory", name, macvlan("mem0", i)))
		names = append(names, "memory/"+name)
	}
	must(b, l.Published(b.Context(), names...))
}

func startPods(b *testing.B, l *lab.Lab) {
	var wants []lab.Want
	for i := range podNetworks {
		wants = append(wants, lab.Want{Network: networkNo(i)})
	}
	must(b, l.CreateTemplate(b.Context(), lab.Template("memory", "four", wants...)))
	name := func(i int) string { return fmt.Sprintf("p%02d", i) }
	for i := range memoryPods {
		_, err := l.CreatePod(b.Context(), lab.Pod("memory", name(i), "four"))
		must(b, err)
	}
	for i := range memoryPods {
		_, err := l.Ready(b.Context(), "memory", name(i), 5*time.Minute)
		must(b, err)
		statuses, err := l.NetworkStatus(b.Context(), "memory", name(i))
		must(b, err)
		if len(statuses) != podNetworks+1 {
			b.Fatalf("pod %s has %d networks, want the default one and %d", name(i), len(statuses), podNetworks)
		}
	}
}

func networkNo(i int) string { return fmt.Sprintf("net-%03d", i) }

// process is the directory of a process in the node's /proc.
type process string

func findProcess(b *testing.B, node *cluster.Node, program string) process {
	proc, err := node.HostPath("/proc")
	must(b, err)
	comms, err := filepath.Glob(proc + "/[0-9]*/comm")
	must(b, err)
	for _, comm := range comms {
		// Processes end while they are looked at.
		if name, err := os.ReadFile(comm); err == nil && strings.HasPrefix(program, strings.TrimSpace(string(name))) {
			return process(filepath.Dir(comm))
		}
	}
	b.Fatalf("no process on the node is %s", program)
	return ""
}

// memory takes the median over some seconds: a garbage collector's heap goes
// up and down.
func (p process) memory(b *testing.B, state string) memoryFigures {
	var rss, anon stats.Sample
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for range 50 {
		rss = append(rss, p.status(b, "VmRSS"))
		anon = append(anon, p.status(b, "RssAnon"))
		<-tick.C
	}
	return memoryFigures{State: state, RSS: rss.Median(), Anon: anon.Median(), Peak: p.status(b, "VmHWM")}
}

// status is a field of /proc/<pid>/status, in MiB.
func (p process) status(b *testing.B, field string) float64 {
	content, err := os.ReadFile(filepath.Join(string(p), "status"))
	must(b, err)
	match := regexp.MustCompile(field + `:\s+(\d+) kB`).FindSubmatch(content)
	if match == nil {
		b.Fatalf("%s/status has no %s", p, field)
	}
	kib, err := strconv.ParseFloat(string(match[1]), 64)
	must(b, err)
	return kib / 1024
}

// containerPeak is the most that was ever charged to the driver's container, in
// MiB: with the plugins that it ran, without files that were cached before.
func (p process) containerPeak(b *testing.B) float64 {
	content, err := os.ReadFile(filepath.Join(string(p), "cgroup"))
	must(b, err)
	for _, version := range []struct{ group, root, file string }{
		{`(?m)^\d+:memory:(.*)$`, "/sys/fs/cgroup/memory", "memory.max_usage_in_bytes"},
		{`(?m)^0::(.*)$`, "/sys/fs/cgroup", "memory.peak"},
	} {
		match := regexp.MustCompile(version.group).FindSubmatch(content)
		if match == nil {
			continue
		}
		text, err := os.ReadFile(filepath.Join(version.root, string(match[1]), version.file))
		must(b, err)
		bytes, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
		must(b, err)
		return bytes / (1 << 20)
	}
	b.Fatalf("no memory control group in %s", content)
	return 0
}
