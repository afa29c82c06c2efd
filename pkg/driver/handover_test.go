package driver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	nri "github.com/containerd/nri/pkg/api"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/nadra-dev/nadra/internal/metrics"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/succession"
	"github.com/nadra-dev/nadra/test/drivertest"
)

// serves waits until a driver has the state directory and is connected to the runtime.
func (n *running) serves(t *testing.T) {
	t.Helper()
	become(t, func() error {
		if !n.successor.has() || !n.Driver.runtime.state().up {
			return fmt.Errorf("it does not serve: %+v, %+v", n.successor.waiting.Load(), n.Driver.runtime.state())
		}
		return nil
	})
}

// endsBy waits until a driver has ended because it has handed over.
func (n *running) endsBy(t *testing.T) {
	t.Helper()
	select {
	case err := <-n.ended:
		if !errors.Is(err, ErrHandedOver) {
			t.Errorf("it ended by %v", err)
		}
	case <-time.After(tolerant):
		t.Fatal("it has not handed over")
	}
}

// ends waits until a driver has ended, and returns why.
func (n *running) ends(t *testing.T) error {
	t.Helper()
	select {
	case err := <-n.ended:
		n.ended <- err
		return err
	case <-time.After(tolerant):
		t.Fatal("it has not ended")
		return nil
	}
}

// goesOn fails the test if a driver has ended.
func (n *running) goesOn(t *testing.T) {
	t.Helper()
	select {
	case err := <-n.ended:
		t.Fatalf("the working driver has ended: %v", err)
	default:
	}
}

// TestHandOver starts a driver beside another: it takes over what that has attached, and the
// kubelet's calls. The first driver, when it is started again, does not ask for the directory, and
// takes it when the second has ended.
func TestHandOver(t *testing.T) {
	c := claim("a", "blue")
	first := startNode(t, c, func(cfg *Config, _ *Clients) { cfg.PodUID = "first" })
	first.prepare(t, c)
	if err := first.runSandbox(t, podNo(1)); err != nil {
		t.Fatal(err)
	}
	first.awaitAttach(t)
	second := first.beside(t, "second")
	first.endsBy(t)
	second.serves(t)
	drivertest.Same(t, "phases", map[string]checkpoint.Phase{"net1": checkpoint.Attached}, drivertest.Phases(second.store))
	_, trusts := second.jobs.proven.Get(networkIn{attachment.NetworkRef{Namespace: "default", Name: "blue"}, drivertest.Web.Namespace})
	drivertest.Same(t, "trusts the network of the attached pod", true, trusts)

	again := first.beside(t, "first")
	become(t, func() error {
		if w := again.successor.waiting.Load(); !w.ready || again.successor.has() || !isClosedOrRead(again) {
			return fmt.Errorf("not waiting: %+v", w)
		}
		return nil
	})
	second.prepare(t, c)
	if err := second.runtime.StopPodSandbox(t.Context(), &nri.StopPodSandboxRequest{Pod: podNo(1)}); err != nil {
		t.Fatal(err)
	}
	drivertest.Same(t, "interfaces", map[string]bool{}, first.k.Has)
	second.goesOn(t)
	if err := second.stop(); err != nil {
		t.Error(err)
	}
	again.serves(t)
	again.unprepare(t, c)
	drivertest.Same(t, "records", nil, again.store.All())
	record, err := succession.ReadRecord(again.cfg.StateDir)
	if err != nil || record.Holder.PodUID != "first" || len(record.Superseded) != 1 || record.Superseded[0].PodUID != "first" || record.Superseded[0].By.PodUID != "second" {
		t.Errorf("record %+v, %v", record, err)
	}
	if err := again.stop(); err != nil {
		t.Error(err)
	}
	first.runtime.Stop()
}

// isClosedOrRead reports whether a driver has read everything that it can without the directory.
func isClosedOrRead(n *running) bool {
	return n.nadsRead.Load() && n.successor.waiting.Load().reason != "the driver is being started"
}

