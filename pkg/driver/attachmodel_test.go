package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/cniexec"
	"github.com/nadra-dev/nadra/test/drivertest"
)

// allocating is a kernel whose plugins get something of each configuration, which only a DEL with that configuration gives back.
type allocating struct {
	*drivertest.Kernel
	mu  sync.Mutex
	has map[string]bool
}

func (p *allocating) set(s attachment.Sandbox, a attachment.Attachment, has bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if key := fmt.Sprintf("%s %s %s", s.ID, a.Interface, a.Conflist); has {
		p.has[key] = true
	} else {
		delete(p.has, key)
	}
}

// Add gets something also if it fails.
func (p *allocating) Add(ctx context.Context, s attachment.Sandbox, a attachment.Attachment, before func() error) (cniexec.Added, error) {
	calls := p.CallCount()
	added, err := p.Kernel.Add(ctx, s, a, before)
	if p.CallCount() > calls {
		p.set(s, a, true)
	}
	return added, err
}

func (p *allocating) Del(ctx context.Context, s attachment.Sandbox, a attachment.Attachment, result json.RawMessage) error {
	err := p.Kernel.Del(ctx, s, a, result)
	if err == nil {
		p.set(s, a, false)
	}
	return err
}

// TestAttachModel does what may happen to a pod, in random order: sandboxes begin and end, containers are created, plugins
// fail, take long and recover, and the NAD changes. No container is left to a gate that refuses it at once, or holds it
// while nothing attaches its pod. Once all is repaired the pod starts, and when it has ended nothing of it is left.
func TestAttachModel(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) { attachModel(t, w, rand.New(rand.NewPCG(seed, 0))) })
		})
	}
}

func attachModel(t *testing.T, w *world, rng *rand.Rand) {
	knowsPod(t, w.Driver, corev1.RestartPolicyAlways)
	plugins := &allocating{Kernel: w.k, has: map[string]bool{}}
	var slow, conf atomic.Int64 // a time, and a number of rangeConf
	w.operations.Plugins = plugins
	w.k.Slow = func(ctx context.Context) error { time.Sleep(time.Duration(slow.Load())); return ctx.Err() }
	w.attacher.Renew = func(a attachment.Attachment) (attachment.Attachment, error) {
		a.Conflist = rangeConf(conf.Load())
		return a, nil
	}
	fail := func(verb string, err error) {
		if rng.IntN(4) == 0 {
			err = nil
		}
		w.k.Fail(fmt.Sprintf("%s net%d", verb, 1+rng.IntN(2)), err)
	}
	latest, running := 0, false
	stop := func() {
		_ = w.StopPodSandbox(t.Context(), podNo(latest))
		w.k.End(drivertest.SandboxNo(latest))
		running = false
	}
	for range 100 {
		w.refill()
		switch n := rng.IntN(40); {
		case !running:
			latest, running = latest+1, true
			if w.RunPodSandbox(t.Context(), podNo(latest)) != nil {
				stop()
			}
		case n == 0:
			stop()
		case n < 10:
			if w.create(t, latest) == nil {
				w.checkHeld(t, drivertest.SandboxNo(latest))
			}
		case n < 15:
			fail("ADD", []error{drivertest.Final("no"), tryLater}[rng.IntN(2)])
		case n < 20:
			fail("DEL", errors.New("busy"))
		case n < 25:
			slow.Store(int64([]time.Duration{0, 100 * time.Millisecond, 3 * time.Second, 20 * time.Second}[rng.IntN(4)]))
		case n < 30:
			conf.Store(rng.Int64N(3))
		default:
			after(time.Duration(rng.IntN(20_000)) * time.Millisecond)
		}
	}
	for _, call := range strings.Fields("ADD:net1 ADD:net2 DEL:net1 DEL:net2") {
		w.k.Fail(strings.Replace(call, ":", " ", 1), nil)
	}
	slow.Store(0)
	for range 2 {
		after(time.Minute)
		w.refill()
		if running && w.create(t, latest) == nil {
			w.checkHeld(t, drivertest.SandboxNo(latest))
		}
	}
	drivertest.Same(t, "attached once all is repaired", running, w.attached(drivertest.SandboxNo(latest)))
	stop()
	after(time.Hour)
	drivertest.Same(t, "phases", bothPrepared, w.phases())
	drivertest.Same(t, "what plugins have", map[string]bool{}, plugins.has)
	drivertest.Same(t, "pending DELs", 0, len(w.store.PendingDELs()))
}

// rangeConf returns one of several configurations of a network.
func rangeConf(i int64) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"name":"lan","plugins":[{"type":"macvlan","ipam":{"type":"host-local","subnet":"10.0.%d.0/24"}}]}`, i))
}

// checkHeld checks that the gate waits for no network in vain, and refuses no container at once, that was just created.
func (w *world) checkHeld(t *testing.T, s attachment.Sandbox) {
	t.Helper()
	missing := w.attacher.Missing(s)
	for _, r := range w.store.All() {
		if missing(r) && (r.Refused(w.store.BootID()) || !w.jobs.running(s.Pod.UID)) {
			t.Errorf("%s is %s, with the refusal %q, and attached by nobody", r.Attachment.Interface, r.Phase, r.Refusal)
		}
	}
}
