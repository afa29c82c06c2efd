package driver

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	nri "github.com/containerd/nri/pkg/api"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/test/bounded"
	"github.com/nadra-dev/nadra/test/drivertest"
)

// referringTo returns a pod that refers to claims by name, with a container for each list of them.
func referringTo(name string, claims []string, containers ...[]string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name + "-uid")}}
	for _, c := range claims {
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, corev1.PodResourceClaim{Name: "of-" + c, ResourceClaimName: &c})
	}
	for _, of := range containers {
		var c corev1.Container
		for _, claim := range of {
			c.Resources.Claims = append(c.Resources.Claims, corev1.ResourceClaim{Name: "of-" + claim})
		}
		p.Spec.Containers = append(p.Spec.Containers, c)
	}
	return p
}

// reserve returns a claim as it is reserved for pods.
func reserve(c *resourceapi.ResourceClaim, pods ...string) *resourceapi.ResourceClaim {
	c.Status.ReservedFor = nil
	for _, pod := range pods {
		c.Status.ReservedFor = append(c.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: pod, UID: types.UID(pod + "-uid")})
	}
	return c
}

// see makes the watch of a driver know a pod.
func see(t *testing.T, d *Driver, pod *corev1.Pod) {
	t.Helper()
	slim, err := slimPod(pod)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.watch.informer.GetStore().Add(slim); err != nil {
		t.Fatal(err)
	}
}

// inMove runs a test in which pod web was attached by claim a and was then deleted by force. The API server has
// these claims, and the pod next.
func inMove(t *testing.T, next *corev1.Pod, test func(*testing.T, *world), claims ...*resourceapi.ResourceClaim) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		kube := fake.NewClientset(next)
		d := newDriverWith(t, setup{clients: func(c *Clients) { c.Kube = kube }, checkContainers: true}, nad("blue", blueConf))
		w := &world{Driver: d, store: d.store, k: kernelOf(d), hooks: newHooks(d, time.Second)}
		see(t, d, referringTo("web", []string{"a"}, []string{"a"}))
		if err := prepare(t, d, claim("a", "blue"))["a-uid"].Err; err != nil {
			t.Fatal(err)
		}
		if err := w.RunPodSandbox(t.Context(), podNo(1)); err != nil {
			t.Fatal(err)
		}
		drivertest.Same(t, "phases", map[string]checkpoint.Phase{"net1": checkpoint.Attached}, w.phases())
		for _, c := range claims {
			if _, err := kube.ResourceV1().ResourceClaims("default").Create(t.Context(), c, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.watch.informer.GetStore().Replace(nil, ""); err != nil {
			t.Fatal(err)
		}
		see(t, d, next)
		eventsOf(t, d)
		w.k.Calls = nil
		test(t, w)
		d.operations.Cancel(errDriverStop)
		d.background.Cancel(errDriverStop)
		d.operations.Wait()
		d.background.Wait()
	})
}

// sandboxOfNext returns the sandbox of pod next as the runtime describes it.
func sandboxOfNext() *nri.PodSandbox {
	s := podNo(2)
	s.Name, s.Uid = "next", "next-uid"
	return s
}

// createNext creates a container of pod next with the gate of these claims, and returns the claims for which the
// driver adds one.
func (w *world) createNext(t *testing.T, claims ...string) (added []*nri.Hook, err error) {
	t.Helper()
	container := &nri.Container{Hooks: &nri.Hooks{}}
	for _, c := range claims {
		container.Hooks.CreateRuntime = append(container.Hooks.CreateRuntime, w.cdi.ContainerGate([]string{c + "-uid"}, w.store.ForClaim(c+"-uid")))
	}
	adjust, _, err := w.CreateContainer(t.Context(), sandboxOfNext(), container)
	synctest.Wait()
	return adjust.GetHooks().GetCreateRuntime(), err
}

var movedTo = []string{`DEL net1 in sandbox-1 netns ""`, `ADD net1 in sandbox-2 netns "/run/netns/2"`}

