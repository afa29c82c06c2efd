package driver

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/nadra-dev/nadra/internal/podnet"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/test/drivertest"
)

// TestLostInterfaceIsReported removes an interface of an attached pod: the next sweep, and the end of its master at
// once, make one event, a condition and a count, and its return takes them back. Nothing else happens to the pod.
func TestLostInterfaceIsReported(t *testing.T) {
	inAttachedWorld(t, func(t *testing.T, w *world) {
		w.synchronize(t, 1)
		w.forget(t)
		requested(w) // by the connection
		sweep := func() []string {
			w.sweeper.sweep(t.Context(), true)
			synctest.Wait()
			return eventsOf(t, w.Driver)
		}
		drivertest.Same(t, "events while all is there", nil, sweep())
		delete(w.k.Has, "sandbox-1/net1")
		w.checker.linkGone("eth7")
		drivertest.Same(t, "look when another interface goes", false, requested(w))
		w.checker.linkGone("lan0")
		drivertest.Same(t, "look when the master goes", true, requested(w))
		events := sweep()
		drivertest.Same(t, "number of events", 1, len(events))
		drivertest.WantReasonIn(t, events[0], reason.AttachmentChanged, "Warning "+reason.EventFailedCheckNetwork+" ", "network default/blue (net1)", "interface net1 ")
		drivertest.Same(t, "conditions", []string{"a net1 CheckFailed repair=true", "a net2 Attached repair=true"}, w.conditions())
		drivertest.Same(t, "lost", 1, w.metricsState().Lost)
		drivertest.Same(t, "events of the next sweep", nil, sweep())
		drivertest.Same(t, "phases", bothAttached, w.phases())
		if err := w.checker.latest(w.store.All()[0]); reason.Of(err) != reason.AttachmentChanged {
			t.Errorf("the device's health: %v", err)
		}
		w.k.Has["sandbox-1/net1"] = true
		drivertest.Same(t, "events when it is back", []string{"Normal CheckedNetwork network default/blue (net1) is as it was attached"}, sweep())
		drivertest.Same(t, "lost when it is back", 0, w.metricsState().Lost)
	})
}

// TestLostBesideAnEditThatFails removes an interface of a pod to which an edit cannot add another network: the loss is
// reported all the same.
func TestLostBesideAnEditThatFails(t *testing.T) {
	inAttachedWorld(t, func(t *testing.T, w *world) {
		second, edits := w.store.All()[1].Key(), checkpoint.NewEdits(w.store)
		if err := errors.Join(edits.MarkRemoved(second), w.store.MarkDetached(second), edits.MarkWanted("sandbox-1", second)); err != nil {
			t.Fatal(err)
		}
		delete(w.k.Has, "sandbox-1/net1")
		w.checker.lookAtAll()
		synctest.Wait()
		drivertest.WantReasonIn(t, strings.Join(eventsOf(t, w.Driver), "\n"), reason.AttachmentChanged, "interface net1 ")
	})
}

// requested reports whether a sweep is requested, and takes the request.
func requested(w *world) bool {
	select {
	case <-w.sweeps.C():
		return true
	default:
		return false
	}
}

// TestRenamedInterfaceIsNotLost renames an interface in the pod: neither looks nor a CHECK report it, unless it goes.
func TestRenamedInterfaceIsNotLost(t *testing.T) {
	inAttachedWorld(t, func(t *testing.T, w *world) {
		w.synchronize(t, 1)
		w.forget(t)
		w.k.Renamed = map[string]string{"net1": "wan"}
		w.k.Fail("CHECK net1", drivertest.Final("no such interface"))
		look := func() []string {
			w.sweeper.sweep(t.Context(), true)
			synctest.Wait()
			return eventsOf(t, w.Driver)
		}
		drivertest.Same(t, "events after it was renamed", nil, look())
		drivertest.Same(t, "lost", 0, w.metricsState().Lost)
		w.checker.checkOnDemand(drivertest.Web)
		synctest.Wait()
		if events := eventsOf(t, w.Driver); !slices.ContainsFunc(events, func(e string) bool {
			return strings.HasPrefix(e, "Normal "+reason.EventCheckedNetwork+" network default/blue (net1)") && strings.Contains(e, "no such interface")
		}) {
			t.Errorf("events of a CHECK: %q", events)
		}
		drivertest.Same(t, "conditions", true, !strings.Contains(strings.Join(w.conditions(), " "), "CheckFailed"))
		delete(w.k.Has, "sandbox-1/net1")
		drivertest.WantReasonIn(t, strings.Join(look(), "\n"), reason.AttachmentChanged, "interface net1 ")
	})
}

