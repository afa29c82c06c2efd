package cli

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"
)

// progressAfter is the time before the first line of progress, and between lines.
const progressAfter = time.Second

// progress prints lines while a command works.
type progress struct {
	w     io.Writer
	quiet bool
	done  chan struct{}
	group sync.WaitGroup

	mu   sync.Mutex
	text string
}

// newProgress starts the printing, unless quiet is true. Each text is printed once where nobody watches it.
func newProgress(w io.Writer, quiet bool) *progress {
	p := &progress{w: w, quiet: quiet, done: make(chan struct{})}
	p.group.Go(p.run)
	return p
}

// run prints the text from time to time.
func (p *progress) run() {
	file, isFile := p.w.(*os.File)
	watched, printed := isFile && term.IsTerminal(int(file.Fd())), ""
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
			if text != "" && !p.quiet && (watched || text != printed) {
				printed = text
				_, _ = fmt.Fprintln(p.w, text+" …")
			}
		}
	}
}

// say sets the next line.
func (p *progress) say(format string, args ...any) {
	p.mu.Lock()
	p.text = fmt.Sprintf(format, args...)
	p.mu.Unlock()
}

// stop ends the printing.
func (p *progress) stop() {
	close(p.done)
	p.group.Wait()
}
