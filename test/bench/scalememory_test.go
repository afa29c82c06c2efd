package bench

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

// scaleMemory has the memory of both components that hold all slices.
type scaleMemory struct{ APIServer, Scheduler processMemory }

// processMemory has the memory of a process in one state of the cluster, in MiB.
type processMemory struct {
	// Live is the heap in use right after garbage collection, and RSS the resident memory once
	// the runtime has returned what was free, both soon after the process has started.
	Live, RSS float64
	// Peak is the most resident memory while pods were scheduled after that.
	Peak float64
}

// component is a process of the control plane with its own endpoints.
type component struct {
	process
	endpoint
}

// restart restarts the API server and the scheduler, so that they hold what is in the cluster now
// and nothing else: the API server keeps recent events of each resource, with objects that are
// gone. It returns when both have read everything.
func (s *scale) restart(b *testing.B) {
	machine := s.Cluster.ControlPlane()
	for _, name := range []string{cluster.APIServer, cluster.Scheduler} {
		must(b, machine.Restart(b.Context(), name))
	}
	scheduler := schedulerEndpoint(b, s.Cluster)
	must(b, lab.Eventually(b.Context(), time.Minute, func(ctx context.Context) error {
		_, err := scheduler.get(ctx, "/readyz")
		return err
	}))
	// Only now: a process that starts on a busy machine may end, and another takes its place.
	s.apiServer = component{findProcess(b, machine, cluster.APIServer), apiEndpoint(b, s.Cluster)}
	s.scheduler = component{findProcess(b, machine, cluster.Scheduler), scheduler}
}

// peak returns the most resident memory since memory was called, in MiB.
func (c component) peak(b *testing.B) float64 {
	b.Helper()
	return c.status(b, "VmHWM")
}

// liveHeap matches what a heap profile as text says about the heap.
var liveHeap = regexp.MustCompile(`(?m)^# HeapAlloc = (\d+)$`)

// live makes the process collect garbage, and returns the size of the heap after it, in MiB.
func (c component) live(b *testing.B) float64 {
	b.Helper()
	text, err := c.get(b.Context(), "/debug/pprof/heap?gc=1&debug=1")
	must(b, err)
	match := liveHeap.FindSubmatch(text)
	if match == nil {
		b.Fatalf("the heap profile of %s has no HeapAlloc", c.url)
	}
	bytes, err := strconv.ParseFloat(string(match[1]), 64)
	must(b, err)
	return bytes / (1 << 20)
}

// memory returns the memory of the process, and makes the kernel count the peak from then on. It
// collects garbage once a second until the resident memory does not shrink any more: the runtime
// returns free memory bit by bit.
func (c component) memory(b *testing.B) (m processMemory) {
	b.Helper()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for range 20 {
		before := m.RSS
		m.Live, m.RSS = c.live(b), c.status(b, "VmRSS")
		if before > 0 && m.RSS > 0.99*before {
			break
		}
		<-tick.C
	}
	must(b, os.WriteFile(filepath.Join(string(c.process), "clear_refs"), []byte("5"), 0))
	return m
}
