package driver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	nri "github.com/containerd/nri/pkg/api"
	corev1 "k8s.io/api/core/v1"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/test/drivertest"
)

func TestCreateContainerRefusesAnUnattachedPod(t *testing.T) {
	d := newDriver(t, nad("blue", blueConf))
	h := newHooks(d, 0)
	create := func(sandbox string) error {
		_, _, err := h.CreateContainer(t.Context(), &nri.PodSandbox{Id: sandbox, Uid: "web-uid", Namespace: "default", Name: "web"}, nil)
		return err
	}
	if err := create("sandbox-1"); err != nil {
		t.Errorf("a pod without claims: %v", err)
	}
	prepare(t, d, claim("a", "blue"))
	drivertest.WantError(t, create("sandbox-1"), "pod default/web ", "default/blue (net1)")
	if err := attachOnce(t, d, drivertest.SandboxNo(1)); err != nil {
		t.Fatal(err)
	}
	if err := create("sandbox-1"); err != nil {
		t.Errorf("attached: %v", err)
	}
	if err := create("sandbox-2"); err == nil {
		t.Error("attached in another sandbox only: accepted")
	}
}

// TestCreateContainerAttachesWhatNoHookHasSeen checks that CreateContainer attaches a sandbox of which no
// hook has heard, and that the first request succeeds unless that takes long.
func TestCreateContainerAttachesWhatNoHookHasSeen(t *testing.T) {
	for name, took := range map[string]time.Duration{"quickly": quickTry / 2, "slowly": 3 * time.Second} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.k.Slow = func(ctx context.Context) error { time.Sleep(took / 2); return ctx.Err() } // each of two networks
				err := w.create(t, 1)
				if name == "slowly" { // a pod of which nothing is known may restart no container
					drivertest.WantReason(t, err, reason.AttachNotBegun, "pod default/web")
					synctest.Wait()
					time.Sleep(took)
					w.refill()
					err = w.create(t, 1)
				}
				if err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestContainersOfAFailingNetworkAreNotHeld checks that after a failure no container is left to the gate,
// whose refusal would cost the kubelet's back-off, until the network is attached again: CreateContainer
// refuses it instead, with the cause.
func TestContainersOfAFailingNetworkAreNotHeld(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		knowsPod(t, w.Driver, corev1.RestartPolicyAlways)
		w.k.Slow = func(context.Context) error { time.Sleep(2 * time.Second); return drivertest.Final("no such VLAN") }
		if err := w.RunPodSandbox(t.Context(), podNo(1)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		w.k.Slow = func(context.Context) error { time.Sleep(2 * time.Second); return nil }
		time.Sleep(2 * freshFailure)
		for range 2 { // the second request finds the attempt under way
			drivertest.WantReason(t, w.create(t, 1), reason.AttachRunning, "default/blue (net1)", "no such VLAN")
		}
		time.Sleep(4 * time.Second)
		synctest.Wait()
		drivertest.Same(t, "plugins", slices.Concat(w.k.Calls[:2], bothAdded), w.k.Calls)
		if err := w.create(t, 1); err != nil {
			t.Error(err)
		}
		if err := w.RunPodSandbox(t.Context(), podNo(2)); err != nil {
			t.Fatal(err)
		}
		if err := w.create(t, 2); err != nil {
			t.Errorf("the network works again, and the container is not held: %v", err)
		}
		time.Sleep(4 * time.Second)
	})
}

// TestFailureOfOneRequestIsNotTheNetworks fails the attach of a pod that requests an address. The containers of the
// network's other pods are held as before: a tenant must not slow down others by a request that cannot be met.
func TestFailureOfOneRequestIsNotTheNetworks(t *testing.T) {
	for name, proven := range map[string]int{"plain": 0, "with an address": 1} {
		inWorld(t, func(t *testing.T, w *world) {
			if proven == 1 {
				renewed := map[checkpoint.Key]attachment.Attachment{}
				for _, r := range w.store.All() {
					r.Attachment.CNIArgs = [][2]string{{"IP", "10.0.0.5"}}
					renewed[r.Key()] = r.Attachment
				}
				keys := checkpoint.Keys(w.store.All())
				if err := errors.Join(w.store.MarkAttaching(keys, drivertest.SandboxNo(9), renewed), w.store.MarkDetached(keys...)); err != nil {
					t.Fatal(err)
				}
			}
			w.k.Fail("ADD net1", drivertest.Final("taken"))
			if err := w.RunPodSandbox(t.Context(), podNo(1)); err == nil {
				t.Fatal("attached")
			}
			drivertest.Same(t, name+": proven networks", proven, w.jobs.proven.Len())
		})
	}
}

