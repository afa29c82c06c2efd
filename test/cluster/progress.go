package cluster

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// progressInterval is how often a long step reports that it is still at work.
const progressInterval = 15 * time.Second

// announce reports a long step on out: its start, its progress at intervals and, when the
// returned function is called, how it ended and how long it took.
func announce(out io.Writer, what string) (finish func(how string)) {
	start := time.Now()
	fmt.Fprintf(out, "%s …\n", what)
	stop := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		ticker := time.NewTicker(progressInterval)
		defer ticker.Stop()
		for {
			select {
			case <-stop:
				return
			case <-ticker.C:
				fmt.Fprintf(out, "%s … %s\n", what, time.Since(start).Round(time.Second))
			}
		}
	})
	return func(how string) {
		close(stop)
		done.Wait()
		fmt.Fprintf(out, "%s … %s in %s\n", what, how, time.Since(start).Round(100*time.Millisecond))
	}
}