// TestHandsNothingOverToItself lets a driver ask for the directory that it has already: the other one has died after
// this one began to ask, and await took the directory.
func TestHandsNothingOverToItself(t *testing.T) {
	n := startNode(t, claim("a", "blue"), func(cfg *Config, _ *Clients) { cfg.PodUID = "first" })
	n.serves(t)
	for range quietTries + 1 { // the last one asks it to end its operations
		if err := n.successor.askToEnd(t.Context(), time.Second); err != nil {
			t.Error(err)
		}
		n.successor.refusals.Add(1)
	}
	n.goesOn(t)
	select {
	case err := <-n.failed:
		t.Errorf("it ends: %v", err)
	default:
	}
	if err := n.stop(); err != nil {
		t.Error(err)
	}
	n.runtime.Stop()
}

// TestHandOverWaitsForOperations starts a driver beside another that attaches a pod: it is
// refused until the plugin has ended, and no plugin runs twice.
func TestHandOverWaitsForOperations(t *testing.T) {
	c := claim("a", "blue")
	first := startNode(t, c, func(cfg *Config, _ *Clients) { cfg.PodUID = "first" })
	first.prepare(t, c)
	running, release := make(chan struct{}), make(chan struct{})
	first.k.Slow = func(ctx context.Context) error {
		close(running)
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	hook := make(chan error, 1)
	go func() { hook <- first.runSandbox(t, podNo(1)) }()
	<-running
	answer := first.answerSuccessor(t.Context(), succession.Request{Manner: succession.WhenQuiet, Within: 20 * time.Millisecond})
	if answer.HandsOver || answer.Reason == "" {
		t.Errorf("while a plugin runs: %+v", answer)
	}
	second := first.beside(t, "second")
	close(release)
	if err := <-hook; err != nil {
		t.Error(err)
	}
	first.endsBy(t)
	second.serves(t)
	drivertest.Same(t, "phases", map[string]checkpoint.Phase{"net1": checkpoint.Attached}, drivertest.Phases(second.store))
	if err := second.stop(); err != nil {
		t.Error(err)
	}
	first.runtime.Stop()
}

// TestBesideDriverThatCannotHandOver starts a driver beside one without a socket: it becomes ready,
// so that a rollout ends the other, and then takes its place. Without a pod's UID it does not.
func TestBesideDriverThatCannotHandOver(t *testing.T) {
	for podUID, ready := range map[string]bool{"second": true, "": false} {
		c := claim("a", "blue")
		first := startNode(t, c)
		first.serves(t)
		become(t, func() error { return os.Remove(filepath.Join(first.cfg.StateDir, "handover.sock")) })
		second := first.beside(t, podUID)
		become(t, func() error {
			if checks := second.Ready(); !isClosedOrRead(second) || len(checks) != 1 || checks[0].OK != ready {
				return fmt.Errorf("pod UID %q: %+v, want ready=%t", podUID, checks, ready)
			}
			return nil
		})
		if err := first.stop(); err != nil {
			t.Error(err)
		}
		second.serves(t)
		if err := second.stop(); err != nil {
			t.Error(err)
		}
		first.runtime.Stop()
	}
}

// TestDriverUsesItsImages checks that a driver changes to its images' plugins when it begins, and does not serve if it
// cannot.
func TestDriverUsesItsImages(t *testing.T) {
	full := errors.New("no space left on device")
	d := newDriverWith(t, setup{env: func(e *environment) { e.useImages = func() error { return full } }})
	if err := d.begin(t.Context(), func(func() error) { t.Error("it serves") }); !errors.Is(err, full) {
		t.Errorf("begin: %v", err)
	}
}

// TestBrokenSuccessor starts a driver that cannot begin beside another, and starts it again and again, as the
// kubelet does. The other one serves pods all the time, over one connection to the runtime.
func TestBrokenSuccessor(t *testing.T) {
	later := func(file string) func(*testing.T, *Config) string {
		return func(t *testing.T, c *Config) string {
			t.Helper()
			path := filepath.Join(c.StateDir, file)
			if err := os.WriteFile(path, []byte(`{"version":9}`), 0o600); err != nil {
				t.Fatal(err)
			}
			return path
		}
	}
	for _, tt := range []struct {
		name string
		// spoil returns the path that the error names.
		spoil func(*testing.T, *Config) string
		code  reason.Code
	}{
		{"a record of a later version", later("claims/x.json"), reason.StateOfLaterVersion},
		{"a pending DEL of a later version", later("pending-dels/x.json"), reason.StateOfLaterVersion},
		{"a holder of a later version", later("holder.json"), ""},
		{"no gate in the image", func(_ *testing.T, c *Config) string { c.GateBinary += ".missing"; return c.GateBinary }, ""},
		{"a state directory in which nothing can be made", func(t *testing.T, c *Config) string {
			t.Helper()
			dir := filepath.Join(c.StateDir, "damaged")
			if err := errors.Join(os.Remove(dir), os.WriteFile(dir, nil, 0o600)); err != nil {
				t.Fatal(err)
			}
			return dir
		}, reason.StateNotWritten},
		{"no directory for CDI specs", func(_ *testing.T, c *Config) string {
			c.CDIDir = filepath.Join(c.GateBinary, "cdi")
			return c.GateBinary
		}, ""},
		{"no directory of the kubelet", func(_ *testing.T, c *Config) string { c.KubeletRegistryDir += "-missing"; return c.KubeletRegistryDir }, ""},
		{"no plugin directory", func(_ *testing.T, c *Config) string { c.KubeletPluginsDir = c.GateBinary; return c.GateBinary }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := claim("a", "blue")
			first := startNode(t, c, func(cfg *Config, _ *Clients) { cfg.PodUID = "first" })
			first.serves(t)
			connected := first.Driver.runtime.state().since
			cfg := first.cfg
			cfg.PodUID = "second"
			gate := first.cfg.GateBinary
			path := tt.spoil(t, &cfg)
			if _, err := os.Stat(cfg.GateBinary); err == nil { // the new version has another gate
				cfg.GateBinary = gate + ".new"
				if err := os.WriteFile(cfg.GateBinary, []byte("another gate"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			for range 20 {
				second := &running{k: first.k, runtime: first.runtime, drainTime: drainTime}
				second.run(t, cfg, first.clients)
				first.prepare(t, c)
				if err := first.runSandbox(t, podNo(1)); err != nil {
					t.Fatal(err)
				}
				drivertest.WantReason(t, second.ends(t), tt.code, path)
				if second.nri.begun.Load() {
					t.Error("it has connected to the runtime")
				}
				_ = second.stop()
				first.goesOn(t)
				first.awaitAttach(t)
				if err := first.runtime.StopPodSandbox(t.Context(), &nri.StopPodSandboxRequest{Pod: podNo(1)}); err != nil {
					t.Fatal(err)
				}
			}
			first.unprepare(t, c)
			if now := first.Driver.runtime.state(); !now.up || now.since != connected {
				t.Errorf("its connection to the runtime: %+v, want that of %s", now, connected)
			}
			if installed, err := os.ReadFile(filepath.Join(first.cfg.pluginDir(), "nadra-gate")); err != nil || string(installed) != "the gate" {
				t.Errorf("its gate is %q (%v)", installed, err)
			}
			if err := first.stop(); err != nil {
				t.Error(err)
			}
			first.runtime.Stop()
		})
	}
}

// TestSuccessorThatEndsAgainAndAgain starts a driver that ends each time after it has taken over, which no
// trial can foresee. After some times it leaves the node to the other, is not ready, and says why.
func TestSuccessorThatEndsAgainAndAgain(t *testing.T) {
	c := claim("a", "blue")
	holder := startNode(t, c, func(cfg *Config, _ *Clients) { cfg.PodUID = "first" })
	for range maxTakeOvers {
		holder.serves(t)
		broken := holder.beside(t, "second")
		holder.endsBy(t)
		broken.serves(t)
		broken.fail(errors.New("broken"))
		if err := broken.ends(t); err == nil || errors.Is(err, ErrHandedOver) {
			t.Fatalf("it ends by %v", err)
		}
		holder = holder.beside(t, "first") // as after AwaitSuccessorEnd
	}
	holder.serves(t)
	broken := holder.beside(t, "second")
	become(t, func() error {
		checks := broken.Ready()
		if len(checks) != 1 || checks[0].OK || !strings.Contains(checks[0].Detail, "pod first ") {
			return fmt.Errorf("%+v", checks)
		}
		return nil
	})
	holder.goesOn(t)
	holder.prepare(t, c)
	if err := holder.stop(); err != nil {
		t.Error(err)
	}
	broken.serves(t) // nobody else does
	if err := broken.stop(); err != nil {
		t.Error(err)
	}
	holder.runtime.Stop()
}

// TestBrokenSuccessorOfOneThatCannotHandOver starts a driver that cannot begin beside one without a socket. It
// must not become ready, because the rollout would end the other then.
func TestBrokenSuccessorOfOneThatCannotHandOver(t *testing.T) {
	c := claim("a", "blue")
	first := startNode(t, c)
	first.serves(t)
	become(t, func() error { return os.Remove(filepath.Join(first.cfg.StateDir, "handover.sock")) })
	cfg := first.cfg
	cfg.PodUID = "second"
	cfg.KubeletRegistryDir += "-missing"
	second := &running{k: first.k, runtime: first.runtime, drainTime: drainTime}
	second.run(t, cfg, first.clients)
	if err := second.ends(t); err == nil || second.successor.waiting.Load().ready {
		t.Errorf("it ends by %v, and was %+v", err, second.successor.waiting.Load())
	}
	_ = second.stop()
	first.goesOn(t)
	if err := first.stop(); err != nil {
		t.Error(err)
	}
	first.runtime.Stop()
}

// TestDriverThatNeverIsQuiet checks that a driver is asked to end its operations after it has
// refused some times, and that one is not asked by a driver that could not take its place.
func TestDriverThatNeverIsQuiet(t *testing.T) {
	var manners []succession.Manner
	dir, err := os.MkdirTemp("", "nd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	lock, err := succession.TryLock(dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- succession.Serve(ctx, dir, succession.Driver{PodUID: "first"}, func(_ context.Context, r succession.Request) succession.Answer {
			if r.Manner != succession.Hello {
				manners = append(manners, r.Manner)
			}
			if r.Manner == succession.Now {
				lock.Release()
			}
			return succession.Answer{HandsOver: r.Manner == succession.Now, Reason: "it runs 1 operations on pods"}
		})
	}()
	cfg := Config{
		StateDir: dir, PodUID: "second", CDIDir: t.TempDir(), GateBinary: filepath.Join(t.TempDir(), "nadra-gate"),
		KubeletPluginsDir: t.TempDir(), KubeletRegistryDir: t.TempDir(), Metrics: metrics.NewNode(),
	}
	if err := os.WriteFile(cfg.GateBinary, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	n, err := newNode(t.Context(), cfg, Clients{Kube: fake.NewClientset(), Metadata: nodeClient(t)}, &environment{store: checkpoint.New(dir, "boot-1")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.claimStatus.ShutDown)
	begin := func(context.Context) error { return nil }
	s := newSuccessor(n)
	become(t, func() error {
		if can, err := s.canAsk(t.Context(), begin); err != nil || !can {
			return fmt.Errorf("it cannot be asked: %w", err)
		}
		return nil
	})
	later := filepath.Join(dir, "claims", "x.json")
	if err := errors.Join(os.MkdirAll(filepath.Dir(later), 0o700), os.WriteFile(later, []byte(`{"version":9}`), 0o600)); err != nil {
		t.Fatal(err)
	}
	drivertest.WantReason(t, s.handOver(t.Context(), tolerant), reason.StateOfLaterVersion)
	drivertest.WantReason(t, <-n.failed, reason.StateOfLaterVersion)
	drivertest.Same(t, "asked by a driver that cannot take over any more", nil, manners)
	if err := os.Remove(later); err != nil {
		t.Fatal(err)
	}
	awaited := make(chan error, 1)
	go func() { awaited <- s.await(t.Context(), begin) }()
	for range quietTries {
		if err := s.handOver(t.Context(), tolerant); err == nil {
			t.Fatal("it hands over")
		}
	}
	if err := errors.Join(s.handOver(t.Context(), tolerant), <-awaited); err != nil {
		t.Fatal(err)
	}
	end()
	if err := <-served; err != nil {
		t.Error(err)
	}
	want := append(slices.Repeat([]succession.Manner{succession.WhenQuiet}, quietTries), succession.Now)
	drivertest.Same(t, "asked", want, manners)
	s.release()
}

// TestAwaitSuccessorEnd checks that a driver that has handed over leaves the directory to its successor for
// some time, and notices its end.
func TestAwaitSuccessorEnd(t *testing.T) {
	dir := t.TempDir()
	lock, err := succession.TryLock(dir)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := AwaitSuccessorEnd(ctx, dir); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("while the successor runs: %v", err)
		}
		lock.Release()
		began := time.Now()
		if err := AwaitSuccessorEnd(t.Context(), dir); err != nil || time.Since(began) != ownEndWait {
			t.Errorf("after its end: %v after %s, want none after %s", err, time.Since(began), ownEndWait)
		}
	})
}

