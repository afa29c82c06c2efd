package attach

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/drivertest"
)

// withRetrier runs a test with a pending DEL of net1 whose plugin fails, and with a retrier
// that runs.
func withRetrier(t *testing.T, hardware *attachment.Hardware, test func(t *testing.T, d *DelRetrier, k *drivertest.Kernel)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a, k := newAttacher(t)
		prepared := attachment.Prepared{
			Claim: attachment.ClaimRef{UID: "claim"}, Pod: drivertest.Web, Hardware: hardware, Attachment: attachment.Attachment{Interface: "net1"},
		}
		if err := a.Store.Put([]attachment.Prepared{prepared}); err != nil {
			t.Fatal(err)
		}
		key := a.Store.All()[0].Key()
		if err := errors.Join(a.Store.MarkAttaching([]checkpoint.Key{key}, drivertest.SandboxNo(1)), a.Store.DeferDEL(key, errors.New("busy"))); err != nil {
			t.Fatal(err)
		}
		k.Fail("DEL net1", errors.New("busy"))
		d := a.PendingDELs
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { _ = d.Run(ctx); close(ended) }()
		synctest.Wait()
		test(t, d, k)
		end()
		<-ended
		a.Store.WaitSynced()
	})
}

// tries returns the number of plugin calls after a time.
func tries(k *drivertest.Kernel, after time.Duration) int {
	time.Sleep(after)
	synctest.Wait()
	return k.CallCount()
}

// TestRetry checks that a pending DEL of an earlier driver is tried at once, then after
// pauses that double, and is forgotten when it succeeds.
func TestRetry(t *testing.T) {
	withRetrier(t, nil, func(t *testing.T, d *DelRetrier, k *drivertest.Kernel) {
		drivertest.Same(t, "tries at once", 1, tries(k, 0))
		drivertest.Same(t, "tries before the first pause is over", 1, tries(k, shortestRetry-time.Second))
		drivertest.Same(t, "tries after the first pause", 2, tries(k, time.Second))
		drivertest.Same(t, "tries before the second pause is over", 2, tries(k, 2*shortestRetry-time.Second))
		drivertest.Same(t, "tries after the second pause", 3, tries(k, time.Second))
		before := tries(k, time.Hour)
		drivertest.Same(t, "tries a day later", before+24*6, tries(k, 24*time.Hour))
		k.Fail("DEL net1", nil)
		before = k.CallCount()
		drivertest.Same(t, "tries until it succeeds", before+1, tries(k, longestRetry))
		drivertest.Same(t, "tries after that", before+1, tries(k, 24*time.Hour))
		drivertest.Same(t, "pending DELs", 0, len(d.attacher.Store.PendingDELs()))
	})
}

// TestRetryAfterHardwareChanged checks that a device's DEL is tried when hardware changes,
// but not when it has been tried just before: its own try may have changed the hardware.
func TestRetryAfterHardwareChanged(t *testing.T) {
	withRetrier(t, &attachment.Hardware{ID: "0000:3b:02.0"}, func(t *testing.T, d *DelRetrier, k *drivertest.Kernel) {
		d.HardwareChanged()
		drivertest.Same(t, "tries just after a try", 1, tries(k, hardwareRetry-time.Second))
		drivertest.Same(t, "tries a little later", 2, tries(k, time.Second))
		time.Sleep(hardwareRetry)
		d.HardwareChanged()
		drivertest.Same(t, "tries at once", 3, tries(k, 0))
	})
	withRetrier(t, nil, func(t *testing.T, d *DelRetrier, k *drivertest.Kernel) {
		time.Sleep(hardwareRetry)
		d.HardwareChanged()
		drivertest.Same(t, "tries without a device", 1, tries(k, 0))
	})
}

// TestRetryWaitsForTheSandbox checks that a DEL waits while its sandbox has other networks.
func TestRetryWaitsForTheSandbox(t *testing.T) {
	withRetrier(t, nil, func(t *testing.T, d *DelRetrier, k *drivertest.Kernel) {
		store := d.attacher.Store
		drivertest.PrepareWeb(t, store, []string{"net2"})
		key := store.ForClaim("claim-0-uid")[0].Key()
		if err := store.MarkAttaching([]checkpoint.Key{key}, drivertest.SandboxNo(1)); err != nil {
			t.Fatal(err)
		}
		drivertest.Same(t, "tries with another network", 1, tries(k, time.Hour))
		if err := store.MarkDetached(key); err != nil {
			t.Fatal(err)
		}
		drivertest.Same(t, "tries without one", 2, tries(k, shortestRetry))
	})
}
