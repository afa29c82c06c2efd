package inventory

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestConcerns(t *testing.T) {
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
		if got := concerns(event); got != want {
			t.Errorf("%s: %v", strings.ReplaceAll(event, "\x00", " "), got)
		}
	}
}

// Many changes are told of once, when there are no more; endless ones from time
// to time all the same.
func TestDebounce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		poke, told := make(chan struct{}), make(chan time.Duration, 10)
		start := time.Now()
		go debounce(ctx, poke, func() { told <- time.Since(start) })
		for range 3 {
			poke <- struct{}{}
			time.Sleep(quiet / 2)
		}
		synctest.Wait()
		if len(told) != 0 {
			t.Errorf("told after %s, while changes came", <-told)
		}
		time.Sleep(quiet)
		synctest.Wait()
		if n, at := len(told), <-told; n != 1 || at != 2*quiet {
			t.Errorf("told %d times, first after %s, want once, %s after the last change", n, at, quiet)
		}
		for begin := time.Now(); time.Since(begin) < 2*patience; time.Sleep(quiet / 2) {
			poke <- struct{}{}
		}
		synctest.Wait()
		if n := len(told); n != 1 && n != 2 {
			t.Errorf("told %d times, want once or twice with changes that never end", n)
		}
		cancel()
		synctest.Wait()
	})
}

// The subscriptions can be had, and end with the context.
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
