package attach

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/operations"
	"github.com/nadra-dev/nadra/test/drivertest"
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
		if err := errors.Join(a.Store.MarkAttaching([]checkpoint.Key{key}, drivertest.SandboxNo(1), nil), a.Store.DeferDEL(key, errors.New("busy"))); err != nil {
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

// onHardware reports whether a record has a device.
func onHardware(r checkpoint.Record) bool { return r.Hardware != nil }

// TestRetryAfterHardwareChanged checks that a device's DEL is tried when hardware changes,
// but not when it has been tried just before: its own try may have changed the hardware.
func TestRetryAfterHardwareChanged(t *testing.T) {
	withRetrier(t, &attachment.Hardware{ID: "0000:3b:02.0"}, func(t *testing.T, d *DelRetrier, k *drivertest.Kernel) {
		d.Hasten(onHardware)
		drivertest.Same(t, "tries just after a try", 1, tries(k, shortPause-time.Second))
		drivertest.Same(t, "tries a little later", 2, tries(k, time.Second))
		time.Sleep(shortPause)
		d.Hasten(onHardware)
		drivertest.Same(t, "tries at once", 3, tries(k, 0))
	})
	withRetrier(t, nil, func(t *testing.T, d *DelRetrier, k *drivertest.Kernel) {
		time.Sleep(shortPause)
		d.Hasten(onHardware)
		drivertest.Same(t, "tries without a device", 1, tries(k, 0))
	})
}

// rangeA and rangeB are networks with addresses of whereabouts, each of its own range.
const (
	rangeA = `{"name":"a","plugins":[{"type":"macvlan","ipam":{"type":"whereabouts","range":"10.0.0.0/24"}}]}`
	rangeB = `{"name":"b","plugins":[{"type":"macvlan","ipam":{"type":"whereabouts","range":"10.0.1.0/24"}}]}`
)

// TestRetryWaitsForTheSandbox checks that a pending DEL waits while it may release what its running
// sandbox has: the interface, attached again, or an address of the same range.
func TestRetryWaitsForTheSandbox(t *testing.T) {
	for _, tt := range []struct {
		name, iface, conflist string
		waits                 bool
	}{
		{"the interface", "net1", rangeB, true},
		{"the range", "net2", rangeA, true},
		{"another range", "net2", rangeB, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, k := newAttacher(t)
				pending(t, a, "gone", "net1", rangeA)
				key := attaching(t, a, "other", tt.iface, tt.conflist)
				end := retrying(t, a)
				drivertest.Same(t, "tries beside it", !tt.waits, tries(k, time.Hour) > 0)
				if err := a.Store.MarkDetached(key); err != nil {
					t.Fatal(err)
				}
				drivertest.Same(t, "tries without it", 1, tries(k, shortestRetry))
				end()
			})
		})
	}
}

// TestPendingDELOfARecordThatStays checks that a pending DEL is tried though its record could not be changed, for
// example on a full disk, and the record's own DEL has succeeded since. Otherwise its device would be in use until
// the driver is restarted.
func TestPendingDELOfARecordThatStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := newAttacher(t)
		attaching(t, a, "claim", "net1", rangeA)
		end := retrying(t, a)
		file := filepath.Join(a.Store.Dir(), "claim.json")
		if err := os.Rename(file, file+".tmp-0"); err != nil {
			t.Fatal(err)
		}
		if err := a.deferDEL(a.Store.All()[0], errors.New("busy")); err == nil {
			t.Error("the record was changed")
		}
		if err := os.Rename(file+".tmp-0", file); err != nil {
			t.Fatal(err)
		}
		if err := a.DetachClaim(t.Context(), a.Store.All()[0].Pod.UID, "claim"); err != nil {
			t.Fatal(err)
		}
		drivertest.Same(t, "pending DELs", 1, len(a.Store.PendingDELs()))
		time.Sleep(time.Hour)
		synctest.Wait()
		drivertest.Same(t, "pending DELs later", 0, len(a.Store.PendingDELs()))
		end()
	})
}

// TestPendingDELsOfATenantHaveALimit checks that a pod whose ADD and DEL both fail leaves so many pending DELs and
// no more, in however many sandboxes, and that its networks are attached once the plugin is mended.
func TestPendingDELsOfATenantHaveALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, k := newAttacher(t)
		drivertest.PrepareWeb(t, a.Store, []string{"net1"})
		k.Fail("ADD net1", drivertest.Final("no"))
		k.Fail("DEL net1", errors.New("busy"))
		try := func(s attachment.Sandbox) error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			return a.Attach(ctx, s, func(_ error, passing bool) bool { return passing })
		}
		var err error
		for i := range 2 * mostOfPod {
			err = try(drivertest.SandboxNo(i))
		}
		drivertest.WantReason(t, err, reason.PendingDEL, "64 DELs of pod default/web ")
		drivertest.Same(t, "pending DELs of a pod", mostOfPod, len(a.Store.PendingDELs()))

		k.Fail("ADD net1", nil)
		k.Fail("DEL net1", nil)
		end := retrying(t, a)
		if err := try(drivertest.SandboxNo(2 * mostOfPod)); err != nil {
			t.Error(err)
		}
		end()
	})
}