// TestContainersOfARefusedPodAreNotHeld checks that no container is left to the gate while the pod's records have the
// refusal of an earlier attach, of another sandbox or by another driver: the gate would refuse it at once.
func TestContainersOfARefusedPodAreNotHeld(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		knowsPod(t, w.Driver, corev1.RestartPolicyAlways)
		if err := w.store.MarkRefused(checkpoint.Keys(w.store.All()), "no such VLAN"); err != nil {
			t.Fatal(err)
		}
		unlock, err := w.operations.Lock(t.Context(), drivertest.Web.UID) // by the end of the pod's earlier sandbox
		if err != nil {
			t.Fatal(err)
		}
		if err := w.RunPodSandbox(t.Context(), podNo(1)); err != nil {
			t.Fatal(err)
		}
		drivertest.WantReason(t, w.create(t, 1), reason.AttachRunning)
		unlock()
		synctest.Wait()
		if err := w.create(t, 1); err != nil {
			t.Errorf("attached: %v", err)
		}
	})
}

// TestRefusalAfterAReboot checks that a refusal replaces one of an earlier boot, which the gate does not heed.
func TestRefusalAfterAReboot(t *testing.T) {
	dir := t.TempDir()
	before, _, err := drivertest.OpenStore(dir, "boot-0")
	if err != nil {
		t.Fatal(err)
	}
	drivertest.PrepareWeb(t, before, []string{"net1"})
	if err := before.MarkRefused(checkpoint.Keys(before.All()), "no such VLAN"); err != nil {
		t.Fatal(err)
	}
	before.WaitSynced()
	now, _, err := drivertest.OpenStore(dir, "boot-1")
	if err != nil {
		t.Fatal(err)
	}
	d := newDriverWith(t, setup{env: func(e *environment) { e.store = now }})
	d.jobs.refuse(t.Context(), drivertest.SandboxNo(1), errors.New("no such bridge"))
	r := now.All()[0]
	drivertest.Same(t, "refusal", "no such bridge", r.Refusal)
	drivertest.Same(t, "refused in this boot", true, r.Refused("boot-1"))
}

// TestFailureInOneNamespaceIsNotThatOfOthers fails the attach of a pod to a network that pods of other namespaces have, too.
// Only containers of its own namespace are not held any more: a tenant can make any network fail in his pods, for example
// as interface "all", and must not slow down others. The latest of any number of networks are known.
func TestFailureInOneNamespaceIsNotThatOfOthers(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		doubtful := map[string]bool{}
		for i := range mostProven {
			w.jobs.proven.Add(networkIn{namespace: "noise", network: attachment.NetworkRef{Name: strconv.Itoa(i)}}, true)
		}
		attached := w.store.All()[:1]
		attached[0].Phase, attached[0].Pod.Namespace = checkpoint.Attached, "other"
		w.jobs.prove(attached, true)
		drivertest.Same(t, "proven networks", mostProven, w.jobs.proven.Len())
		w.k.Fail("ADD net1", drivertest.Final("invalid name"))
		if err := w.RunPodSandbox(t.Context(), podNo(1)); err == nil {
			t.Fatal("attached")
		}
		for _, namespace := range []string{drivertest.Web.Namespace, "other"} {
			p := w.store.All()[0].Prepared
			p.Claim.UID, p.Pod = namespace+"-claim", attachment.PodRef{Namespace: namespace, Name: "next", UID: namespace + "-next"}
			if err := w.store.Put([]attachment.Prepared{p}); err != nil {
				t.Fatal(err)
			}
			doubtful[namespace] = w.jobs.doubtful(&job{sandbox: attachment.Sandbox{Pod: p.Pod}})
		}
		drivertest.Same(t, "doubtful", map[string]bool{drivertest.Web.Namespace: true, "other": false}, doubtful)
	})
}

// TestCreateContainerWaitsForAQuickFailure checks that a first try that fails within quickTry fails the creation of the
// container, and leaves none to the gate.
func TestCreateContainerWaitsForAQuickFailure(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		knowsPod(t, w.Driver, corev1.RestartPolicyAlways)
		w.k.Slow = func(context.Context) error { time.Sleep(quickTry / 2); return drivertest.Final("no such VLAN") }
		if err := w.RunPodSandbox(t.Context(), podNo(1)); err != nil {
			t.Fatal(err)
		}
		drivertest.WantReason(t, w.create(t, 1), reason.PluginFailed, "no such VLAN")
	})
}

