package driver

import (
	"sync"
	"time"
)

// waitShare is the inverse of the share of time that the hooks of all pods together may wait.
const waitShare = 10

// waitAllowance bounds how long the hooks of all pods together may wait. The runtime hands out the
// events of all pods one after the other, so every pod of the node waits with a hook. The
// allowance grows by a share of the time that passes, up to what one hook may wait. The zero value
// is full.
type waitAllowance struct {
	mu   sync.Mutex
	left time.Duration
	at   time.Time // when left was computed
}

// available returns how long a hook may wait that begins now. most is what one hook may wait.
func (a *waitAllowance) available(now time.Time, most time.Duration) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.left, a.at = min(a.left+now.Sub(a.at)/waitShare, most), now
	return max(a.left, 0)
}

// spend takes what a hook has waited.
func (a *waitAllowance) spend(waited time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.left -= waited
}