var five = netip.MustParseAddr("fd00::5")

// TestLostAddressIsReported checks the addresses of an attached pod: one that goes, and one that another host has.
func TestLostAddressIsReported(t *testing.T) {
	for name, c := range map[string]struct {
		now  []podnet.Address
		want string
	}{
		"gone":         {nil, "address fd00::5 of interface net1 is gone"},
		"another's":    {[]podnet.Address{{Interface: "net1", IP: five, Tentative: true, Duplicate: true}}, "address fd00::5 of interface net1 is another host's, too"},
		"on another":   {[]podnet.Address{{Interface: "br0", IP: five}}, "address fd00::5 of interface net1 is gone"},
		"still there":  {[]podnet.Address{{Interface: "net1", IP: five}, {Interface: "net2", IP: five}}, ""},
		"one is added": {[]podnet.Address{{Interface: "net1", IP: five}, {Interface: "net2", IP: five}, {Interface: "net1", IP: five.Next()}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.k.IP = "fd00::5/64"
				w.k.Addresses = []podnet.Address{{Interface: "net1", IP: five}, {Interface: "net2", IP: five}}
				if err := w.RunPodSandbox(t.Context(), podNo(1)); err != nil {
					t.Fatal(err)
				}
				w.forget(t)
				w.k.Addresses = c.now
				w.sweeper.sweep(t.Context(), true)
				synctest.Wait()
				events := eventsOf(t, w.Driver)
				if c.want == "" {
					drivertest.Same(t, "events", nil, events)
					return
				}
				drivertest.WantReasonIn(t, strings.Join(events, "\n"), reason.AttachmentChanged, c.want)
			})
		})
	}
}

// TestWhatWasNeverThereIsNotLost attaches a device with a driver of user space: its plugin reports an interface that
// does not exist. If its CHECK fails, too, the interface is lost: it has gone while no driver ran. The pods of virtual
// machines are left out.
func TestWhatWasNeverThereIsNotLost(t *testing.T) {
	inAttachedWorld(t, func(t *testing.T, w *world) {
		clear(w.checker.looks)
		delete(w.k.Has, "sandbox-1/net1") // before the first look
		for range 2 {
			w.sweeper.sweep(t.Context(), true)
		}
		synctest.Wait()
		drivertest.Same(t, "events", nil, eventsOf(t, w.Driver))
		w.k.Fail("CHECK net1", drivertest.Final("no interface"))
		w.checker.checkOnDemand(drivertest.Web)
		synctest.Wait()
		drivertest.WantReasonIn(t, strings.Join(eventsOf(t, w.Driver), "\n"), reason.AttachmentChanged, "Warning "+reason.EventFailedCheckNetwork, "interface net1 ")
		machine, _ := w.edits.sandboxes.of(drivertest.Web.UID)
		machine.launcher = true
		w.edits.sandboxes.add(machine)
		delete(w.k.Has, "sandbox-1/net2")
		w.sweeper.sweep(t.Context(), true)
		synctest.Wait()
		drivertest.Same(t, "events of a virtual machine", nil, eventsOf(t, w.Driver))
	})
}