// TestClaimMovesToTheNextPod passes a claim to the next pod without a call of the kubelet, which makes none while
// both pods refer to it. The next pod waits for the end of the first one's sandbox, whose address it would get
// twice, and then has its networks.
func TestClaimMovesToTheNextPod(t *testing.T) {
	inMove(t, referringTo("next", []string{"a"}, []string{"a"}), func(t *testing.T, w *world) {
		if err := w.RunPodSandbox(t.Context(), sandboxOfNext()); err != nil {
			t.Error(err)
		}
		_, err := w.createNext(t, "a")
		drivertest.WantReason(t, err, reason.AttachRunning, "pod default/next")
		after(inUseWait)
		_, err = w.createNext(t, "a")
		drivertest.WantReason(t, err, reason.DeviceInUse, "pod default/next", "claim default/a", "pod default/web", "sandbox sandbox-1")
		events := eventsOf(t, w.Driver)
		drivertest.WantReasonIn(t, events[len(events)-1], reason.DeviceInUse, reason.EventFailedPrepareNetwork, "pod default/web")
		drivertest.Same(t, "plugins while the first sandbox runs", nil, w.k.Calls)

		w.k.End(drivertest.SandboxNo(1))
		if err := w.RunPodSandbox(t.Context(), sandboxOfNext()); err != nil {
			t.Fatal(err)
		}
		after(inUseWait)
		drivertest.Same(t, "plugins", movedTo, w.k.Calls)
		drivertest.Same(t, "pod", "next", w.store.ForClaim("a-uid")[0].Pod.Name)
		if _, err := w.createNext(t, "a"); err != nil {
			t.Error(err)
		}
		if gate := devicesIn(t, w.cdi.SpecDir)["net.nadra.dev/gate=a-uid.0"]; gate == "" {
			t.Error("the kubelet's device is gone")
		}
		for range 2 { // the kubelet may mean the first pod
			drivertest.WantReason(t, w.preparer.unprepare(t.Context(), "a-uid"), reason.DELUnfinished, "sandbox-2")
			after(2 * refuseRunning)
		}
	}, reserve(claim("a", "blue"), "next"))
}

// TestClaimMovesWhileTheDriverIsAway makes the next pod's sandbox without a hook. Its container brings the gate of
// the claim, and is not created before the claim is attached: at the first request if the watch has seen the pod.
func TestClaimMovesWhileTheDriverIsAway(t *testing.T) {
	for name, seen := range map[string]bool{"seen": true, "not seen": false} {
		t.Run(name, func(t *testing.T) {
			inMove(t, referringTo("next", []string{"a"}, []string{"a"}), func(t *testing.T, w *world) {
				if !seen {
					if err := w.watch.informer.GetStore().Replace(nil, ""); err != nil {
						t.Fatal(err)
					}
				}
				w.k.End(drivertest.SandboxNo(1))
				_, err := w.createNext(t, "a")
				if !seen {
					drivertest.WantReason(t, err, reason.AttachNotBegun, "pod default/next")
					after(3 * podSeenWait)
					_, err = w.createNext(t, "a")
				}
				if err != nil {
					t.Error(err)
				}
				drivertest.Same(t, "plugins", movedTo, w.k.Calls)
			}, reserve(claim("a", "blue"), "next"))
		})
	}
}

// TestContainerWithoutTheMovedClaim creates a container that does not refer to the claim, and so brings no gate.
func TestContainerWithoutTheMovedClaim(t *testing.T) {
	inMove(t, referringTo("next", []string{"a"}, []string{"a"}, nil), func(t *testing.T, w *world) {
		if _, err := w.createNext(t); err == nil {
			t.Error("it is created without the pod's networks")
		}
		w.k.End(drivertest.SandboxNo(1))
		after(inUseWait)
		_, err := w.createNext(t)
		drivertest.WantReason(t, err, reason.ContainerWithoutClaim, "pod default/next")
	}, reserve(claim("a", "blue"), "next"))
}

// TestUnseenPodMayHaveTheMovedClaim creates a container without a gate in a pod that the watch has not seen, while
// a deleted pod's claim may be its.
func TestUnseenPodMayHaveTheMovedClaim(t *testing.T) {
	inMove(t, referringTo("next", []string{"a"}, []string{"a"}), func(t *testing.T, w *world) {
		first := referringTo("web", []string{"a"}, []string{"a"})
		first.DeletionTimestamp = &metav1.Time{}
		if err := w.watch.informer.GetStore().Replace(nil, ""); err != nil {
			t.Fatal(err)
		}
		see(t, w.Driver, first)
		_, err := w.createNext(t)
		drivertest.WantReason(t, err, reason.PodNotRead, "pod default/next")
		drivertest.WantReason(t, w.RunPodSandbox(t.Context(), sandboxOfNext()), reason.PodNotRead, "pod default/next")
		see(t, w.Driver, referringTo("next", nil, nil))
		if _, err := w.createNext(t); err != nil {
			t.Errorf("a pod without claims: %v", err)
		}
	})
}

// TestMovedClaimBesideANewOne passes a claim to a pod that also has a new one, which alone the kubelet prepares. A
// container with the new one only waits for the networks of both.
func TestMovedClaimBesideANewOne(t *testing.T) {
	inMove(t, referringTo("next", []string{"a", "b"}, []string{"a", "b"}, []string{"b"}), func(t *testing.T, w *world) {
		fresh := reserve(claim("b", "blue"), "next")
		w.k.End(drivertest.SandboxNo(1))
		if err := prepare(t, w.Driver, fresh)["b-uid"].Err; err != nil {
			t.Fatal(err)
		}
		if gate := devicesIn(t, w.cdi.SpecDir)["net.nadra.dev/gate=b-uid.1"]; !strings.Contains(gate, "-claims=a-uid,b-uid ") {
			t.Errorf("the gate of claim b: %q", gate)
		}
		if err := w.RunPodSandbox(t.Context(), sandboxOfNext()); err != nil {
			t.Fatal(err)
		}
		drivertest.Same(t, "plugins", append(movedTo[:2:2], `ADD net2 in sandbox-2 netns "/run/netns/2"`), w.k.Calls)
	}, reserve(claim("a", "blue"), "next"))
}

