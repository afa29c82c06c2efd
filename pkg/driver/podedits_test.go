package driver

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	nri "github.com/containerd/nri/pkg/api"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/nadra-dev/nadra/internal/gate"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/drivertest"
	"github.com/nadra-dev/nadra/pkg/driver/internal/networkstatus"
)

// editWorld is a world with an API server that stores network-status, and a driver that follows
// edits. Networks blue and red can be attached, and vf draws from a resource pool. Pod web has
// claim a with blue twice, and pod solo has no claim.
type editWorld struct {
	*world
	t    *testing.T
	kube *fake.Clientset
}

func inEditWorld(t *testing.T, test func(*testing.T, *editWorld)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		kube := fake.NewClientset()
		vf := nad("vf", blueConf)
		vf.Annotations = map[string]string{attachment.ResourceNameAnnotation: "example.com/vf"}
		d := newDriverWith(t, setup{
			cfg:     func(c *Config) { c.Ownership.Unclaimed, c.NetworkStatusWait = AttachUnclaimed, true },
			clients: func(c *Clients) { c.NetworkStatus = kube },
		}, nad("blue", blueConf), nad("red", redConf), vf)
		prepare(t, d, claim("a", "blue", "blue"))
		w := &editWorld{t: t, kube: kube, world: &world{Driver: d, store: d.store, k: kernelOf(d), hooks: newHooks(d, time.Second)}}
		for _, name := range []string{"web", "solo"} {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name + "-uid")}}
			if err := kube.Tracker().Add(pod); err != nil {
				t.Fatal(err)
			}
		}
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan struct{}, 3)
		go func() { d.networkStatus.Run(ctx, d.jobs.attachAgain); ended <- struct{}{} }()
		go func() { _ = d.edits.run(ctx); ended <- struct{}{} }()
		go func() { _ = d.attacher.PendingDELs.Run(ctx); ended <- struct{}{} }()
		test(t, w)
		end()
		d.operations.Cancel(errDriverStop)
		d.background.Cancel(errDriverStop)
		d.operations.Wait()
		d.background.Wait()
		for range cap(ended) {
			<-ended
		}
	})
}

// run starts a pod's sandbox of this ID, with its annotation as the API server has it.
func (w *editWorld) run(name, id, networks string) *nri.PodSandbox {
	w.t.Helper()
	w.annotate(name, networks)
	pod := with(asking(name, networks), func(p *nri.PodSandbox) { p.Id = id; p.Linux.Namespaces[0].Path = "/run/netns/" + id })
	if err := w.RunPodSandbox(w.t.Context(), pod); err != nil {
		w.t.Fatal(err)
	}
	w.see(name)
	return pod
}

// edit changes a pod's annotation and lets the driver see it, and then what it has written.
func (w *editWorld) edit(name, networks string) {
	w.t.Helper()
	w.annotate(name, networks)
	w.see(name)
}