// TestDoubtsOfPodsThatAreGone checks that the pods are forgotten that are gone: a network may have a failing CHECK for as
// long as the driver runs, and any number of pods.
func TestDoubtsOfPodsThatAreGone(t *testing.T) {
	inAttachedWorld(t, func(t *testing.T, w *world) {
		network, gone := networkOfPods{w.store.All()[0].Attachment.Network, networksOf(w.store.All())}, attachment.PodRef{Namespace: "default", Name: "gone", UID: "gone-uid"}
		w.checker.doubted[network] = []attachment.PodRef{gone, drivertest.Web}
		w.checker.doubted[networkOfPods{networks: "other"}] = []attachment.PodRef{gone}
		w.checker.lookAtAll()
		drivertest.Same(t, "doubted", map[networkOfPods][]attachment.PodRef{network: {drivertest.Web}}, w.checker.doubted)
	})
}

// TestCheckThatNeverPasses checks a plugin whose CHECK fails on healthy attachments: no event or condition, and an
// owner who asks is told so. Once it passes for one pod, the failure of another counts.
func TestCheckThatNeverPasses(t *testing.T) {
	inAttachedWorld(t, func(t *testing.T, w *world) {
		wrong := drivertest.Final("route is not removed")
		w.k.Fail("CHECK net1", wrong)
		w.k.Fail("CHECK net2", wrong)
		w.synchronize(t, 1)
		synctest.Wait()
		drivertest.Same(t, "plugins", bothChecked, w.k.Calls)
		drivertest.Same(t, "events", nil, eventsOf(t, w.Driver))
		drivertest.Same(t, "conditions", []string{"a net1 Attached repair=true", "a net2 Attached repair=true"}, w.conditions())
		w.checker.checkOnDemand(drivertest.Web)
		synctest.Wait()
		for _, e := range eventsOf(t, w.Driver) {
			if !strings.HasPrefix(e, "Normal "+reason.EventCheckedNetwork+" ") || !strings.Contains(e, "route is not removed") {
				t.Errorf("event %s", e)
			}
		}
		w.k.Fail("CHECK net2", nil)
		w.checker.checkOnDemand(drivertest.Web)
		synctest.Wait()
		events := eventsOf(t, w.Driver)
		if !slices.ContainsFunc(events, func(e string) bool { return reason.In(e) == reason.AttachmentChanged }) {
			t.Errorf("one of the network passes, and the other's failure is no event: %q", events)
		}
	})
}

// TestCheckOfOtherNetworksProvesNothing checks that the failure of a pod's CHECK counts only after a CHECK of the same
// network has passed for a pod with the same networks: what fails may be what the pod's other network has added.
func TestCheckOfOtherNetworksProvesNothing(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		blue := func(pod string, others ...string) checkpoint.Record {
			var prepared []attachment.Prepared
			for i, name := range append([]string{"blue"}, others...) {
				r := drivertest.Attached(fmt.Sprintf("net%d", i+1), drivertest.BridgeResult)
				r.Pod.UID, r.Claim.UID, r.Request, r.Index = pod, "claim-"+pod, name, i
				r.Attachment.Network.Name = name
				prepared = append(prepared, r.Prepared)
			}
			if err := w.store.Put(prepared); err != nil {
				t.Fatal(err)
			}
			return w.store.ForPod(pod)[0]
		}
		alone, withRed, alsoWithRed := blue("1"), blue("2", "red"), blue("3", "red")
		failed := func(r checkpoint.Record) bool {
			return w.checker.weigh(r, checkResult{err: drivertest.Final("route is not removed")}).err != nil
		}
		w.checker.weigh(alone, checkResult{})
		if failed(withRed) {
			t.Error("the CHECK of a pod with another network counts")
		}
		w.checker.weigh(alsoWithRed, checkResult{})
		if !failed(withRed) || !failed(alone) {
			t.Error("the CHECK of a pod with the same networks does not count")
		}
		w.checker.lookAtAll()
		if !failed(withRed) || !failed(alone) {
			t.Error("the driver has forgotten that the CHECKs have passed")
		}
		for _, claim := range []string{"claim-2", "claim-3"} {
			if err := w.store.DeleteClaim(claim, w.store.ForClaim(claim)[0].Pod.UID); err != nil {
				t.Fatal(err)
			}
		}
		w.checker.lookAtAll()
		drivertest.Same(t, "networks whose CHECK has passed", 1, len(w.checker.passed))
		synctest.Wait()
	})
}