// TestCallsOfTheKubeletEnd checks that no call begins while the driver hands over, and that it does not
// hand over during a call.
func TestCallsOfTheKubeletEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c kubeletCalls
		end, err := c.begin(t.Context())
		if err != nil || c.close() != 1 {
			t.Fatalf("during a call it is closed: %v", err)
		}
		end()
		if n := c.close(); n != 0 {
			t.Fatalf("%d calls run", n)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		if _, err := c.begin(ctx); !errors.Is(err, ErrHandedOver) || time.Since(began) != time.Minute {
			t.Errorf("a call after it: %v after %s", err, time.Since(began))
		}
	})
}

// TestHandOverWaitsForNetworkStatus checks that a driver does not hand over while containers wait for a network-status
// that it has still to write: the successor would not know of it.
func TestHandOverWaitsForNetworkStatus(t *testing.T) {
	d, _ := attachedDriverWith(t, setup{heldStatus: true})
	d.networkStatus.Set(drivertest.SandboxNo(1), d.store.ForPod(drivertest.Web.UID))
	answer := d.answerSuccessor(t.Context(), succession.Request{Manner: succession.WhenQuiet, Within: 2 * quietPoll})
	if answer.HandsOver || !strings.Contains(answer.Reason, "network-status") {
		t.Errorf("it answers %+v", answer)
	}
}

