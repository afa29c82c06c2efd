//go:build e2e

package vm

import (
	"fmt"
	"sync"
	"testing"
)

// summary counts cases. Each case counts once, whatever its result.
type summary struct {
	mu                             sync.Mutex
	cases, passed, notRun, failing int
}

func (s *summary) count(result *int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cases++
	*result++
}

// line returns the lane's last line. A failure outside of any case counts as one.
func (s *summary) line(failed bool) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if failed && s.failing == 0 {
		s.cases, s.failing = s.cases+1, 1
	}
	return fmt.Sprintf("vm-lane: cases=%d passed=%d not-run=%d failures=%d", s.cases, s.passed, s.notRun, s.failing)
}

// testCase runs one case of the lane.
func testCase(t *testing.T, name string, check func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Cleanup(func() {
			switch {
			case t.Failed():
				theSummary.count(&theSummary.failing)
			case t.Skipped():
				theSummary.count(&theSummary.notRun)
			default:
				theSummary.count(&theSummary.passed)
			}
		})
		check(t)
	})
}
