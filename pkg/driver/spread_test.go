package driver

import (
	"fmt"
	"testing"
	"time"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/driver/internal/drivertest"
)

// written is what was published so far.
func (c *clinic) written() [][]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([][]string{}, c.calls...)
}

// A NAD that changes is written by each node once, at a moment of its own.
func TestNodesWriteOneAfterAnother(t *testing.T) {
	for _, tt := range []struct {
		nodes int64
		over  time.Duration
	}{{0, 0}, {1, perNode}, {100, 3 * time.Second}, {5000, maxSpread}, {20000, maxSpread}} {
		t.Run(fmt.Sprint(tt.nodes), func(t *testing.T) {
			inClinic(t, func(t *testing.T, c *clinic) {
				c.spread.nodes.Store(tt.nodes)
				drivertest.Same(t, "the nodes take", tt.over, c.spread.over())
				c.begin(t)
				for i := range 3 { // changes that come together are one write
					_ = c.nads.Add(nad(fmt.Sprintf("net%d", i), redConf))
					c.ask(causeNADs)
				}
				if tt.over > 0 {
					after(settle + tt.over - time.Millisecond)
					drivertest.Same(t, "publications before its turn", [][]string{{}}, c.written())
				}
				after(settle + time.Millisecond)
				drivertest.Same(t, "publications", [][]string{{}, {"default-net0", "default-net1", "default-net2"}}, c.written())
			})
		})
	}
}

// What happens on the node takes along what waits; what is taken back is never
// written; and Prepare sees at once what is written later.
func TestSpreadEnds(t *testing.T) {
	inClinic(t, func(t *testing.T, c *clinic) {
		c.spread.nodes.Store(5000)
		c.begin(t)
		_ = c.nads.Add(nad("red", redConf))
		c.ask(causeNADs)
		after(2 * settle)
		if _, err := c.networks.usable(attachment.NetworkRef{Namespace: "default", Name: "red"}); err != nil {
			t.Errorf("Prepare does not see what is not published yet: %v", err)
		}
		_ = c.nads.Delete(nad("red", redConf))
		c.ask(causeNADs)
		after(2 * maxSpread)
		drivertest.Same(t, "what was taken back", [][]string{{}}, c.written())
		_ = c.nads.Add(nad("blue", blueConf)) // has lan0 as its master
		_ = c.nads.Add(nad("red", redConf))
		c.ask(causeNADs)
		after(2 * settle)
		c.master(true)
		c.poke()
		after(2 * settle)
		drivertest.Same(t, "with what happens here", [][]string{{}, {"default-blue", "default-red"}}, c.written())
		after(2 * maxSpread)
		drivertest.Same(t, "later", 2, len(c.written()))
	})
}