// TestHandOverWaitsForTheKubelet checks that a driver does not hand over during a call of the kubelet, and that the
// call is answered: otherwise the successor would read the state directory while this driver still writes to it.
func TestHandOverWaitsForTheKubelet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver(t, nad("blue", blueConf))
		d.runtime.lost(errors.New("the runtime is restarted")) // Prepare waits for it
		p := d.plugin
		prepared := make(chan error, 1)
		go func() {
			results, err := p.PrepareResourceClaims(t.Context(), []*resourceapi.ResourceClaim{claim("a", "blue")})
			prepared <- errors.Join(err, results["a-uid"].Err)
		}()
		synctest.Wait()
		asked := succession.Request{Manner: succession.WhenQuiet, Within: time.Second}
		if a := d.answerSuccessor(t.Context(), asked); a.HandsOver || a.Reason == "" {
			t.Errorf("during a call of the kubelet: %+v", a)
		}
		d.runtime.connected()
		if err := <-prepared; err != nil {
			t.Errorf("the call: %v", err)
		}
		drivertest.Same(t, "records", 1, len(d.store.All()))
		if a := d.answerSuccessor(t.Context(), asked); !a.HandsOver {
			t.Errorf("after it: %+v", a)
		}
		d.store.WaitSynced()
	})
}
