package cli

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// clocked records when each line is written. It is read after the writer has ended.
type clocked struct {
	start time.Time
	lines []string
}

func (c *clocked) Write(line []byte) (int, error) {
	c.lines = append(c.lines, fmt.Sprintf("%s %s", time.Since(c.start), line))
	return len(line), nil
}

// The first line comes after a second, then one for each text, since it is no terminal, and none after the end.
func TestProgress(t *testing.T) {
	for quiet, want := range map[bool][]string{
		false: {"1s Reading 1 …\n", "2s Reading 2 …\n"},
		true:  nil,
	} {
		synctest.Test(t, func(t *testing.T) {
			out := &clocked{start: time.Now()}
			p := newProgress(out, quiet)
			p.say("Reading %d", 1)
			time.Sleep(progressAfter + time.Millisecond)
			p.say("Reading %d", 2)
			time.Sleep(3 * progressAfter)
			p.stop()
			time.Sleep(10 * progressAfter)
			if !slices.Equal(out.lines, want) {
				t.Errorf("quiet %v: printed %q, want %q", quiet, out.lines, want)
			}
		})
	}
}
