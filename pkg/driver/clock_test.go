package driver

import (
	"testing"
	"time"
	"unsafe"

	"github.com/nadra-dev/nadra/pkg/driver/internal/background"
	"github.com/nadra-dev/nadra/pkg/driver/internal/drivertest"
)

// jumped returns a time that was read at the same moment as t, after the node's wall clock was
// set by d: only the monotonic clock says that no time has passed. A time.Time has both, but no
// function changes one of them: see the comment of the type.
func jumped(t *testing.T, at time.Time, d time.Duration) time.Time {
	t.Helper()
	const nanosecondBits = 30 // the seconds are above them
	*(*uint64)(unsafe.Pointer(&at)) += uint64(d/time.Second) << nanosecondBits
	if time.Until(at).Abs() > time.Minute || at.Round(0).Sub(time.Now().Round(0)).Abs() < d.Abs()-time.Minute {
		t.Fatalf("a time has another form in this Go: the wall clock says %s, the monotonic one %s", at.Round(0), time.Since(at))
	}
	return at
}

// TestClockJumps checks that nothing that the driver keeps in memory ages, or stays young, when
// the node's wall clock jumps by an hour. Records on disk have no time that decides anything.
func TestClockJumps(t *testing.T) {
	for _, d := range []time.Duration{-time.Hour, time.Hour} {
		t.Run(d.String(), func(t *testing.T) {
			var heart background.Heartbeat
			heart.Beat()
			var running inFlight
			running.begin(time.Second)
			unprepared := unpreparedClaims{times: map[unpreparedClaim]time.Time{}}
			var refused firstTimes
			before := time.Now()
			unprepared.add("claim", "pod", before)
			refused.since("claim", before)
			late := before.Add(-2 * runtimeLostAfter)

			now := jumped(t, time.Now(), d)
			if silence, began := heart.Silence(now); !began || !turns("sweep", silence).OK || silence < 0 {
				t.Errorf("the loop counts as silent for %s", silence)
			}
			if q := running.queue(now); q.Stuck != 0 || q.Oldest < 0 || q.Oldest > time.Minute {
				t.Errorf("the operation counts as stuck: %+v", q)
			}
			drivertest.Same(t, "the claim is remembered as unprepared", true, unprepared.has("claim", "pod", now))
			unprepared.add("other", "pod", now)
			drivertest.Same(t, "unprepared claims", 2, len(unprepared.times))
			if since := refused.since("claim", now); now.Sub(since) < 0 || now.Sub(since) >= refuseRunning {
				t.Errorf("Unprepare was refused for %s", now.Sub(since))
			}
			drivertest.Same(t, "a runtime that was lost just now", "", runtimeLost(linkState{since: before}, before, now))
			if runtimeLost(linkState{since: late}, late, now) == "" {
				t.Error("a runtime that was lost long ago does not count as lost")
			}
		})
	}
}
