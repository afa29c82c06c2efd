package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/nadra-dev/nadra/test/bench/stats"
	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

const (
	manyNADs = 100
	// memoryPods with podNetworks each make 250 attachments.
	memoryPods  = 50
	podNetworks = 5
	// churnTime is how long pods come and go, unless BENCH_CHURN is set.
	churnTime = 10 * time.Minute
	// publishTime limits the publication of 10,000 devices on a busy machine.
	publishTime = 10 * time.Minute
	// watched is how long each state is measured.
	watched = 30 * time.Second
)

// memoryFigures has the figures of one state of the driver.
type memoryFigures struct {
	State string
	// Attachments and NADs are the numbers of them in that state.
	Attachments, NADs int
	// RSS is the resident memory, Anon the part of it that is not the program file, and
	// Peak the maximum of RSS so far; in MiB.
	RSS, Anon, Peak float64
	// CPU is the share of one core that the driver and its plugins used, in percent.
	CPU float64
}

// Goal returns the driver's limit in that state, in MiB, or 0 if it has none.
func (f memoryFigures) Goal() float64 {
	switch {
	case f.NADs == 10_000:
		return 120
	case f.NADs == manyNADs && f.Attachments > 0:
		return 60
	}
	return 0
}

// BenchmarkMemory measures the driver's process on a fresh cluster, then with many
// attachments, while pods come and go, and with more networks than any cluster has.
func BenchmarkMemory(b *testing.B) {
	figures.begin(b, "memory")
	l := setup(b, "memory", "mem0")
	p := findProcess(b, l.Cluster.Node(1).Machine, "nadra-node")
	b.ReportMetric(0, "ns/op")
	note := func(unit, state string, attachments, nads int) {
		f := p.memory(b, state)
		f.Attachments, f.NADs = attachments, nads
		figures.Memory = append(figures.Memory, f)
		b.ReportMetric(f.RSS, "MiB-"+unit)
		b.ReportMetric(f.CPU, "%CPU-"+unit)
	}
	note("idle", "no NADs", 0, 0)
	createNADs(b, l, 0, manyNADs)
	note("NADs", "100 NADs", 0, manyNADs)
	startPods(b, l)
	all := memoryPods * podNetworks
	note("attachments", fmt.Sprintf("100 NADs, %d attachments (%d pods with %d networks)", all, memoryPods, podNetworks), all, manyNADs)
	lives := churn(b, l)
	note("churn", fmt.Sprintf("the same after %d pods more came and went", lives), all, manyNADs)
	figures.ContainerPeak = p.containerPeak(b)
	b.ReportMetric(figures.ContainerPeak, "MiB-container-peak")
	createNADs(b, l, manyNADs, 1000)
	note("1000-NADs", "1,000 NADs, the same attachments", all, 1000)
	createNADs(b, l, 1000, 10_000)
	note("10000-NADs", "10,000 NADs, the same attachments", all, 10_000)
}

// createNADs creates NADs with the numbers from up to, but not including, to, and waits
// until they are published.
func createNADs(b *testing.B, l *lab.Lab, from, to int) {
	var group errgroup.Group
	group.SetLimit(16)
	for i := from; i < to; i++ {
		group.Go(func() error { return l.CreateNAD(b.Context(), "memory", networkNo(i), macvlan("mem0", i)) })
	}
	must(b, group.Wait())
	for _, i := range []int{from, to - 1} {
		must(b, lab.Eventually(b.Context(), publishTime, func(ctx context.Context) error {
			return l.Published(ctx, "memory/"+networkNo(i))
		}))
	}
}

// churn creates and deletes pods one after the other, and returns their number.
func churn(b *testing.B, l *lab.Lab) (lives int) {
	length := churnTime
	if text := os.Getenv("BENCH_CHURN"); text != "" {
		var err error
		length, err = time.ParseDuration(text)
		must(b, err)
	}
	for start := time.Now(); time.Since(start) < length; lives++ {
		name := fmt.Sprintf("churn-%d", lives)
		_, err := l.CreatePod(b.Context(), lab.Pod("memory", name, "many"))
		must(b, err)
		_, err = l.Ready(b.Context(), "memory", name, 5*time.Minute)
		must(b, err)
		must(b, l.DeletePod(b.Context(), "memory", name))
	}
	return lives
}

func startPods(b *testing.B, l *lab.Lab) {
	var wants []lab.Want
	for i := range podNetworks {
		wants = append(wants, lab.Want{Network: networkNo(i)})
	}
	must(b, l.CreateTemplate(b.Context(), lab.Template("memory", "many", wants...)))
	name := func(i int) string { return fmt.Sprintf("p%02d", i) }
	for i := range memoryPods {
		_, err := l.CreatePod(b.Context(), lab.Pod("memory", name(i), "many"))
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

func networkNo(i int) string { return fmt.Sprintf("net-%05d", i) }

// process is the directory of a process in the node's /proc.
type process string

func findProcess(b *testing.B, machine *cluster.Machine, program string) process {
	proc, err := machine.HostPath("/proc")
	must(b, err)
	comms, err := filepath.Glob(proc + "/[0-9]*/comm")
	must(b, err)
	for _, comm := range comms {
		// Processes may end meanwhile.
		if name, err := os.ReadFile(comm); err == nil && strings.HasPrefix(program, strings.TrimSpace(string(name))) {
			return process(filepath.Dir(comm))
		}
	}
	b.Fatalf("no process on %s is %s", machine.Name(), program)
	return ""
}

// memory returns the median over some time, because the heap grows and shrinks with garbage
// collection. The driver examines the node twice in that time.
func (p process) memory(b *testing.B, state string) memoryFigures {
	var rss, anon stats.Sample
	tick := time.NewTicker(watched / 100)
	defer tick.Stop()
	before, start := p.cpu(b), time.Now()
	for range 100 {
		rss = append(rss, p.status(b, "VmRSS"))
		anon = append(anon, p.status(b, "RssAnon"))
		<-tick.C
	}
	used := p.cpu(b) - before
	return memoryFigures{
		State: state, RSS: rss.Median(), Anon: anon.Median(), Peak: p.status(b, "VmHWM"),
		CPU: 100 * used / time.Since(start).Seconds(),
	}
}

// cpu returns the CPU time of the process and its ended children so far, in seconds: fields
// 14 to 17 of /proc/<pid>/stat, in hundredths.
func (p process) cpu(b *testing.B) float64 {
	content, err := os.ReadFile(filepath.Join(string(p), "stat"))
	must(b, err)
	fields := strings.Fields(string(content[strings.LastIndexByte(string(content), ')')+1:]))
	sum := 0.0
	for _, field := range fields[11:15] {
		ticks, err := strconv.ParseFloat(field, 64)
		must(b, err)
		sum += ticks / 100
	}
	return sum
}

// status returns a field of /proc/<pid>/status, in MiB.
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

// containerPeak returns the maximum that was charged to the driver's container, in MiB,
// including the plugins that it ran, without files that were cached before.
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
