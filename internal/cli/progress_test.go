package cli

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"
)

// What takes no longer than a second says nothing; then there is a line a
// second, and none after the end.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := newProgress(&out, false)
		p.say("Reading %d", 1)
		time.Sleep(progressAfter - time.Millisecond)
		synctest.Wait()
		if out.Len() > 0 {
			t.Errorf("within a second it says %q", out.String())
		}
		time.Sleep(2 * time.Millisecond)
		p.say("Reading %d", 2)
		time.Sleep(progressAfter)
		p.stop()
		time.Sleep(10 * progressAfter)
		if want := "Reading 1 …\nReading 2 …\n"; out.String() != want {
			t.Errorf("it says %q, want %q", out.String(), want)
		}
	})
}

func TestQuietProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := newProgress(&out, true)
		p.say("Reading")
		time.Sleep(5 * progressAfter)
		p.stop()
		if out.Len() > 0 {
			t.Errorf("it says %q", out.String())
		}
	})
}