// TestMovedClaimThatIsInUse refuses a new claim beside one whose first pod still runs: otherwise a container that
// has only the new one would start without the other's network.
func TestMovedClaimThatIsInUse(t *testing.T) {
	inMove(t, referringTo("next", []string{"a", "b"}, []string{"a", "b"}), func(t *testing.T, w *world) {
		drivertest.WantReason(t, prepare(t, w.Driver, reserve(claim("b", "blue"), "next"))["b-uid"].Err, reason.DeviceInUse, "claim default/a", "pod default/web")
		drivertest.Same(t, "records of the new claim", 0, len(w.store.ForClaim("b-uid")))
	}, reserve(claim("a", "blue"), "next"))
}

// TestMovedClaimKeepsItsDevices refuses a pod in which the claim's network has another position: the kubelet gives
// containers the CDI device of before.
func TestMovedClaimKeepsItsDevices(t *testing.T) {
	inMove(t, referringTo("next", []string{"b", "a"}, []string{"a", "b"}), func(t *testing.T, w *world) {
		w.k.End(drivertest.SandboxNo(1))
		drivertest.WantReason(t, prepare(t, w.Driver, reserve(claim("b", "blue"), "next"))["b-uid"].Err, reason.ClaimIncomplete, "claim default/a")
		drivertest.Same(t, "records of the moved claim", 1, len(w.store.ForClaim("a-uid")))
	}, reserve(claim("a", "blue"), "next"))
}

// TestSharedClaim refuses the second pod of a claim that both pods have, and leaves the first alone.
func TestSharedClaim(t *testing.T) {
	inMove(t, referringTo("next", []string{"a"}, []string{"a"}), func(t *testing.T, w *world) {
		drivertest.WantReason(t, w.RunPodSandbox(t.Context(), sandboxOfNext()), reason.ClaimShared, "web, next")
		drivertest.Same(t, "plugins", nil, w.k.Calls)
		drivertest.Same(t, "pod", "web", w.store.ForClaim("a-uid")[0].Pod.Name)
	}, reserve(claim("a", "blue"), "web", "next"))
}

// TestManyReferencesGrowth checks that hooks do no work with the product of the node's records and of the claims to which a
// pod refers, also by the names of claims that do not exist: the events of all pods wait for it.
func TestManyReferencesGrowth(t *testing.T) {
	bounded.Growth(t, 4000, func(n int) func() {
		d := newDriver(t)
		for claim := range n / 100 {
			ref := attachment.ClaimRef{Namespace: "default", Name: fmt.Sprintf("recorded-%06d", claim), UID: fmt.Sprint("c-uid-", claim)}
			prepared := make([]attachment.Prepared, 100)
			for i := range prepared {
				prepared[i] = attachment.Prepared{Claim: ref, Pod: drivertest.Web, Index: i, Request: fmt.Sprint("r-", i)}
			}
			if err := d.store.Put(prepared); err != nil {
				t.Fatal(err)
			}
		}
		var absent []string
		for i := range n {
			absent = append(absent, fmt.Sprintf("absent-%08d", i))
		}
		see(t, d, referringTo("next", absent))
		s := newHooks(d, time.Minute).liveOf(sandboxOfNext())
		return func() {
			if moved, err := d.preparer.hasMoved(s, nil); moved || err != nil {
				t.Errorf("moved: %t, %v", moved, err)
			}
		}
	})
}

// TestPodOfManyClaims checks that the driver reads a pod in time that does not grow with the square of its claims.
func TestPodOfManyClaims(t *testing.T) {
	bounded.Growth(t, 2000, func(n int) func() {
		pod := &corev1.Pod{}
		for i := range n {
			name, claim := fmt.Sprint("of-", i), fmt.Sprint("claim-", i)
			pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: name, ResourceClaimTemplateName: &name})
			pod.Status.ResourceClaimStatuses = append(pod.Status.ResourceClaimStatuses, corev1.PodResourceClaimStatus{Name: name, ResourceClaimName: &claim})
		}
		return func() {
			references := referencesOf(pod)
			for i := range n {
				if at := references.position(fmt.Sprint("claim-", i)); at != i {
					t.Fatalf("position of claim %d: %d", i, at)
				}
			}
		}
	})
}
