package driver

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	nri "github.com/containerd/nri/pkg/api"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/test/drivertest"
)

// TestDriverEndsWithinAnEdit puts records in the state in which a killed driver leaves them, and
// checks that the next one finishes the edit, or undoes it if it was taken back.
func TestDriverEndsWithinAnEdit(t *testing.T) {
	added := func(w *editWorld) checkpoint.Record {
		w.t.Helper()
		s, _ := w.Driver.edits.sandboxes.of("solo-uid")
		s.Cookie = drivertest.CookieOf(s.NetNS)
		a := attachment.Prepared{Pod: s.Pod, Index: 1, Request: "net2", Attachment: attachment.Attachment{
			Network: attachment.NetworkRef{Namespace: "default", Name: "red"}, Interface: "net2", Conflist: json.RawMessage(`{}`),
		}}
		r, err := checkpoint.NewEdits(w.store).AddLive(a, s.Sandbox)
		if err != nil {
			w.t.Fatal(err)
		}
		return r
	}
	attaching := func(w *editWorld) checkpoint.Key {
		w.t.Helper()
		r := added(w)
		if err := w.store.MarkAttaching([]checkpoint.Key{r.Key()}, *r.Sandbox, nil); err != nil {
			w.t.Fatal(err)
		}
		w.k.Has["s/net2"] = true
		return r.Key()
	}
	attached := func(w *editWorld) {
		w.t.Helper()
		if err := w.store.MarkAttached(checkpoint.Added{Key: attaching(w), Result: json.RawMessage(
			`{"cniVersion":"1.1.0","interfaces":[{"name":"net2","sandbox":"/run/netns/s"}],"ips":[{"address":"10.1.0.6/24"}]}`)}); err != nil {
			w.t.Fatal(err)
		}
	}
	removing := func(w *editWorld) {
		w.t.Helper()
		if err := checkpoint.NewEdits(w.store).MarkRemoved(w.store.ForClaim("solo-uid")[0].Key()); err != nil {
			w.t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name       string
		killed     func(*editWorld)
		annotation string
		has        []string
	}{
		{"before the ADD", func(w *editWorld) { added(w) }, "blue,red", []string{"blue@net1", "red@net2"}},
		{"before the ADD, taken back", func(w *editWorld) { added(w) }, "blue", []string{"blue@net1"}},
		{"in the ADD", func(w *editWorld) { attaching(w) }, "blue,red", []string{"blue@net1", "red@net2"}},
		{"in the ADD, taken back", func(w *editWorld) { attaching(w) }, "blue", []string{"blue@net1"}},
		{"before network-status", attached, "blue,red", []string{"blue@net1", "red@net2"}},
		{"before network-status, taken back", attached, "blue", []string{"blue@net1"}},
		{"in the DEL", removing, "[]", nil},
		{"in the DEL, taken back", removing, "blue", []string{"blue@net1"}},
		{"before anything", func(*editWorld) {}, "red", []string{"red@net1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inEditWorld(t, func(t *testing.T, w *editWorld) {
				w.run("solo", "s", "blue")
				tt.killed(w)
				w.annotate("solo", tt.annotation)
				w.Driver.edits.sandboxes.reset()
				w.synchronizeSolo()
				w.see("solo")
				w.has("solo", "s", tt.has...)
				after(sweepEvery)
				w.sweeper.sweep(t.Context(), false)
				w.see("solo")
				w.has("solo", "s", tt.has...)
			})
		})
	}
}