// TestPendingDELsOfANamespace checks that the pods of one namespace together leave so many pending DELs and no
// more, and that those of others do not count.
func TestPendingDELsOfANamespace(t *testing.T) {
	var pending []checkpoint.PendingDEL
	add := func(namespace string) {
		pod := attachment.PodRef{Namespace: namespace, UID: fmt.Sprint(len(pending))}
		pending = append(pending, checkpoint.PendingDEL{Record: checkpoint.Record{Prepared: attachment.Prepared{Pod: pod}}})
	}
	for range mostOfNamespace - 1 {
		add(drivertest.Web.Namespace)
		add("other")
	}
	if err := tooManyPending(pending, drivertest.Web); err != nil {
		t.Error(err)
	}
	add(drivertest.Web.Namespace)
	drivertest.WantReason(t, tooManyPending(pending, drivertest.Web), reason.PendingDEL, "0 DELs of pod default/web and 512 ")
}

// attaching records an attachment of pod web that has been begun in sandbox 1.
func attaching(t *testing.T, a *Attacher, claim, iface, conflist string) checkpoint.Key {
	t.Helper()
	return attachingIn(t, a, drivertest.SandboxNo(1), claim, iface, conflist)
}

func attachingIn(t *testing.T, a *Attacher, s attachment.Sandbox, claim, iface, conflist string) checkpoint.Key {
	t.Helper()
	p := attachment.Prepared{
		Claim: attachment.ClaimRef{UID: claim}, Pod: s.Pod, Request: iface,
		Attachment: attachment.Attachment{Interface: iface, Conflist: json.RawMessage(conflist)},
	}
	if err := a.Store.Put([]attachment.Prepared{p}); err != nil {
		t.Fatal(err)
	}
	key := a.Store.ForClaim(claim)[0].Key()
	s.Cookie = drivertest.CookieOf(s.NetNS)
	if err := a.Store.MarkAttaching([]checkpoint.Key{key}, s, nil); err != nil {
		t.Fatal(err)
	}
	return key
}

// pending makes a pending DEL of such an attachment.
func pending(t *testing.T, a *Attacher, claim, iface, conflist string) {
	t.Helper()
	if err := a.Store.DeferDEL(attaching(t, a, claim, iface, conflist), errors.New("busy")); err != nil {
		t.Fatal(err)
	}
}

// retrying runs the retrier, and returns a function that ends it as a stop of the driver does.
func retrying(t *testing.T, a *Attacher) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { _ = a.PendingDELs.Run(ctx); close(ended) }()
	synctest.Wait()
	return func() {
		cancel()
		<-ended
		a.Operations.Wait()
		a.Store.WaitSynced()
	}
}

// slowPlugins has plugins whose DEL takes as long as del does.
type slowPlugins struct {
	*drivertest.Kernel
	del func(ctx context.Context, a attachment.Attachment) error
}

func (s slowPlugins) Del(ctx context.Context, sandbox attachment.Sandbox, a attachment.Attachment, result json.RawMessage) error {
	if err := s.del(ctx, a); err != nil {
		return err
	}
	return s.Kernel.Del(ctx, sandbox, a, result)
}

// TestHangingDELsDelayOnlyTheirOwn checks that pending DELs of a plugin that hangs do not delay those of other plugins, nor
// those of other tenants.
func TestHangingDELsDelayOnlyTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, k := newAttacher(t)
		var running atomic.Int64
		a.Operations.Plugins = slowPlugins{k, func(ctx context.Context, at attachment.Attachment) error {
			if at.Interface == "well" {
				return nil
			}
			running.Add(1)
			defer running.Add(-1)
			<-ctx.Done()
			return context.Cause(ctx)
		}}
		a.Plugins = a.Operations
		for i := range 12 {
			s := drivertest.SandboxNo(i)
			s.Pod.UID = s.ID
			iface, plugin := "hangs", "hanging"
			switch i {
			case 10:
				iface, plugin = "well", "macvlan"
			case 11:
				iface, s.Pod.Namespace = "well", "another"
			}
			key := attachingIn(t, a, s, "claim-"+s.ID, iface, `{"plugins":[{"type":"`+plugin+`"}]}`)
			if err := a.Store.DeferDEL(key, errors.New("busy")); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond) // the healthy ones are the last
		}
		end := retrying(t, a)
		drivertest.Same(t, "pending DELs at once", 10, len(a.Store.PendingDELs()))
		drivertest.Same(t, "hanging DELs at a time", operations.Workers, int(running.Load()))
		time.Sleep(time.Minute)
		end()
	})
}

