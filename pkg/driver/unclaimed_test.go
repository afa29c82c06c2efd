package driver

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	nri "github.com/containerd/nri/pkg/api"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/operations"
	"github.com/nadra-dev/nadra/pkg/driver/internal/podedit"
	"github.com/nadra-dev/nadra/test/drivertest"
)

// inUnclaimedWorld runs a test on a node of nadra's that attaches pods without a claim. Its driver
// knows pod solo, which restarts its containers.
func inUnclaimedWorld(t *testing.T, test func(*testing.T, *world)) {
	t.Helper()
	inUnclaimedWorldWith(t, nil, test)
}

// inUnclaimedWorldWith does the same with a change of the environment.
func inUnclaimedWorldWith(t *testing.T, env func(*environment), test func(*testing.T, *world)) {
	t.Helper()
	inWorldWith(t, setup{cfg: func(c *Config) { c.Ownership = Ownership{Unclaimed: AttachUnclaimed} }, env: env}, blueConf, func(t *testing.T, w *world) {
		w.knows(t, "solo-uid", nil)
		test(t, w)
	})
}

// knows makes the driver know pod solo.
func (w *world) knows(t *testing.T, uid types.UID, annotations map[string]string) {
	t.Helper()
	pod := &knownPod{restart: corev1.RestartPolicyAlways}
	pod.Namespace, pod.Name, pod.UID, pod.Annotations = "default", "solo", uid, annotations
	if err := w.Driver.watch.informer.GetStore().Add(pod); err != nil {
		t.Fatal(err)
	}
}

// phasesOfSolo returns the phases of what pod solo has without a claim.
func (w *world) phasesOfSolo() map[string]checkpoint.Phase {
	out := map[string]checkpoint.Phase{}
	for _, r := range w.store.ForClaim("solo-uid") {
		out[r.Attachment.Interface] = r.Phase
	}
	return out
}

