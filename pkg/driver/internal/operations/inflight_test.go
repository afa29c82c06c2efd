package operations

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/nadra-dev/nadra/internal/metrics"
	"github.com/nadra-dev/nadra/test/drivertest"
)

func TestInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var u inFlight
		drivertest.Same(t, "none", metrics.Queue{}, u.queue(time.Now()))
		first := u.begin(time.Second)
		time.Sleep(time.Second)
		second := u.begin(time.Minute)
		time.Sleep(time.Second)
		drivertest.Same(t, "two", metrics.Queue{Length: 2, Oldest: 2 * time.Second}, u.queue(time.Now()))
		time.Sleep(overtime)
		drivertest.Same(t, "the first is past its limit", metrics.Queue{Length: 2, Oldest: 2*time.Second + overtime, Stuck: 1}, u.queue(time.Now()))
		first()
		drivertest.Same(t, "the later", metrics.Queue{Length: 1, Oldest: time.Second + overtime}, u.queue(time.Now()))
		second()
		drivertest.Same(t, "none again", metrics.Queue{}, u.queue(time.Now()))
	})
}
