package publish

import (
	"fmt"
	"testing"
	"time"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/test/drivertest"
)

// written returns what was published so far.
func (c *statusBench) written() [][]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([][]string{}, c.calls...)
}

// TestNodesWriteOneAfterAnother checks that each node writes a changed NAD once, at a moment
// of its own.
func TestNodesWriteOneAfterAnother(t *testing.T) {
	for _, tt := range []struct {
		nodes int64
		over  time.Duration
	}{{0, 0}, {1, perNode}, {100, 3 * time.Second}, {5000, maxSpread}, {20000, maxSpread}} {
		t.Run(fmt.Sprint(tt.nodes), func(t *testing.T) {
			inStatusBench(t, func(t *testing.T, c *statusBench) {
				c.spread.nodes.Store(tt.nodes)
				drivertest.Same(t, "the nodes take", tt.over, c.spread.over())
				c.begin(t)
				for i := range 3 { // changes that come together are one write
					_ = c.nads.Add(drivertest.NAD(fmt.Sprintf("net%d", i), drivertest.RedConf))
					c.NADsChanged()
				}
				if tt.over > 0 {
					after(debounce + tt.over - time.Millisecond)
					drivertest.Same(t, "publications before its moment", [][]string{{}}, c.written())
				}
				after(debounce + time.Millisecond)
				drivertest.Same(t, "publications", [][]string{{}, {"default-net0", "default-net1", "default-net2"}}, c.written())
			})
		})
	}
}

// TestSpreadEnds checks that a change on the node is written together with what waits, that
// a change which is undone is never written, and that Prepare sees at once what is written
// later.
func TestSpreadEnds(t *testing.T) {
	inStatusBench(t, func(t *testing.T, c *statusBench) {
		c.spread.nodes.Store(5000)
		c.begin(t)
		_ = c.nads.Add(drivertest.NAD("red", drivertest.RedConf))
		c.NADsChanged()
		after(2 * debounce)
		if _, err := c.View.Usable(attachment.NetworkRef{Namespace: "default", Name: "red"}); err != nil {
			t.Errorf("Prepare does not see what is not published yet: %v", err)
		}
		_ = c.nads.Delete(drivertest.NAD("red", drivertest.RedConf))
		c.NADsChanged()
		after(2 * maxSpread)
		drivertest.Same(t, "after a change that was undone", [][]string{{}}, c.written())
		_ = c.nads.Add(drivertest.NAD("blue", drivertest.BlueConf)) // has lan0 as its master
		_ = c.nads.Add(drivertest.NAD("red", drivertest.RedConf))
		c.NADsChanged()
		after(2 * debounce)
		c.master(true)
		c.Trigger()
		after(2 * debounce)
		drivertest.Same(t, "with a change on the node", [][]string{{}, {"default-blue", "default-red"}}, c.written())
		after(2 * maxSpread)
		drivertest.Same(t, "later", 2, len(c.written()))
	})
}