// TestSandboxEndsWithinAnEdit checks that the end of a sandbox ends an ADD that runs, and that
// nothing of it is left.
func TestSandboxEndsWithinAnEdit(t *testing.T) {
	inEditWorld(t, func(t *testing.T, w *editWorld) {
		pod := w.run("solo", "s", "")
		w.k.Slow = func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }
		w.edit("solo", "blue")
		started := time.Now()
		if err := w.StopPodSandbox(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		after(time.Second)
		drivertest.Same(t, "interfaces", map[string]bool{}, w.k.Has)
		drivertest.Same(t, "records", 0, len(w.store.ForPod("solo-uid")))
		if took := time.Since(started); took > 3*time.Second {
			t.Errorf("it took %s", took)
		}
		drivertest.Same(t, "events", 0, len(eventsOf(t, w.Driver)))
		if err := w.RemovePodSandbox(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	})
}

// TestFailingDELOfARemovedNetwork checks that a DEL which fails is tried again, with an event, and
// that its interface is not given to another network meanwhile.
func TestFailingDELOfARemovedNetwork(t *testing.T) {
	inEditWorld(t, func(t *testing.T, w *editWorld) {
		pod := w.run("solo", "s", "blue")
		eventsOf(t, w.Driver)
		w.k.Fail("DEL net1", drivertest.Final("busy"))
		w.edit("solo", "red@net1")
		drivertest.Same(t, "events", []string{reason.EventFailedAddingInterface, reason.EventFailedRemovingInterface}, w.eventReasons())
		w.admitted(pod)
		w.edit("solo", "red@net1,red@other")
		drivertest.Same(t, "interface of the network beside it", true, w.k.Has["s/other"])
		w.k.Fail("DEL net1", nil)
		after(longestEditPause)
		w.see("solo")
		w.has("solo", "s", "red@net1", "red@other")
	})
}

// TestPodStartsWithoutARemovedNetwork checks that a pod which cannot start because of one network
// starts once its annotation does not name the network any more.
func TestPodStartsWithoutARemovedNetwork(t *testing.T) {
	inEditWorld(t, func(t *testing.T, w *editWorld) {
		w.k.Fail("ADD net2", drivertest.Final("no such VLAN"))
		w.annotate("web", "blue,blue")
		pod := with(asking("web", "blue,blue"), func(p *nri.PodSandbox) { p.Id = "s"; p.Linux.Namespaces[0].Path = "/run/netns/s" })
		w.k.Slow = func(context.Context) error { time.Sleep(2 * time.Second); return nil } // behind the hook
		if err := w.RunPodSandbox(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		after(5 * time.Second)
		w.k.Slow = nil
		w.edit("web", "blue")
		after(2 * freshFailure)
		_, _, _ = w.CreateContainer(t.Context(), pod, &nri.Container{}) // begins another attach
		w.see("web")
		w.has("web", "s", "blue@net1")
		w.admitted(pod)
	})
}

// TestManyEditsAtOnce checks that the latest of fast edits counts, while network-status cannot be
// written, and that one write follows.
func TestManyEditsAtOnce(t *testing.T) {
	inEditWorld(t, func(t *testing.T, w *editWorld) {
		w.run("solo", "s", "")
		for i := range 50 {
			w.annotate("solo", fmt.Sprintf("blue@x%d,red@y%d", i, i))
			w.Driver.edits.changed("solo-uid")
			eventsOf(t, w.Driver) // the recorder of tests is full at some time
		}
		w.see("solo")
		w.has("solo", "s", "blue@x49", "red@y49")
	})
}

// TestUnlistedAddressesOfAnEarlierDriver checks that an added network of whereabouts, whose addresses an
// earlier driver has not listed in network-status, gets a DEL and another ADD: somebody may have
// freed them. It keeps them if that DEL would free the address of another network for certain.
func TestUnlistedAddressesOfAnEarlierDriver(t *testing.T) {
	const conf = `{"name":"red","plugins":[{"type":"macvlan","ipam":{"type":"whereabouts","range":"10.9.0.0/24"}}]}`
	again := []string{`DEL net2 in s netns "/run/netns/s"`, `ADD net2 in s netns "/run/netns/s"`}
	for name, want := range map[string][]string{"alone": again, "beside another network of the range": nil} {
		t.Run(name, func(t *testing.T) { unlistedAddresses(t, conf, want) })
	}
}

func unlistedAddresses(t *testing.T, conf string, want []string) {
	t.Helper()
	inEditWorld(t, func(t *testing.T, w *editWorld) {
		w.run("solo", "s", "blue")
		if want == nil {
			w.k.Others = map[string][]attachment.Attachment{"s": {{Interface: "eth0", Conflist: json.RawMessage(conf)}}}
		}
		s, _ := w.Driver.edits.sandboxes.of("solo-uid")
		s.Cookie = drivertest.CookieOf(s.NetNS)
		r, err := checkpoint.NewEdits(w.store).AddLive(attachment.Prepared{Pod: s.Pod, Index: 1, Request: "net2", Attachment: attachment.Attachment{
			Network: attachment.NetworkRef{Namespace: "default", Name: "red"}, Interface: "net2",
			Conflist: json.RawMessage(conf),
		}}, s.Sandbox)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.store.MarkAttaching([]checkpoint.Key{r.Key()}, s.Sandbox, nil); err != nil {
			t.Fatal(err)
		}
		if err := w.store.MarkAttached(checkpoint.Added{Key: r.Key(), Result: json.RawMessage(`{"cniVersion":"1.1.0","interfaces":[{"name":"net2","sandbox":"/run/netns/s"}],"ips":[{"address":"10.9.0.5/24"}]}`)}); err != nil {
			t.Fatal(err)
		}
		w.k.Has["s/net2"] = true
		w.annotate("solo", "blue,red")
		before := w.k.CallCount()
		w.see("solo")
		if want == nil {
			after(time.Minute)
		}
		drivertest.Same(t, "plugins", want, append([]string(nil), w.k.Calls[before:]...))
		w.has("solo", "s", "blue@net1", "red@net2")
		drivertest.Same(t, "pending DELs", 0, len(w.store.PendingDELs()))
	})
}
