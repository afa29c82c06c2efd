package cli

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// progressAfter is how long something takes before it says so, and between
// what it says.
const progressAfter = time.Second

// progress tells people that something goes on.
type progress struct {
	w     io.Writer
	quiet bool
	done  chan struct{}
	group sync.WaitGroup

	mu   sync.Mutex
	text string
}

func newProgress(w io.Writer, quiet bool) *progress {
	p := &progress{w: w, quiet: quiet, done: make(chan struct{})}
	p.group.Go(p.run)
	return p
}

func (p *progress) run() {
	ticker := time.NewTicker(progressAfter)
	defer ticker.Stop()
	for {
		select {
		case <-p.done:
			return
		case <-ticker.C:
			p.mu.Lock()
			text := p.text
			p.mu.Unlock()
			if text != "" && !p.quiet {
				_, _ = fmt.Fprintln(p.w, text+" …")
			}
		}
	}
}

// say changes what the next line will be.
func (p *progress) say(format string, args ...any) {
	p.mu.Lock()
	p.text = fmt.Sprintf(format, args...)
	p.mu.Unlock()
}

// stop ends it; nothing is written afterwards.
func (p *progress) stop() {
	close(p.done)
	p.group.Wait()
}