// TestPendingDELAndAttachTakeTurns checks that a pending DEL and an attach in the same sandbox never
// run at the same time, and that the pod has its interface in the end.
func TestPendingDELAndAttachTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, k := newAttacher(t)
		drivertest.PrepareWeb(t, a.Store, []string{"net1"})
		key := a.Store.All()[0].Key()
		s := drivertest.SandboxNo(1)
		if err := errors.Join(a.Store.MarkAttaching([]checkpoint.Key{key}, s, nil), a.Store.DeferDEL(key, errors.New("busy"))); err != nil {
			t.Fatal(err)
		}
		var inDEL atomic.Bool
		a.Operations.Plugins = slowPlugins{k, func(context.Context, attachment.Attachment) error {
			inDEL.Store(true)
			defer inDEL.Store(false)
			time.Sleep(5 * time.Second)
			return nil
		}}
		a.Plugins = a.Operations
		k.Added = func(string) {
			if inDEL.Load() {
				t.Error("an ADD runs beside the DEL of the same container and interface")
			}
		}
		end := retrying(t, a)
		drivertest.Same(t, "the DEL runs", true, inDEL.Load())
		op := operations.Operation{Pod: s.Pod, Limit: time.Minute}
		if err := a.Operations.Do(t.Context(), op, func(ctx context.Context) error { return attachOnceIn(ctx, t, a, s) }); err != nil {
			t.Fatal(err)
		}
		drivertest.Same(t, "pending DELs", 0, len(a.Store.PendingDELs()))
		time.Sleep(time.Hour)
		synctest.Wait()
		drivertest.Same(t, "phases", map[string]checkpoint.Phase{"net1": checkpoint.Attached}, drivertest.Phases(a.Store))
		drivertest.Same(t, "interfaces", map[string]bool{"sandbox-1/net1": true}, k.Has)
		end()
	})
}

// TestStopWaitsForAPendingDEL checks that a stop of the driver does not end the DEL that runs, and
// records its success, and that no other one begins.
func TestStopWaitsForAPendingDEL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, k := newAttacher(t)
		pending(t, a, "one", "net1", rangeA)
		pending(t, a, "two", "net2", rangeA)
		a.Operations.Plugins = slowPlugins{k, func(ctx context.Context, _ attachment.Attachment) error {
			time.Sleep(5 * time.Second)
			return context.Cause(ctx)
		}}
		a.Plugins = a.Operations
		end := retrying(t, a)
		end()
		drivertest.Same(t, "DELs", 1, k.CallCount())
		drivertest.Same(t, "pending DELs", 1, len(a.Store.PendingDELs()))
	})
}

// TestPendingDELsOfEachConfiguration lets both ADD and DEL of a network fail, first with one configuration and then, because
// its NAD was corrected, with another. Both DELs stay pending, also for the next driver, and run when they can: the later
// one would not release what the earlier configuration may have got.
func TestPendingDELsOfEachConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, k := newAttacher(t)
		drivertest.PrepareWeb(t, a.Store, []string{"net1"})
		k.Fail("ADD net1", drivertest.Final("no"))
		k.Fail("DEL net1", errors.New("busy"))
		for _, conf := range []string{rangeA, rangeB} {
			a.Renew = func(at attachment.Attachment) (attachment.Attachment, error) {
				at.Conflist = json.RawMessage(conf)
				return at, nil
			}
			for len(a.Store.PendingDELs()) == 0 || string(a.Store.All()[0].Attachment.Conflist) != conf || a.Store.All()[0].NeedsDEL() {
				if err := a.Attach(t.Context(), drivertest.SandboxNo(1), func(error, bool) bool { return false }); err == nil {
					t.Fatal("attached")
				}
				time.Sleep(deferAfterTime)
			}
		}
		next, _, err := drivertest.OpenStore(filepath.Dir(a.Store.Dir()), "boot-1")
		if err != nil {
			t.Fatal(err)
		}
		for name, store := range map[string]*checkpoint.Store{"": a.Store, "the next driver's ": next} {
			var confs []string
			for _, del := range store.PendingDELs() {
				confs = append(confs, string(del.Record.Attachment.Conflist))
			}
			drivertest.Same(t, name+"pending DELs", fmt.Sprint([]string{rangeA, rangeB}), fmt.Sprint(confs))
		}
		a.Store = next
		k.Fail("DEL net1", nil)
		before := k.CallCount()
		end := retrying(t, a)
		drivertest.Same(t, "DELs", before+2, tries(k, time.Hour))
		drivertest.Same(t, "pending DELs in the end", 0, len(next.PendingDELs()))
		end()
	})
}