// annotate changes a pod's annotation, of which the driver does not know yet.
func (w *editWorld) annotate(name, networks string) {
	w.t.Helper()
	pod := w.pod(name)
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[attachment.NetworksAnnotation] = networks
	if _, err := w.kube.CoreV1().Pods("default").Update(w.t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	w.deliver(name)
}

func (w *editWorld) pod(name string) *corev1.Pod {
	w.t.Helper()
	pod, err := w.kube.CoreV1().Pods("default").Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return pod
}

// deliver makes the driver's watch have the pod as the API server has it.
func (w *editWorld) deliver(name string) (before, now *metav1.PartialObjectMetadata) {
	w.t.Helper()
	pod := w.pod(name)
	pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	known, err := slimPod(pod)
	if err != nil {
		w.t.Fatal(err)
	}
	before = w.Driver.watch.Find(attachment.PodRef{Namespace: "default", Name: name, UID: name + "-uid"})
	if err := w.Driver.watch.informer.GetStore().Add(known); err != nil {
		w.t.Fatal(err)
	}
	return before, metaOf(known)
}

// see tells the driver of changes of the pod until it makes no more.
func (w *editWorld) see(name string) {
	w.t.Helper()
	w.Driver.edits.changed(name + "-uid")
	for range 4 {
		after(100 * time.Millisecond)
		if before, now := w.deliver(name); isEdit(before, now) {
			w.Driver.edits.podChanged(before, now)
		}
	}
}

// has checks what a pod has: the interfaces that plugins have made in its sandbox, the same in
// its network-status in this order, and no record of anything else that needs a DEL.
func (w *editWorld) has(name, sandbox string, networks ...string) {
	w.t.Helper()
	shown, err := networkstatus.Shown(w.pod(name).Annotations[nadv1.NetworkStatusAnnot])
	if err != nil {
		w.t.Error(err)
	}
	var listed, recorded []string
	for _, s := range shown {
		listed = append(listed, strings.TrimPrefix(s.Name, "default/")+"@"+s.Interface)
	}
	made := map[string]bool{}
	for _, r := range w.store.ForPod(name + "-uid") {
		if r.NeedsDEL() {
			recorded = append(recorded, r.Attachment.Network.Name+"@"+r.Attachment.Interface)
			made[sandbox+"/"+r.Attachment.Interface] = true
		}
	}
	drivertest.Same(w.t, "network-status of "+name, networks, listed)
	drivertest.Same(w.t, "records of "+name, networks, recorded)
	drivertest.Same(w.t, "interfaces", made, w.k.Has)
}

// eventReasons returns the reasons of the events since the last call.
func (w *editWorld) eventReasons() []string {
	w.t.Helper()
	var out []string
	for _, e := range eventsOf(w.t, w.Driver) {
		out = append(out, strings.Fields(e)[1])
	}
	return out
}

// admitted checks that a container of the pod starts at once.
func (w *editWorld) admitted(pod *nri.PodSandbox) {
	w.t.Helper()
	if _, _, err := w.CreateContainer(w.t.Context(), pod, &nri.Container{}); err != nil {
		w.t.Error(err)
	}
	records := w.store.ForPod(pod.GetUid())
	files := map[string]bool{}
	for _, r := range records {
		files[r.FileUID()] = true
	}
	for uid := range files {
		data, err := json.Marshal(map[string]any{"version": checkpoint.FormatVersion, "records": w.store.ForClaim(uid)})
		if err != nil {
			w.t.Fatal(err)
		}
		here := gate.Where{SandboxID: pod.GetId(), Cookie: drivertest.CookieOf(pod.GetLinux().GetNamespaces()[0].GetPath()), BootID: "boot-1"}
		if verdict, err := gate.Decide(data, here); verdict != gate.Go {
			w.t.Errorf("the gate: %v, %v", verdict, err)
		}
	}
}

// TestRunningPodFollowsItsAnnotation edits the annotation of a pod without claims. Elements need
// no interface, a pod needs no network when it starts, and what it has then can be removed.
func TestRunningPodFollowsItsAnnotation(t *testing.T) {
	inEditWorld(t, func(t *testing.T, w *editWorld) {
		pod := w.run("solo", "s", "")
		w.has("solo", "s")
		for _, tt := range []struct {
			annotation string
			has        []string
		}{
			{"blue", []string{"blue@net1"}},
			{"blue,red", []string{"blue@net1", "red@net2"}},
			{"red,blue", []string{"red@net2", "blue@net1"}},
			{"red@wan,blue", []string{"red@wan", "blue@net1"}},
			{"red@net1", []string{"red@net1"}},
			{"blue@net1", []string{"blue@net1"}},
			{`[{"name":"blue","interface":"net1","mac":"02:00:00:00:00:01"}]`, []string{"blue@net1"}},
			{"", nil},
			{"red", []string{"red@net1"}},
		} {
			w.edit("solo", tt.annotation)
			t.Log(tt.annotation)
			w.has("solo", "s", tt.has...)
			w.admitted(pod)
		}
		if err := w.StopPodSandbox(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		drivertest.Same(t, "interfaces at the end", map[string]bool{}, w.k.Has)
		drivertest.Same(t, "records at the end", 0, len(w.store.ForPod("solo-uid")))
	})
}

// TestNetworksOfTheStartFollowTheAnnotation edits a pod without claims that starts with networks.
func TestNetworksOfTheStartFollowTheAnnotation(t *testing.T) {
	inEditWorld(t, func(t *testing.T, w *editWorld) {
		pod := w.run("solo", "s", "blue,red")
		w.has("solo", "s", "blue@net1", "red@net2")
		eventsOf(t, w.Driver)
		w.edit("solo", "red")
		w.has("solo", "s", "red@net2")
		drivertest.Same(t, "events", []string{reason.EventRemovedInterface}, w.eventReasons())
		w.admitted(pod)
		w.edit("solo", "blue,red")
		w.has("solo", "s", "blue@net1", "red@net2")
		drivertest.Same(t, "events", []string{reason.EventAddedInterface, reason.EventAttachedWithoutClaim}, w.eventReasons())
		w.admitted(pod)
		if err := w.StopPodSandbox(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		drivertest.Same(t, "interfaces at the end", map[string]bool{}, w.k.Has)
		drivertest.Same(t, "records at the end", 0, len(w.store.ForPod("solo-uid")))
	})
}

// TestNetworksOfClaimsFollowTheAnnotation removes and adds networks of a pod whose claim requests
// them, and starts a new sandbox of it.
func TestNetworksOfClaimsFollowTheAnnotation(t *testing.T) {
	inEditWorld(t, func(t *testing.T, w *editWorld) {
		pod := w.run("web", "s", "blue,blue")
		w.has("web", "s", "blue@net1", "blue@net2")
		w.edit("web", "blue@net2,red")
		w.has("web", "s", "blue@net2", "red@net1")
		w.admitted(pod)
		devices, _, _ := w.claimStatus.Pending(w.store.ForClaim("a-uid")[0].Claim)
		var conditions []string
		for _, d := range devices {
			conditions = append(conditions, d.Reason)
		}
		slices.Sort(conditions)
		drivertest.Same(t, "conditions of the claim", []string{reason.ConditionAttached, reason.ConditionDetached}, conditions)

		if err := w.StopPodSandbox(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		drivertest.Same(t, "interfaces between the sandboxes", map[string]bool{}, w.k.Has)
		pod = w.run("web", "s2", "blue@net2,red")
		w.has("web", "s2", "blue@net2", "red@net1")
		adjust, _, err := w.CreateContainer(t.Context(), pod, &nri.Container{})
		if err != nil || !slices.Contains(adjust.GetHooks().GetCreateRuntime()[0].GetArgs(), "-claims=web-uid") {
			t.Errorf("a container of the new sandbox: %v, %v", adjust, err)
		}
		w.edit("web", "blue,blue")
		w.has("web", "s2", "blue@net2", "blue@net1")
		w.admitted(pod)
		if err := w.StopPodSandbox(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		drivertest.Same(t, "interfaces at the end", map[string]bool{}, w.k.Has)
		drivertest.Same(t, "records at the end", bothPrepared, w.phases())
		if err := w.unpreparer.unprepare(t.Context(), "a-uid"); err != nil {
			t.Fatal(err)
		}
		drivertest.Same(t, "records after the claim", 0, len(w.store.All()))
	})
}

// TestClaimsByHandKeepTheirNetworks checks that an edit removes nothing that the annotation did not
// name when the pod started.
func TestClaimsByHandKeepTheirNetworks(t *testing.T) {
	inEditWorld(t, func(t *testing.T, w *editWorld) {
		w.run("web", "s", "")
		for _, annotation := range []string{"red", "[]", ""} {
			w.edit("web", annotation)
			want := []string{"blue@net1", "blue@net2"}
			if annotation == "red" {
				want = append(want, "red@net3")
			}
			w.has("web", "s", want...)
		}
	})
}

// TestFailedAdditionIsTriedAgain checks that a network that cannot be added has one event, keeps
// neither containers from starting nor other networks from being added, and is added when it can be.
func TestFailedAdditionIsTriedAgain(t *testing.T) {
	for name, mend := range map[string]func(*editWorld){
		"the cause is repaired":     func(w *editWorld) { w.k.Fail("ADD bad", nil) },
		"the edit is taken back":    func(w *editWorld) { w.edit("solo", "blue,red@net2") },
		"the network is not there":  nil,
		"the driver is new to this": func(w *editWorld) { w.k.Fail("ADD bad", nil); w.Driver.edits.sandboxes.reset(); w.synchronizeSolo() },
	} {
		t.Run(name, func(t *testing.T) {
			inEditWorld(t, func(t *testing.T, w *editWorld) {
				pod := w.run("solo", "s", "blue")
				eventsOf(t, w.Driver)
				bad := "red@bad"
				w.k.Fail("ADD bad", drivertest.Final("no such VLAN"))
				if mend == nil {
					bad = "absent@bad"
					mend = func(w *editWorld) {
						if err := w.nads.(nadCache).Add(nad("absent", redConf)); err != nil {
							t.Fatal(err)
						}
						w.k.Fail("ADD bad", nil)
						refresh(t, w.Driver)
					}
				}
				w.edit("solo", "blue,"+bad+",red@net2")
				w.has("solo", "s", "blue@net1", "red@net2")
				w.admitted(pod)
				after(time.Minute)
				failures := slices.DeleteFunc(w.eventReasons(), func(r string) bool { return r != reason.EventFailedAddingInterface })
				drivertest.Same(t, "events", 1, len(failures))
				mend(w)
				after(longestEditPause)
				w.see("solo")
				want := []string{"blue@net1", bad, "red@net2"}
				if name == "the edit is taken back" {
					want = []string{"blue@net1", "red@net2"}
				}
				w.has("solo", "s", want...)
			})
		})
	}
}

// synchronizeSolo connects the driver to the runtime while pod solo runs with network blue.
func (w *editWorld) synchronizeSolo() {
	w.t.Helper()
	pod := with(asking("solo", "blue"), func(p *nri.PodSandbox) { p.Id = "s"; p.Linux.Namespaces[0].Path = "/run/netns/s" })
	if _, err := w.Synchronize(w.t.Context(), []*nri.PodSandbox{pod}, nil); err != nil {
		w.t.Fatal(err)
	}
}

// TestRefusedEdits checks which edits change nothing, and the event that says so.
func TestRefusedEdits(t *testing.T) {
	for _, tt := range []struct {
		name, annotation string
		change           func(*editWorld)
		event            string
		code             reason.Code
	}{
		{name: "a network of a resource pool", annotation: "blue,vf", event: reason.EventFailedAddingInterface, code: reason.EditRefused},
		{name: "an annotation that cannot be read", annotation: `[{"name"`, event: reason.EventFailedAddingInterface, code: reason.AnnotationInvalid},
		{name: "an interface twice", annotation: "blue@x,red@x", event: reason.EventFailedAddingInterface, code: reason.InterfaceConflict},
		{name: "an interface that somebody else has made", annotation: "blue,red@wg0", change: func(w *editWorld) { w.k.Links = []string{"wg0"} }, event: reason.EventFailedAddingInterface, code: reason.InterfaceExists},
		{name: "the policy refuses", annotation: "blue,red", change: func(w *editWorld) { w.owner.Unclaimed = RefuseUnclaimed }, event: reason.EventFailedAddingInterface, code: reason.NoClaim},
		{name: "the policy leaves it to others", annotation: "blue,red", change: func(w *editWorld) { w.owner.Unclaimed = AllowUnclaimed }, event: reason.EventFailedAddingInterface, code: reason.NoClaim},
		{name: "the pod is exempt", annotation: "blue,red", change: func(w *editWorld) { w.owner.Exempt = []string{"default/solo"} }},
		{name: "the node is not nadra's", annotation: "blue,red", change: func(w *editWorld) { w.owner.informer = w.policies.informer }},
		{name: "Multus has attached another network", annotation: "blue,red", change: func(w *editWorld) {
			pod := w.pod("solo")
			pod.Annotations[nadv1.NetworkStatusAnnot] = `[{"name":"default/blue","interface":"net1"},{"name":"default/white","interface":"net7"}]`
			if _, err := w.kube.CoreV1().Pods("default").Update(w.t.Context(), pod, metav1.UpdateOptions{}); err != nil {
				w.t.Fatal(err)
			}
		}, event: reason.EventFailedAddingInterface, code: reason.EditRefused},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inEditWorld(t, func(t *testing.T, w *editWorld) {
				pod := w.run("solo", "s", "blue")
				eventsOf(t, w.Driver)
				calls := w.k.CallCount()
				if tt.change != nil {
					tt.change(w)
				}
				w.edit("solo", tt.annotation)
				after(time.Minute)
				drivertest.Same(t, "plugin calls", calls, w.k.CallCount())
				w.admitted(pod)
				got := eventsOf(t, w.Driver)
				switch {
				case tt.event == "" && len(got) == 0:
				case len(got) != 1 || tt.event == "" || !strings.Contains(got[0], tt.event+" ["+string(tt.code)+"]"):
					t.Errorf("events %q, want %s with %s", got, tt.event, tt.code)
				}
			})
		})
	}
}

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
		if err := w.store.MarkAttaching([]checkpoint.Key{r.Key()}, *r.Sandbox); err != nil {
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
		w.k.Fail("DEL net1", nil)
		after(longestEditPause)
		w.see("solo")
		w.has("solo", "s", "red@net1")
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