// TestSlowNetworksHoldUpNoHook attaches pods to networks whose plugins take longer than quickTry. From the second pod on,
// the gate holds the containers, and the hook, for which all pods of the node wait, does not wait for plugins that are
// known to be slow. It waits again after they were quick.
func TestSlowNetworksHoldUpNoHook(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		knowsPod(t, w.Driver, corev1.RestartPolicyAlways)
		for i, pod := range []struct{ plugin, waits time.Duration }{
			{2 * quickTry, quickTry}, {2 * quickTry, 0}, {quickTry / 3, 0}, {quickTry / 3, 2 * quickTry / 3}, // two networks
		} {
			w.k.Slow = func(ctx context.Context) error { time.Sleep(pod.plugin); return ctx.Err() }
			if err := w.RunPodSandbox(t.Context(), podNo(i+1)); err != nil {
				t.Fatal(err)
			}
			asked := time.Now()
			if err := w.create(t, i+1); err != nil {
				t.Errorf("pod %d: %v", i+1, err)
			}
			drivertest.Same(t, fmt.Sprintf("the hook of pod %d waits", i+1), pod.waits, time.Since(asked))
			time.Sleep(4 * time.Second)
			synctest.Wait()
			w.refill()
		}
	})
}

// TestSlowNetworkWithoutAClaimHoldsUpNoHook attaches a pod without a claim, which gets its records only while its job
// runs, to a network that is known to be slow.
func TestSlowNetworkWithoutAClaimHoldsUpNoHook(t *testing.T) {
	inUnclaimedWorld(t, func(t *testing.T, w *world) {
		w.jobs.proven.Add(networkIn{attachment.NetworkRef{Namespace: "default", Name: "blue"}, "default"}, false)
		w.k.Slow = func(ctx context.Context) error { time.Sleep(2 * quickTry); return ctx.Err() }
		pod := asking("solo", "blue")
		if err := w.RunPodSandbox(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		asked := time.Now()
		if _, _, err := w.CreateContainer(t.Context(), pod, &nri.Container{}); err != nil {
			t.Error(err)
		}
		drivertest.Same(t, "the hook waits", 0, time.Since(asked))
		time.Sleep(4 * time.Second)
		synctest.Wait()
	})
}

// TestUnprovenNetworksAreNotLeftToTheGate attaches to a network that no pod of the node has been attached to, by a slow
// plugin: it may fail for ever, and a container that the gate refuses costs the kubelet's back-off. Later pods' containers
// are left to the gate.
func TestUnprovenNetworksAreNotLeftToTheGate(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		knowsPod(t, w.Driver, corev1.RestartPolicyAlways)
		w.jobs.proven.Clear()
		w.k.Slow = func(ctx context.Context) error { time.Sleep(1500 * time.Millisecond); return ctx.Err() }
		if err := w.RunPodSandbox(t.Context(), podNo(1)); err != nil {
			t.Fatal(err)
		}
		drivertest.WantReason(t, w.create(t, 1), reason.AttachRunning, "pod default/web")
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if err := w.create(t, 1); err != nil {
			t.Errorf("attached meanwhile: %v", err)
		}
		if err := w.RunPodSandbox(t.Context(), podNo(2)); err != nil {
			t.Fatal(err)
		}
		if err := w.create(t, 2); err != nil {
			t.Errorf("the network works, and the container is not held: %v", err)
		}
		time.Sleep(4 * time.Second)
	})
}

// TestNeverPodsWaitForAttachBeforeTheGate checks a pod that restarts no container and whose attach
// outlasts the hook: a refusal by the gate would be final, also if only network-status were missing
// in the end. So CreateContainer waits, and refuses until the pod is attached.
func TestNeverPodsWaitForAttachBeforeTheGate(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		knowsPod(t, w.Driver, corev1.RestartPolicyNever)
		w.k.Slow = func(ctx context.Context) error { time.Sleep(1400 * time.Millisecond); return ctx.Err() }
		if err := w.RunPodSandbox(t.Context(), podNo(1)); err != nil {
			t.Fatal(err)
		}
		started := time.Now()
		drivertest.WantReason(t, w.create(t, 1), reason.AttachRunning, "pod default/web")
		drivertest.Same(t, "time in the hook after that of the sandbox", time.Second/waitShare, time.Since(started))
		w.refill()
		started = time.Now()
		drivertest.WantReason(t, w.create(t, 1), reason.AttachRunning, "pod default/web")
		drivertest.Same(t, "time in the hook", time.Second, time.Since(started))
		w.refill()
		started = time.Now()
		if err := w.create(t, 1); err != nil {
			t.Errorf("attached meanwhile: %v", err)
		}
		drivertest.Same(t, "time in the hook until it is attached", 700*time.Millisecond, time.Since(started))
	})
}