// TestPodWithoutAClaimIsAttached follows such a pod from its sandbox to its end.
func TestPodWithoutAClaimIsAttached(t *testing.T) {
	inUnclaimedWorld(t, func(t *testing.T, w *world) {
		pod := asking("solo", "blue,blue@second")
		if err := w.RunPodSandbox(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		drivertest.Same(t, "phases", map[string]checkpoint.Phase{"net1": checkpoint.Attached, "second": checkpoint.Attached}, w.phasesOfSolo())
		drivertest.Same(t, "metric", map[string]int{"Prepared": 0, "Attaching": 0, "Attached": 2}, w.Driver.metricsState().Unclaimed)
		synctest.Wait()
		var without []string
		for _, e := range eventsOf(t, w.Driver) {
			if strings.Contains(e, reason.EventAttachedWithoutClaim) {
				without = append(without, e)
			}
		}
		if len(without) != 1 {
			t.Fatalf("events: %q", without)
		}
		drivertest.WantReasonIn(t, without[0], "", "default/blue and default/blue", "node node-1", reason.LateAnnotation)
		adjust, _, err := w.CreateContainer(t.Context(), pod, &nri.Container{})
		if err != nil {
			t.Fatal(err)
		}
		hooks := adjust.GetHooks().GetCreateRuntime()
		if len(hooks) != 1 || !slices.Contains(hooks[0].GetArgs(), "-claims=solo-uid") {
			t.Errorf("the container has these hooks: %v", hooks)
		}
		if err := w.StopPodSandbox(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		drivertest.Same(t, "phases at the end", map[string]checkpoint.Phase{}, w.phasesOfSolo())
		drivertest.Same(t, "metric at the end", map[string]int{"Prepared": 0, "Attaching": 0, "Attached": 0}, w.Driver.metricsState().Unclaimed)
		drivertest.Same(t, "interfaces", map[string]bool{}, w.k.Has)
		if _, err := os.Stat(w.store.Dir() + "/solo-uid.json"); !os.IsNotExist(err) {
			t.Errorf("the file of its records: %v", err)
		}
		drivertest.Same(t, "phases of the other pod", bothPrepared, w.phases())
	})
}

// TestContainersOfPodsWithClaimsGetNoSecondGate checks that a CDI device alone brings their gate.
func TestContainersOfPodsWithClaimsGetNoSecondGate(t *testing.T) {
	inUnclaimedWorld(t, func(t *testing.T, w *world) {
		if err := w.RunPodSandbox(t.Context(), podNo(1)); err != nil {
			t.Fatal(err)
		}
		adjust, _, err := w.CreateContainer(t.Context(), podNo(1), regular(w.Driver, drivertest.Web.UID))
		if err != nil || adjust != nil {
			t.Errorf("%v, %v", adjust, err)
		}
	})
}

// TestUnclaimedPodIsHeld checks that the gate holds the containers of a pod that attaches slowly, and
// that they are refused after the gate's time, until the sandbox ends.
func TestUnclaimedPodIsHeld(t *testing.T) {
	inUnclaimedWorld(t, func(t *testing.T, w *world) {
		pod := asking("solo", "blue")
		w.k.Slow = func(context.Context) error { time.Sleep(3 * time.Second); return drivertest.Final("no such VLAN") }
		if err := w.RunPodSandbox(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		adjust, _, err := w.CreateContainer(t.Context(), pod, &nri.Container{})
		if err != nil || len(adjust.GetHooks().GetCreateRuntime()) != 1 {
			t.Errorf("while it is attached: %v, %v", adjust, err)
		}
		time.Sleep(operations.AttachTime + 3*time.Second)
		synctest.Wait()
		_, _, err = w.CreateContainer(t.Context(), pod, &nri.Container{})
		drivertest.WantReason(t, err, reason.AttachTimeout, "pod default/solo", "no such VLAN")
		w.sweeper.sweep(t.Context(), true)
		drivertest.Same(t, "phases while the sandbox exists", map[string]checkpoint.Phase{"net1": checkpoint.Prepared}, w.phasesOfSolo())
		if err := w.RemovePodSandbox(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		drivertest.Same(t, "phases after it", map[string]checkpoint.Phase{}, w.phasesOfSolo())
	})
}

// TestNewSandboxOfAnUnclaimedPod checks that what an earlier sandbox has left is deleted first, and
// that the annotation is read again.
func TestNewSandboxOfAnUnclaimedPod(t *testing.T) {
	inUnclaimedWorld(t, func(t *testing.T, w *world) {
		if err := w.RunPodSandbox(t.Context(), asking("solo", "blue")); err != nil {
			t.Fatal(err)
		}
		second := with(asking("solo", "blue@other"), func(p *nri.PodSandbox) { p.Id = "s2"; p.Linux.Namespaces[0].Path = "/run/netns/y" })
		if err := w.RunPodSandbox(t.Context(), second); err != nil {
			t.Fatal(err)
		}
		drivertest.Same(t, "plugins", []string{
			`ADD net1 in s netns "/run/netns/x"`, `DEL net1 in s netns "/run/netns/x"`, `ADD other in s2 netns "/run/netns/y"`,
		}, w.k.Calls)
		if err := w.RemovePodSandbox(t.Context(), asking("solo", "blue")); err != nil { // the first one
			t.Fatal(err)
		}
		drivertest.Same(t, "phases", map[string]checkpoint.Phase{"other": checkpoint.Attached}, w.phasesOfSolo())
	})
}

// TestSweepEndsUnclaimedPods checks that the sweep deletes and forgets what nobody has reported.
func TestSweepEndsUnclaimedPods(t *testing.T) {
	inUnclaimedWorld(t, func(t *testing.T, w *world) {
		pod := asking("solo", "blue")
		if err := w.RunPodSandbox(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		w.k.End(sandboxOf(pod, nowhere))
		w.sweeper.sweep(t.Context(), true)
		drivertest.Same(t, "plugins", []string{`ADD net1 in s netns "/run/netns/x"`, `DEL net1 in s netns ""`}, w.k.Calls)
		drivertest.Same(t, "phases", map[string]checkpoint.Phase{}, w.phasesOfSolo())
	})
}

// TestUnclaimedPodCannotBePrepared checks that the sandbox is refused with the reason.
func TestUnclaimedPodCannotBePrepared(t *testing.T) {
	inUnclaimedWorld(t, func(t *testing.T, w *world) {
		err := w.RunPodSandbox(t.Context(), asking("solo", "absent"))
		drivertest.WantReason(t, err, reason.NetworkNotFound, "pod default/solo", "default/absent")
		drivertest.Same(t, "phases", map[string]checkpoint.Phase{}, w.phasesOfSolo())
		got := eventsOf(t, w.Driver)
		if len(got) != 1 {
			t.Fatalf("events: %q", got)
		}
		drivertest.WantReasonIn(t, got[0], reason.NetworkNotFound, reason.EventFailedPrepareNetwork, "default/absent")
	})
}

// TestFailedPodThatIsGone checks that a pod that could not be prepared does not count as waiting once it is gone.
func TestFailedPodThatIsGone(t *testing.T) {
	solo := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "solo", UID: "solo-uid"}}
	for name, gone := range map[string]func(*testing.T, *world){
		"it is deleted": func(_ *testing.T, w *world) {
			w.jobs.podDeleted(attachment.PodRef{Namespace: "default", Name: "solo", UID: "solo-uid"})
		},
		"a sweep finds out": func(t *testing.T, w *world) {
			t.Helper()
			if err := w.Driver.watch.informer.GetStore().Delete(&knownPod{PartialObjectMetadata: *solo}); err != nil {
				t.Fatal(err)
			}
			w.sweeper.sweep(t.Context(), false)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inUnclaimedWorld(t, func(t *testing.T, w *world) {
				watchingPods(t, w.Driver, corev1.RestartPolicyAlways, solo)
				failed := func() int { return w.Driver.metricsState().Blocked[podFailed] }
				drivertest.WantReason(t, w.RunPodSandbox(t.Context(), asking("solo", "absent")), reason.NetworkNotFound)
				drivertest.Same(t, "failed pods", 1, failed())
				gone(t, w)
				drivertest.Same(t, "failed pods after it is gone", 0, failed())
			})
		})
	}
}

// TestDevicesDoNotDecideAboutAnAnnotation checks that the container of a pod whose claim has only a device
// waits for the networks of the pod's annotation, also after the driver has connected to the runtime again.
func TestDevicesDoNotDecideAboutAnAnnotation(t *testing.T) {
	inUnclaimedWorld(t, func(t *testing.T, w *world) {
		pod := asking("solo", "absent")
		if err := w.store.Put([]attachment.Prepared{{
			Claim: attachment.ClaimRef{Namespace: "default", Name: "device", UID: "device-uid"}, Request: "device", Pool: "pool", Device: "0",
			Pod: sandboxOf(pod, nowhere).Pod, DeviceOnly: true, Hardware: &attachment.Hardware{},
		}}); err != nil {
			t.Fatal(err)
		}
		w.knows(t, "solo-uid", pod.Annotations)
		drivertest.WantReason(t, w.RunPodSandbox(t.Context(), pod), reason.NetworkNotFound)
		if _, err := w.Synchronize(t.Context(), []*nri.PodSandbox{pod}, nil); err != nil {
			t.Fatal(err)
		}
		refused := func(when string) {
			t.Helper()
			if _, _, err := w.CreateContainer(t.Context(), pod, &nri.Container{}); err == nil {
				t.Errorf("%s: a container was created without the networks of the annotation", when)
			}
		}
		refused("after a connection")
		w.Driver.edits.started(liveSandbox{Sandbox: sandboxOf(pod, nowhere)}) // as on a node of Multus
		w.Driver.unclaimed.reconsider()
		refused("after a change of the owner")
	})
}

// TestLateAttachSparesServedPods checks which running pods the driver attaches after it was away:
// those that nobody else has served.
func TestLateAttachSparesServedPods(t *testing.T) {
	status := func(network string) map[string]string {
		return map[string]string{nadv1.NetworkStatusAnnot: `[{"name":"cbr0","interface":"eth0"},{"name":"` + network + `","interface":"x"}]`}
	}
	for _, tt := range []struct {
		name     string
		pod      types.UID
		status   map[string]string
		deleting bool
		links    bool
		attached bool
	}{
		{name: "nobody has", pod: "solo-uid", attached: true},
		{name: "network-status is that of an earlier sandbox", pod: "solo-uid", status: status("default/blue"), attached: true},
		{name: "the interface is there", pod: "solo-uid", links: true},
		{name: "the pod is another", pod: "b-uid"},
		{name: "the pod is being deleted", pod: "solo-uid", deleting: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inUnclaimedWorld(t, func(t *testing.T, w *world) {
				annotations := map[string]string{attachment.NetworksAnnotation: "blue"}
				maps.Copy(annotations, tt.status)
				w.knows(t, tt.pod, annotations)
				if tt.deleting {
					obj, _, _ := w.Driver.watch.informer.GetStore().GetByKey("default/solo")
					obj.(*knownPod).DeletionTimestamp = &metav1.Time{Time: time.Now()}
				}
				pod := asking("solo", "blue")
				sandbox := sandboxOf(pod, nowhere)
				if tt.links {
					w.k.Links = []string{"net1"}
				}
				if pending, err := w.unclaimed.consider(liveSandbox{Sandbox: sandbox, late: true}); err != nil || !pending {
					t.Fatal(pending, err)
				}
				w.unclaimed.attachPending()
				synctest.Wait()
				drivertest.Same(t, "attached", tt.attached, len(w.phasesOfSolo()) == 1)
				drivertest.Same(t, "plugins ran", tt.attached, w.k.CallCount() > 0)
			})
		})
	}
}

// TestStaticPodsDoNotWaitForTheirStatus checks that the containers of a static pod may start
// without the API server, and that its mirror pod counts as the pod.
func TestStaticPodsDoNotWaitForTheirStatus(t *testing.T) {
	inWorldWith(t, setup{heldStatus: true, cfg: func(c *Config) { c.Ownership.Unclaimed = AttachUnclaimed }}, blueConf, func(t *testing.T, w *world) {
		pod := with(asking("solo", "blue"), func(p *nri.PodSandbox) { p.Annotations[configSource] = "file" })
		if err := w.RunPodSandbox(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		if _, _, err := w.CreateContainer(t.Context(), pod, &nri.Container{}); err != nil {
			t.Errorf("without the API server: %v", err)
		}
		w.knows(t, "mirror-uid", map[string]string{corev1.MirrorPodAnnotationKey: "solo-uid"})
		if m := w.Driver.watch.Find(sandboxOf(pod, nowhere).Pod); m == nil || m.UID != "mirror-uid" {
			t.Errorf("the mirror pod: %v", m)
		}
	})
}

// TestNamespacesHavePolicies checks that the label of a namespace goes before the node's policy, and that pods which
// get no claims are attached unless that label says otherwise.
func TestNamespacesHavePolicies(t *testing.T) {
	labels := map[string]map[string]string{
		"attach": {v1alpha1.UnclaimedLabel: "attach"}, "refuse": {v1alpha1.UnclaimedLabel: "refuse"},
		"allow": {v1alpha1.UnclaimedLabel: "allow"}, "odd": {v1alpha1.UnclaimedLabel: "maybe"},
		"claimless":  {v1alpha1.ClaimsLabel: v1alpha1.ClaimsNever},
		"contradict": {v1alpha1.ClaimsLabel: v1alpha1.ClaimsNever, v1alpha1.UnclaimedLabel: "refuse"},
	}
	for _, tt := range []struct {
		namespace  string
		node, want UnclaimedPolicy
	}{
		{"attach", RefuseUnclaimed, AttachUnclaimed},
		{"refuse", AttachUnclaimed, RefuseUnclaimed},
		{"allow", RefuseUnclaimed, AllowUnclaimed},
		{"odd", RefuseUnclaimed, RefuseUnclaimed},
		{"unlabelled", AttachUnclaimed, AttachUnclaimed},
		{"unlabelled", "", AllowUnclaimed},
		{"claimless", "", AttachUnclaimed},
		{"claimless", RefuseUnclaimed, AttachUnclaimed},
		{"contradict", AttachUnclaimed, RefuseUnclaimed},
		{"contradict", AllowUnclaimed, RefuseUnclaimed},
	} {
		var objects []runtime.Object
		for name, l := range labels {
			objects = append(objects, &metav1.PartialObjectMetadata{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: name, Labels: l},
			})
		}
		p := newNamespacePolicies(nodeClient(t, objects...), tt.node)
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		changed := make(chan bool, len(labels))
		running.Go(func() { _ = p.run(ctx, func() { changed <- true }) })
		p.wait(ctx)
		<-changed
		drivertest.Same(t, tt.namespace, tt.want, p.of(tt.namespace))
		stop()
		running.Wait()
	}
}

// TestPendingPodAfterTheNodeIsGivenBack checks that no container of a pod that nadra was to attach starts without its
// networks when the node is Multus' before they could be prepared, also after the runtime has connected again.
func TestPendingPodAfterTheNodeIsGivenBack(t *testing.T) {
	for name, connected := range map[string]bool{"the runtime stays connected": false, "the runtime connects again": true} {
		t.Run(name, func(t *testing.T) {
			var repaired atomic.Bool
			failing := setup{
				cfg: func(c *Config) { c.Ownership = byLabel; c.Ownership.Unclaimed = AttachUnclaimed },
				env: func(e *environment) {
					e.pluginDevices = func(context.Context, attachment.PodRef) (map[string][]string, error) {
						time.Sleep(2 * time.Second) // longer than the hook waits
						if !repaired.Load() {
							return nil, errors.New("the kubelet does not answer")
						}
						return map[string][]string{"example.com/vf": {"0000:3b:02.0"}}, nil
					}
				},
			}
			inWorldWith(t, failing, blueConf, func(t *testing.T, w *world) {
				if err := w.nads.(nadCache).Add(drawing("example.com/vf", nad("vf", redConf))); err != nil {
					t.Fatal(err)
				}
				refresh(t, w.Driver)
				pod := asking("solo", "vf")
				w.knows(t, "solo-uid", pod.Annotations)
				w.owner.returning.Store(true)
				if err := w.hooks.RunPodSandbox(t.Context(), pod); err != nil {
					t.Fatal(err)
				}
				after(time.Minute)
				w.owner.returning.Store(false)
				w.unclaimed.reconsider()
				if connected {
					if _, err := w.Synchronize(t.Context(), []*nri.PodSandbox{pod}, nil); err != nil {
						t.Fatal(err)
					}
				}
				after(time.Minute)
				_, _, err := w.CreateContainer(t.Context(), pod, &nri.Container{})
				drivertest.WantReason(t, err, reason.AttachRunning)
				repaired.Store(true)
				after(time.Minute)
				w.unclaimed.attachPending()
				after(time.Minute)
				drivertest.Same(t, "phases", map[string]checkpoint.Phase{"net1": checkpoint.Attached}, w.phasesOfSolo())
			})
		})
	}
}

// TestPolicyComesLate checks that a pod whose sandbox has begun before its namespace's policy was known gets its networks.
func TestPolicyComesLate(t *testing.T) {
	allows := setup{cfg: func(c *Config) { c.Ownership = Ownership{Unclaimed: AllowUnclaimed} }}
	inWorldWith(t, allows, blueConf, func(t *testing.T, w *world) {
		pod := asking("solo", "blue")
		w.knows(t, "solo-uid", pod.Annotations)
		if err := w.RunPodSandbox(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		drivertest.Same(t, "phases before", map[string]checkpoint.Phase{}, w.phasesOfSolo())
		namespace := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: pod.Namespace}}
		if err := w.Driver.policies.claimless.GetStore().Add(namespace); err != nil {
			t.Fatal(err)
		}
		w.Driver.unclaimed.reconsider()
		synctest.Wait()
		drivertest.Same(t, "phases", map[string]checkpoint.Phase{"net1": checkpoint.Attached}, w.phasesOfSolo())
	})
}

