package cluster

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// progressInterval is how often a long step reports that it is still at work.
const progressInterval = 15 * time.Second

// step is a long step that reports on out its start, its progress at intervals and its end.
type step struct {
	out    io.Writer
	what   string
	began  time.Time
	done   atomic.Value // string: how much of it is done, such as "120 of 300 packages, "
	stop   chan struct{}
	ticker sync.WaitGroup
}

// announce reports the start of a step.
func announce(out io.Writer, what string) *step {
	s := &step{out: out, what: what, began: time.Now(), stop: make(chan struct{})}
	s.reached("")
	fmt.Fprintf(out, "%s …\n", what)
	s.ticker.Go(func() {
		ticker := time.NewTicker(progressInterval)
		defer ticker.Stop()
		for {
			select {
			case <-s.stop:
				return
			case <-ticker.C:
				fmt.Fprintf(out, "%s … %s%s\n", what, s.done.Load(), time.Since(s.began).Round(time.Second))
			}
		}
	})
	return s
}

// reached tells how much of the step is done. The next report says it.
func (s *step) reached(how string) { s.done.Store(how) }

// finish reports how the step ended and how long it took.
func (s *step) finish(how string) {
	close(s.stop)
	s.ticker.Wait()
	fmt.Fprintf(s.out, "%s … %s in %s\n", s.what, how, time.Since(s.began).Round(100*time.Millisecond))
}
