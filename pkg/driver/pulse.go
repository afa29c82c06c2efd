package driver

import (
	"sync/atomic"
	"time"
)

// pulse tells whether a loop that never ends still turns. The zero value is that
// of one that has not begun.
type pulse struct{ last atomic.Int64 }

// beat is called with every turn.
func (p *pulse) beat() { p.last.Store(time.Now().UnixNano()) }

// silence is for how long the loop has not turned; began is false when it never
// has.
func (p *pulse) silence(now time.Time) (_ time.Duration, began bool) {
	last := p.last.Load()
	return now.Sub(time.Unix(0, last)), last != 0
}

// told notes a turn of the loop that publishes networks, and what came of it.
func (p *publisher) told(err error) error { return toldBy(&p.pulse, p.outcome, err) }

// told is the same for hardware.
func (p *hardwarePublisher) told(err error) error { return toldBy(&p.pulse, p.outcome, err) }

func toldBy(p *pulse, outcome func(error), err error) error {
	p.beat()
	if outcome != nil {
		outcome(err)
	}
	return err
}
