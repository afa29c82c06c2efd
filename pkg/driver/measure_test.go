package driver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	nri "github.com/containerd/nri/pkg/api"
	cnitypes "github.com/containernetworking/cni/pkg/types"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"

	"github.com/nadra-dev/nadra/internal/metrics"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/test/drivertest"
)

// measured returns a function that returns the events that a driver has counted and measured.
func measured(d *Driver) func() map[string]float64 {
	return func() map[string]float64 {
		return series(d.cfg.Metrics, func(name, metricType string) bool {
			return metricType == "GAUGE" || name == "nadra_checkpoint_writes_total" // of the state
		})
	}
}

// scraped returns all series of nadra's that are not zero.
func scraped(m *metrics.Node) map[string]float64 {
	return series(m, func(string, string) bool { return false })
}

// series returns the series of nadra's that are not zero, as name{values of labels}, except
// families that match. The value of a histogram is the number of measurements.
func series(m *metrics.Node, except func(name, metricType string) bool) map[string]float64 {
	families, err := m.Gather().Gather()
	if err != nil {
		panic(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		name, ours := strings.CutPrefix(f.GetName(), "nadra_")
		if !ours || name == "build_info" || except(f.GetName(), f.GetType().String()) {
			continue
		}
		for _, s := range f.Metric {
			var labels []string
			for _, l := range s.Label {
				labels = append(labels, l.GetValue())
			}
			value := s.GetCounter().GetValue() + s.GetGauge().GetValue() + float64(s.GetHistogram().GetSampleCount())
			if value != 0 {
				out[name+"{"+strings.Join(labels, ",")+"}"] = value
			}
		}
	}
	return out
}

// changed returns the series that have changed, with the difference.
func changed(before, now map[string]float64) map[string]float64 {
	out := map[string]float64{}
	for name, value := range now {
		if value != before[name] {
			out[name] = value - before[name]
		}
	}
	return out
}

// TestTriesAreCounted checks that every try is counted by its network and its result.
func TestTriesAreCounted(t *testing.T) {
	d := newDriver(t, nad("blue", blueConf), nad("red", redConf))
	prepare(t, d, claim("c", "blue", "red"))
	values := measured(d)
	k := kernelOf(d)
	k.Fail("ADD net2", cnitypes.NewError(cnitypes.ErrTryAgainLater, "not yet", ""))
	failures := 0
	err := locked(t, d, drivertest.Web, func(ctx context.Context) error {
		return d.attacher.Attach(ctx, drivertest.SandboxNo(1), func(_ error, passing bool) bool {
			if failures++; failures == 2 {
				k.Fail("ADD net2", nil)
			}
			return passing
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	k.Fail("DEL net1", drivertest.Final("busy"))
	err = locked(t, d, drivertest.Web, func(ctx context.Context) error {
		return d.attacher.Detach(ctx, drivertest.Web.UID, checkpoint.InSandbox("sandbox-1"))
	})
	if err == nil {
		t.Fatal("a DEL that fails is no error")
	}
	k.Fail("ADD net2", drivertest.Final("no"))
	k.Fail("DEL net1", nil)
	if err := attachOnce(t, d, drivertest.SandboxNo(2)); err == nil {
		t.Fatal("an ADD that fails is no error")
	}
	drivertest.Same(t, "counted", map[string]float64{
		"prepare_total{success}": 1, "prepare_duration_seconds{}": 1,
		"attach_total{macvlan,blue,default,success}": 4, "attach_total{bridge,red,default,transient}": 2,
		"attach_total{bridge,red,default,success}": 1, "attach_total{bridge,red,default,error}": 1,
		"attach_duration_seconds{macvlan}": 4, "attach_duration_seconds{bridge}": 1,
		// Before each of the two repeated attempts all is taken down.
		"detach_total{macvlan,blue,default,error}": 1, "detach_total{macvlan,blue,default,success}": 4,
		"detach_total{bridge,red,default,success}": 4,
		"detach_duration_seconds{macvlan}":         4, "detach_duration_seconds{bridge}": 4,
	}, values())
}

// TestCountersOfDeletedNADs checks that the counters of a deleted NAD are dropped when no
// pod has its network any more.
func TestCountersOfDeletedNADs(t *testing.T) {
	d := newDriver(t, nad("blue", blueConf), nad("red", redConf))
	values := measured(d)
	networks := func() []string {
		seen := map[string]bool{}
		for series := range values() {
			for _, name := range []string{"blue", "red"} {
				if strings.Contains(series, ","+name+",") {
					seen[name] = true
				}
			}
		}
		return slices.Sorted(maps.Keys(seen))
	}
	prepare(t, d, claim("c", "blue", "red"))
	if err := attachOnce(t, d, drivertest.SandboxNo(1)); err != nil {
		t.Fatal(err)
	}
	drivertest.Same(t, "networks", []string{"blue", "red"}, networks())
	nads := d.nads.(nadCache)
	_ = nads.Delete(nad("red", ""))
	refresh(t, d)
	drivertest.Same(t, "networks while a pod is attached", []string{"blue", "red"}, networks())
	if err := d.preparer.unprepare(t.Context(), "c-uid"); err == nil {
		t.Fatal("the sandbox is there and its claim was unprepared")
	}
	kernelOf(d).End(drivertest.SandboxNo(1))
	if err := d.preparer.unprepare(t.Context(), "c-uid"); err != nil {
		t.Fatal(err)
	}
	refresh(t, d)
	drivertest.Same(t, "networks after", []string{"blue"}, networks())
	drivertest.Same(t, "detaching is counted until then", 1, values()["detach_total{macvlan,blue,default,success}"])
	// The NAD becomes one of another type.
	_ = nads.Update(nad("blue", `{"cniVersion":"1.0.0","type":"ipvlan"}`))
	refresh(t, d)
	drivertest.Same(t, "networks of another type", nil, networks())
}

// TestContainersAtTheGateAreCounted checks that a container is counted when it is created,
// and one that is held again when its wait is over.
func TestContainersAtTheGateAreCounted(t *testing.T) {
	d := newDriver(t, nad("blue", blueConf))
	values := measured(d)
	prepare(t, d, claim("c", "blue"))
	knowsPod(t, d, corev1.RestartPolicyAlways)
	k := kernelOf(d)
	h := newHooks(d, time.Second)
	create := func(sandbox int) error {
		_, _, err := h.CreateContainer(t.Context(), podNo(sandbox), regular(d, drivertest.Web.UID))
		return err
	}
	gate := func(what string, want map[string]float64, do func()) {
		t.Helper()
		before := values()
		do()
		d.operations.Wait()
		got := changed(before, values())
		maps.DeleteFunc(got, func(series string, _ float64) bool {
			return !strings.HasPrefix(series, "gate_") && !strings.HasPrefix(series, "pod_")
		})
		drivertest.Same(t, what, want, got)
	}
	var running chan struct{} // closed when the plugin runs
	slowly := func(fail error) (release func()) {
		running = make(chan struct{})
		goOn := make(chan struct{})
		k.Slow = func(ctx context.Context) error {
			close(running)
			select {
			case <-goOn:
				return fail
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return func() { close(goOn) }
	}
	const passed, held, released, refused = "gate_containers_total{passed}", "gate_containers_total{held}", "gate_containers_total{released}", "gate_containers_total{refused}"

	gate("held and released", map[string]float64{held: 2, released: 2, "pod_attach_duration_seconds{success}": 1}, func() {
		release := slowly(nil)
		err := errors.Join(h.RunPodSandbox(t.Context(), podNo(1)), create(1), create(1))
		if release(); err != nil {
			t.Error(err)
		}
	})
	gate("passed", map[string]float64{passed: 1}, func() {
		if status, found := h.networkStatus.Pending(drivertest.Web); found {
			<-status.Stored // until then the gate holds containers
		}
		if err := create(1); err != nil {
			t.Error(err)
		}
	})
	gate("held, and the pod goes", map[string]float64{held: 1, "pod_attach_duration_seconds{cancelled}": 1}, func() {
		slowly(nil)
		err := errors.Join(h.RunPodSandbox(t.Context(), podNo(3)), create(3))
		<-running
		d.jobs.cancel(drivertest.Web.UID, "", errPodDeleting)
		if err != nil {
			t.Error(err)
		}
	})
	gate("a failure without a container", map[string]float64{"pod_attach_duration_seconds{error}": 1}, func() {
		release := slowly(drivertest.Final("no"))
		err := h.RunPodSandbox(t.Context(), podNo(2))
		if release(); err != nil {
			t.Error(err)
		}
	})
	gate("refused", map[string]float64{refused: 1}, func() {
		drivertest.WantReason(t, create(2), reason.PluginFailed, "network default/blue")
	})
}

// TestHooksAreMeasured checks that the measured hooks are those that NRI knows by name,
// and what they leave of the runtime's limit.
func TestHooksAreMeasured(t *testing.T) {
	d := newDriver(t)
	values := measured(d)
	m := &hooks{nriClient: d.nri, limit: func() time.Duration { return 2 * time.Second }}
	_, err := m.Synchronize(t.Context(), nil, nil)
	err = errors.Join(err, m.RunPodSandbox(t.Context(), podNo(1)), m.StopPodSandbox(t.Context(), podNo(1)), m.RemovePodSandbox(t.Context(), podNo(1)))
	if _, _, createErr := m.CreateContainer(t.Context(), podNo(1), nil); err != nil || createErr != nil {
		t.Fatal(err, createErr)
	}
	want := map[string]float64{"nri_deadline_margin_seconds{}": 5, "nri_connections_total{}": 1}
	for _, event := range metrics.Events() {
		want["nri_hook_duration_seconds{"+event+"}"] = 1
	}
	drivertest.Same(t, "measured", want, values())
	drivertest.Same(t, "the runtime's limit", 2*time.Second, d.runtime.state().limit)
}

// TestClaimsAreCounted checks that claims are counted as the kubelet counts them: each has
// its error, or all have the call's.
func TestClaimsAreCounted(t *testing.T) {
	d := newDriver(t, nad("blue", blueConf))
	values := measured(d)
	p := d.plugin
	good, bad := claim("good", "blue"), claim("bad", "green")
	if _, err := p.PrepareResourceClaims(t.Context(), []*resourceapi.ResourceClaim{good}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.PrepareResourceClaims(t.Context(), []*resourceapi.ResourceClaim{bad}); err != nil {
		t.Fatal(err)
	}
	named := []kubeletplugin.NamespacedObject{{UID: good.UID}, {UID: bad.UID}}
	if _, err := p.UnprepareResourceClaims(t.Context(), named); err != nil {
		t.Fatal(err)
	}
	d.runtime.lost(errors.New("away"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.PrepareResourceClaims(ctx, []*resourceapi.ResourceClaim{good, bad}); err == nil {
		t.Fatal("prepared without the runtime")
	}
	drivertest.Same(t, "counted", map[string]float64{
		"prepare_total{success}": 1, "prepare_total{error}": 3, "prepare_duration_seconds{}": 3,
		"unprepare_total{success}": 2, "unprepare_duration_seconds{}": 1,
	}, values())
}

// TestPrepareWaitsForTheRuntime checks that no claim is prepared while the runtime calls no hooks, and that Prepare goes on when it does.
func TestPrepareWaitsForTheRuntime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver(t, nad("blue", blueConf))
		c := claim("a", "blue")
		d.runtime.lost(errors.New("away"))
		_, err := d.plugin.PrepareResourceClaims(t.Context(), []*resourceapi.ResourceClaim{c})
		drivertest.WantReason(t, err, reason.RuntimeNotConnected)
		if records := d.store.ForClaim("a"); len(records) > 0 {
			t.Errorf("recorded: %v", records)
		}
		time.AfterFunc(runtimeWait/2, d.runtime.connected)
		results, err := d.plugin.PrepareResourceClaims(t.Context(), []*resourceapi.ResourceClaim{c})
		if err != nil || results[c.UID].Err != nil {
			t.Errorf("prepared with %v, %v, after the runtime had connected", results[c.UID].Err, err)
		}
	})
}

func TestRefusedPodsAreCounted(t *testing.T) {
	d := newDriverWith(t, setup{cfg: func(c *Config) { c.Ownership.Unclaimed = RefuseUnclaimed }})
	values := measured(d)
	pod := podNo(1)
	pod.Annotations = map[string]string{attachment.NetworksAnnotation: "blue"}
	h := newHooks(d, time.Second)
	drivertest.WantReason(t, h.RunPodSandbox(t.Context(), pod), reason.NoClaim)
	drivertest.Same(t, "counted", map[string]float64{
		"unclaimed_pods_refused_total{}": 1, "nri_hook_duration_seconds{RunPodSandbox}": 1, "nri_deadline_margin_seconds{}": 1,
	}, values())
}

// TestScrapeOfADriverThatRuns checks the metrics and the readiness of a driver that runs.
func TestScrapeOfADriverThatRuns(t *testing.T) {
	c := claim("a", "blue")
	n := startNode(t, c)
	n.prepare(t, c)
	n.publishes(t, "node-0-0")
	if err := n.runSandbox(t, podNo(1)); err != nil {
		t.Fatal(err)
	}
	n.retrigger.latest.Store(&registration{at: time.Now()})
	// The library writes in the background, and the hook has its job end there.
	become(t, func() error {
		for _, check := range append(n.Ready(), n.Live()...) {
			if !check.OK {
				return fmt.Errorf("check %v fails", check)
			}
		}
		if phase := n.store.All()[0].Phase; phase != "Attached" {
			return fmt.Errorf("the attachment is %s", phase)
		}
		return nil
	})
	got := scraped(n.cfg.Metrics)
	for series, want := range map[string]float64{
		"nri_connected{}": 1, "kubelet_registered{}": 1, "node_owned{}": 1, "nri_request_timeout_seconds{}": tolerant.Seconds(),
		"ready{nri}": 1, "ready{kubelet}": 1, "ready{slices}": 1, "ready{queue}": 1,
		"devices{networks,offered}": 1, "attachments{Attached}": 1, "slices_unpublished_seconds{}": 0,
		"attach_total{bridge,blue,default,success}": 1, "prepare_total{success}": 1, "pod_attach_duration_seconds{success}": 1,
		"nri_hook_duration_seconds{RunPodSandbox}": 1, "checkpoint_writes_total{true}": 2,
	} {
		if got[series] != want {
			t.Errorf("%s is %v, want %v", series, got[series], want)
		}
	}
	if t.Failed() {
		t.Log(got)
	}
	if err := n.stop(); err != nil {
		t.Error(err)
	}
	n.runtime.Stop()
}

// TestBlockedPods checks that pods which wait are counted by whether anything has failed.
func TestBlockedPods(t *testing.T) {
	d := newDriver(t, nad("blue", blueConf))
	prepare(t, d, claim("c", "blue"))
	k := kernelOf(d)
	blocked := func() map[string]int { _, b := d.jobs.queue(time.Now()); return b }
	drivertest.Same(t, "at first", map[string]int{podAttaching: 0, podRetrying: 0, podFailed: 0}, blocked())

	running := make(chan struct{})
	k.Slow = func(ctx context.Context) error { close(running); <-ctx.Done(); return context.Cause(ctx) }
	j := d.jobs.attach(drivertest.SandboxNo(1), nil, false)
	<-running
	drivertest.Same(t, "attaching", map[string]int{podAttaching: 1, podRetrying: 0, podFailed: 0}, blocked())
	queue, _ := d.jobs.queue(j.begun.Add(time.Minute))
	drivertest.Same(t, "queue", metrics.Queue{Length: 1, Oldest: time.Minute}, queue)

	j.failed(errors.New("not yet"), true)
	drivertest.Same(t, "retrying", map[string]int{podAttaching: 0, podRetrying: 1, podFailed: 0}, blocked())
	d.jobs.cancel(drivertest.Web.UID, "", errPodDeleting)
	d.operations.Wait()
	drivertest.Same(t, "cancelled", map[string]int{podAttaching: 0, podRetrying: 0, podFailed: 0}, blocked())

	k.Slow = nil
	k.Fail("ADD net1", drivertest.Final("no"))
	d.jobs.attach(drivertest.SandboxNo(2), nil, false)
	d.operations.Wait()
	drivertest.Same(t, "failed", map[string]int{podAttaching: 0, podRetrying: 0, podFailed: 1}, blocked())
	queue, _ = d.jobs.queue(time.Now())
	drivertest.Same(t, "queue of what is over", metrics.Queue{}, queue)
}

// TestTakeOverThatFails checks that a driver to which another does not hand over serves no sandbox: the other one
// does, and both would run the same plugins.
func TestTakeOverThatFails(t *testing.T) {
	d := newDriverWith(t, setup{beside: true, cfg: func(c *Config) { c.StateDir, c.GateBinary = t.TempDir(), "/no/gate" }}, nad("blue", blueConf))
	prepare(t, d, claim("a", "blue"))
	_, err := newHooks(d, time.Second).Synchronize(t.Context(), []*nri.PodSandbox{podNo(1)}, nil)
	if failed := <-d.failed; err == nil || !errors.Is(err, failed) {
		t.Errorf("Synchronize: %v, and the driver ends by %v", err, failed)
	}
	d.operations.Wait()
	drivertest.Same(t, "plugins", nil, kernelOf(d).Calls)
}
