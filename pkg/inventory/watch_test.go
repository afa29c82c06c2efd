package inventory

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestRelevantUevents(t *testing.T) {
	for event, want := range map[string]bool{
		"add@/devices/pci0000:00/0000:03:00.2\x00ACTION=add\x00DEVPATH=/devices/pci0000:00/0000:03:00.2\x00SUBSYSTEM=pci\x00": true,
		"bind@…\x00ACTION=bind\x00DEVPATH=/devices/pci0000:00/0000:03:00.2\x00SUBSYSTEM=pci\x00DRIVER=vfio-pci\x00":           true,
		"add@…\x00DEVPATH=/devices/pci0000:00/0000:03:00.2/net/ens1v0\x00SUBSYSTEM=net\x00INTERFACE=ens1v0\x00":               true,
		"add@…\x00DEVPATH=/devices/virtual/net/veth1234\x00SUBSYSTEM=net\x00INTERFACE=veth1234\x00":                           false,
		"add@…\x00DEVPATH=/devices/pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block/sda\x00SUBSYSTEM=block\x00":   false,
		"add@…\x00DEVPATH=/devices/pci0000:00/0000:03:00.0/mlx5_core.sf.4\x00SUBSYSTEM=auxiliary\x00":                         true,
		"add@…\x00DEVPATH=/devices/virtual/infiniband/rxe0\x00SUBSYSTEM=infiniband\x00":                                       true,
		"libudev\x00garbage": false,
		"":                   false,
	} {
		if got := relevant(event); got != want {
			t.Errorf("%s: %v", strings.ReplaceAll(event, "\x00", " "), got)
		}
	}
}

// Changes in quick succession cause one call when they have ended, and endless changes
// cause a call from time to time.
func TestDebounce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		events, calls := make(chan struct{}), make(chan time.Duration, 10)
		start := time.Now()
		go debounce(ctx, events, func() { calls <- time.Since(start) })
		for range 3 {
			events <- struct{}{}
			time.Sleep(settleTime / 2)
		}
		synctest.Wait()
		if len(calls) != 0 {
			t.Errorf("called after %s, while changes came", <-calls)
		}
		time.Sleep(settleTime)
		synctest.Wait()
		if n, at := len(calls), <-calls; n != 1 || at != 2*settleTime {
			t.Errorf("called %d times, first after %s, want once, %s after the last change", n, at, settleTime)
		}
		for begin := time.Now(); time.Since(begin) < 2*maxDelay; time.Sleep(settleTime / 2) {
			events <- struct{}{}
		}
		synctest.Wait()
		if n := len(calls); n != 1 && n != 2 {
			t.Errorf("called %d times, want once or twice with changes that never end", n)
		}
		cancel()
		synctest.Wait()
	})
}

// Watch subscribes, and ends with its context.
func TestWatchEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Reader{}.Watch(ctx, func() {}) }()
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("the watch has not ended")
	}
}
