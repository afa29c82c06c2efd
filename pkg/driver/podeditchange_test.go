package driver

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	nri "github.com/containerd/nri/pkg/api"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/test/drivertest"
)

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
		adjust, _, err := w.CreateContainer(t.Context(), pod, &nri.Container{Hooks: &nri.Hooks{CreateRuntime: []*nri.Hook{w.cdi.ContainerGate([]string{"a-uid"}, nil)}}})
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
		if err := w.preparer.unprepare(t.Context(), "a-uid"); err != nil {
			t.Fatal(err)
		}
		drivertest.Same(t, "records after the claim", 0, len(w.store.All()))
	})
}

// TestSandboxOfAnEarlierAnnotation makes a sandbox of the pod as the kubelet saw it before an edit. It gets the networks
// of the edit before its containers start.
func TestSandboxOfAnEarlierAnnotation(t *testing.T) {
	inEditWorld(t, func(t *testing.T, w *editWorld) {
		pod := w.run("web", "s", "blue,blue")
		w.edit("web", "blue,blue,red")
		if err := w.StopPodSandbox(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		pod = with(asking("web", "blue,blue"), func(p *nri.PodSandbox) { p.Id = "s2"; p.Linux.Namespaces[0].Path = "/run/netns/s2" })
		if err := w.RunPodSandbox(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		for _, r := range w.store.ForPod("web-uid") {
			if !checkpoint.InSandbox("s2")(r) {
				t.Errorf("network %s is not the new sandbox's: phase %s", r.Attachment.Network, r.Phase)
			}
		}
		drivertest.Same(t, "networks", 3, len(w.store.ForPod("web-uid")))
		w.see("web")
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

// TestFailuresOfTheLatestEditAreKept edits a pod's annotation again and again, each time with other networks that do not
// exist. The driver keeps the failures of the latest edit only, and has one event for each.
func TestFailuresOfTheLatestEditAreKept(t *testing.T) {
	inEditWorld(t, func(t *testing.T, w *editWorld) {
		w.run("solo", "s", "blue")
		eventsOf(t, w.Driver)
		for i := range 8 {
			w.edit("solo", fmt.Sprintf("blue,absent-%d@net2,gone-%d@net3", i, i))
			after(time.Minute) // for several tries
			failed := slices.DeleteFunc(w.eventReasons(), func(r string) bool { return r != reason.EventFailedAddingInterface })
			drivertest.Same(t, "events", 2, len(failed))
		}
		drivertest.Same(t, "failures kept", 2, len(w.Driver.edits.failures.byPod["solo-uid"]))
		w.edit("solo", "blue,gone-7@net3")
		drivertest.Same(t, "failures kept of a shorter edit", 1, len(w.Driver.edits.failures.byPod["solo-uid"]))
		w.edit("solo", "blue")
		w.edit("solo", "blue,red@net2")
		drivertest.Same(t, "failures kept after a success", 0, len(w.Driver.edits.failures.byPod["solo-uid"]))
	})
}

// TestNetworkOfAClaimThatDoesNotComeBack checks that containers start while the network of a claim cannot
// be attached again, also those that are never restarted.
func TestNetworkOfAClaimThatDoesNotComeBack(t *testing.T) {
	for _, restart := range []corev1.RestartPolicy{corev1.RestartPolicyAlways, corev1.RestartPolicyNever} {
		inEditWorld(t, func(t *testing.T, w *editWorld) {
			w.restart = restart
			pod := w.run("web", "s", "blue,blue")
			w.edit("web", "blue")
			w.k.Fail("ADD net2", drivertest.Final("no such VLAN"))
			w.edit("web", "blue,blue")
			w.has("web", "s", "blue@net1")
			w.admitted(pod)
			w.k.Fail("ADD net2", nil)
			after(longestEditPause)
			w.see("web")
			w.has("web", "s", "blue@net1", "blue@net2")
			w.admitted(pod)
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
		{name: "the policy refuses", annotation: "blue,red", change: func(w *editWorld) { w.policies.node = RefuseUnclaimed }, event: reason.EventFailedAddingInterface, code: reason.NoClaim},
		{name: "the policy leaves it to others", annotation: "blue,red", change: func(w *editWorld) { w.policies.node = AllowUnclaimed }, event: reason.EventFailedAddingInterface, code: reason.NoClaim},
		{name: "the pod is exempt", annotation: "blue,red", change: func(w *editWorld) { w.owner.Exempt = []string{"default/solo"} }},
		{name: "the node is not nadra's", annotation: "blue,red", change: func(w *editWorld) { w.owner.Ownership = byLabel }},
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
				case len(got) != 1 || tt.event == "" || !strings.HasPrefix(got[0], "Warning "+tt.event+" ") || reason.In(got[0]) != tt.code:
					t.Errorf("events %q, want %s with %s", got, tt.event, tt.code)
				}
			})
		})
	}
}