// TestAnnotationStaysInItsNamespaces checks that, with namespace isolation, neither the annotation of a pod without a
// claim, nor an edit of it, nor that of a pod with an extended resource attaches a network of a namespace that is
// neither the pod's nor global.
func TestAnnotationStaysInItsNamespaces(t *testing.T) {
	isolated := setup{cfg: func(c *Config) {
		c.Ownership = Ownership{Unclaimed: AttachUnclaimed}
		c.Isolation = attachment.Isolation{On: true, Global: []string{"shared"}}
	}}
	inWorldWith(t, isolated, blueConf, func(t *testing.T, w *world) {
		for _, source := range []string{sourceAPI, "file"} {
			pod := with(asking("tenant", "default/blue"), func(p *nri.PodSandbox) {
				p.Namespace, p.Annotations[configSource] = "dev", source
			})
			drivertest.WantReason(t, w.RunPodSandbox(t.Context(), pod), reason.NamespaceIsolation, "default/blue")
			_, _, err := w.CreateContainer(t.Context(), pod, &nri.Container{})
			drivertest.WantReason(t, err, reason.NamespaceIsolation)
		}
		_, err := w.planner.planAdded(attachment.PodRef{Namespace: "dev", Name: "tenant", UID: "tenant-uid"},
			podedit.Addition{Selection: attachment.Selection{Network: attachment.NetworkRef{Namespace: "default", Name: "blue"}}})
		drivertest.WantReason(t, err, reason.NamespaceIsolation, "default/blue")
		see(t, w.Driver, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "dev", Name: "extended", UID: "extended-uid", Annotations: map[string]string{attachment.NetworksAnnotation: "default/blue"},
		}})
		_, err = w.planner.annotated(t.Context(), attachment.PodRef{Namespace: "dev", Name: "extended", UID: "extended-uid"})
		drivertest.WantReason(t, err, reason.NamespaceIsolation, "default/blue")
		drivertest.Same(t, "plugins", nil, w.k.Calls)
	})
}

// TestUnclaimedPodWaitsForThePendingDELOfItsDevice lets a device plugin give a pod without a claim the device of a pod
// that is gone, and whose DEL is pending: it would take a device for which a DEL may still run.
func TestUnclaimedPodWaitsForThePendingDELOfItsDevice(t *testing.T) {
	inUnclaimedWorldWith(t, func(e *environment) {
		e.pluginDevices = func(context.Context, attachment.PodRef) (map[string][]string, error) {
			return map[string][]string{"example.com/vf": {"0000:3b:02.0"}}, nil
		}
	}, func(t *testing.T, w *world) {
		if err := w.nads.(nadCache).Add(drawing("example.com/vf", nad("vf", redConf))); err != nil {
			t.Fatal(err)
		}
		refresh(t, w.Driver)
		first := with(asking("first", "vf"), func(p *nri.PodSandbox) { p.Id = "f"; p.Linux.Namespaces[0].Path = "/run/netns/f" })
		if err := w.RunPodSandbox(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		next := asking("solo", "vf")
		key := w.store.ForClaim("first-uid")[0].Key()
		if err := errors.Join(w.store.DeferDEL(key, errors.New("busy")), w.store.DeleteClaim("first-uid", "first-uid")); err != nil {
			t.Fatal(err)
		}
		drivertest.WantReason(t, w.RunPodSandbox(t.Context(), next), reason.DeviceInUse, "0000:3b:02.0", "default/first")
		drivertest.Same(t, "records while the DEL is pending", 0, len(w.phasesOfSolo()))

		if err := w.store.ResolveDEL(w.store.PendingDELs()[0]); err != nil {
			t.Fatal(err)
		}
		if err := w.RunPodSandbox(t.Context(), next); err != nil {
			t.Fatal(err)
		}
		drivertest.Same(t, "phases at the end", map[string]checkpoint.Phase{"net1": checkpoint.Attached}, w.phasesOfSolo())
	})
}
