package driver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
)

// written runs a driver's writers until ok returns nil.
func written(t *testing.T, d *Driver, ok func() error) {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	writers.Go(func() { d.networkStatus.run(ctx) })
	writers.Go(func() { d.claimStatus.run(ctx) })
	defer writers.Wait()
	defer end()
	become(t, ok)
}

// cbr0 is a default network.
func cbr0(attachment.Sandbox) (*nadv1.NetworkStatus, error) {
	return &nadv1.NetworkStatus{Name: "cbr0", Interface: "eth0", Default: true}, nil
}

func objects() (*corev1.Pod, *resourceapi.ResourceClaim) {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "web-uid"}},
		&resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c", UID: "c-uid"}}
}

var claimRef = attachment.ClaimRef{Namespace: "default", Name: "c", UID: "c-uid"}

// writing is a driver whose writers talk to kube.
func writing(t *testing.T, kube *fake.Clientset) *Driver {
	t.Helper()
	d := newDriver(t)
	d.claimStatus.kube, d.networkStatus.kube = kube, kube
	return d
}

func statusOf(t *testing.T, kube *fake.Clientset) string {
	t.Helper()
	p, err := kube.CoreV1().Pods("default").Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return p.Annotations[nadv1.NetworkStatusAnnot]
}

func reportedDevices(t *testing.T, kube *fake.Clientset, claim string) []resourceapi.AllocatedDeviceStatus {
	t.Helper()
	c, err := kube.ResourceV1().ResourceClaims("default").Get(t.Context(), claim, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return c.Status.Devices
}

func TestStatusIsWritten(t *testing.T) {
	pod, c := objects()
	kube := fake.NewClientset(pod, c)
	failing := map[string]int{"pods": 2, "resourceclaims": 2}
	kube.PrependReactor("patch", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		what := a.GetResource().Resource
		if failing[what]--; failing[what] >= 0 {
			return true, nil, errors.New("the API server is away")
		}
		return false, nil, nil
	})
	d := writing(t, kube)
	record := attachedRecord("net1", bridgeResult)
	d.claimStatus.set(claimRef, []deviceState{failedState(record, errors.New("an earlier attempt"))})
	second := attachedState(record)
	second.Device = "e"
	d.claimStatus.set(claimRef, []deviceState{attachedState(record), second})
	d.networkStatus.set(sandboxNo(1), []checkpoint.Record{record})
	written(t, d, func() error {
		if got := reportedDevices(t, kube, "c"); len(got) != 2 || got[0].Conditions[0].Reason != reasonAttached {
			return fmt.Errorf("claim status %+v", got)
		}
		if text := statusOf(t, kube); !strings.Contains(text, `"name": "cbr0"`) || !strings.Contains(text, `"name": "default/blue"`) {
			return fmt.Errorf("network-status %q", text)
		}
		return nil
	})
}

// Objects that are gone are no reason to try for ever.
func TestStatusOfGoneObjectsIsDropped(t *testing.T) {
	kube := fake.NewClientset()
	kube.PrependReactor("patch", "resourceclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "resourceclaims"}, "c")
	})
	d := writing(t, kube)
	d.claimStatus.set(claimRef, []deviceState{attachedState(attachedRecord("net1", bridgeResult))})
	d.networkStatus.set(sandboxNo(1), []checkpoint.Record{attachedRecord("net1", bridgeResult)})
	written(t, d, func() error {
		if n := d.claimStatus.outbox.measure(time.Now()).Length + d.networkStatus.outbox.measure(time.Now()).Length; n > 0 {
			return fmt.Errorf("%d statuses are still to be written", n)
		}
		return nil
	})
}

// An earlier driver attached and did not live to tell: a missing status is
// written, and one that is there keeps the time at which it became so.
func TestStatusIsRepaired(t *testing.T) {
	pod, c := objects()
	told := c.DeepCopy()
	told.Name, told.UID = "told", "told-uid"
	record := attachedRecord("net1", bridgeResult)
	long := metav1.NewTime(time.Unix(1000, 0))
	told.Status.Devices = []resourceapi.AllocatedDeviceStatus{{
		Driver: "net.nadra.dev", Pool: record.Pool, Device: record.Device, ShareID: ptr.To(record.ShareID),
		Conditions: []metav1.Condition{{Type: conditionReady, Status: metav1.ConditionTrue, Reason: reasonAttached, Message: attachedState(record).Message, LastTransitionTime: long}},
	}}
	kube := fake.NewClientset(pod, c, told)
	d := writing(t, kube)
	d.claimStatus.amend(claimRef, []deviceState{uncheckedState(record)})
	d.claimStatus.amend(attachment.ClaimRef{Namespace: "default", Name: "told", UID: "told-uid"}, []deviceState{uncheckedState(record)})
	d.networkStatus.repair(sandboxNo(1), []checkpoint.Record{record})
	written(t, d, func() error {
		if got := reportedDevices(t, kube, "c"); len(got) != 1 {
			return fmt.Errorf("claim status %+v", got)
		}
		if statusOf(t, kube) == "" {
			return errors.New("network-status is not there")
		}
		return nil
	})
	if at := reportedDevices(t, kube, "told")[0].Conditions[0].LastTransitionTime; !at.Equal(&long) {
		t.Errorf("the status that was there is written again, at %s", at)
	}
}

// seenPod is pod web as the driver's watch has seen it, until it is gone.
type seenPod struct{ gone atomic.Bool }

func (p *seenPod) find(attachment.PodRef) *metav1.PartialObjectMetadata {
	if p.gone.Load() {
		return nil
	}
	return &metav1.PartialObjectMetadata{}
}

func (p *seenPod) absent(attachment.PodRef) bool { return p.gone.Load() }

// A conflict or a refusal of the API server ends no write while the pod exists,
// however often it comes, and the pod hears of it once. A pod that is gone does.
func TestNetworkStatusIsTriedWhileThePodExists(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "web", errors.New("no rights"))
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "web", errors.New("changed meanwhile"))
	for _, why := range []error{forbidden, conflict} {
		synctest.Test(t, func(t *testing.T) {
			known := &seenPod{}
			var stored, told int
			tries := 0
			pod, _ := objects()
			kube := fake.NewClientset(pod)
			kube.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
				tries++
				return true, nil, why
			})
			w := newNetworkStatusWriter(networkStatusWriter{
				kube: kube, manager: "nadra", defaultNet: cbr0, pods: known,
				stored: func([]checkpoint.Record) error { stored++; return nil },
				again:  func(context.Context, attachment.Sandbox) error { return nil },
				late: func(_ attachment.PodRef, err error) {
					if told++; !errors.Is(err, why) {
						t.Errorf("told of %v", err)
					}
				},
			})
			ctx, end := context.WithCancel(t.Context())
			defer end()
			ended := make(chan struct{})
			go func() { w.run(ctx); close(ended) }()
			w.set(sandboxNo(1), []checkpoint.Record{attachedRecord("net1", bridgeResult)})
			time.Sleep(time.Hour)
			synctest.Wait()
			if tries < 700 || told != 1 || stored != 0 {
				t.Errorf("in an hour: %d tries, told %d times, stored %d times", tries, told, stored)
			}
			known.gone.Store(true)
			time.Sleep(networkRetryMax)
			synctest.Wait()
			same(t, "statuses to be written of a pod that is gone", 0, w.outbox.measure(time.Now()).Length)
			end()
			<-ended
		})
	}
}

// Somebody else may add to network-status, and the default network's addresses
// may change: only what the pod is attached to counts.
func TestShowsNetworks(t *testing.T) {
	records := []checkpoint.Record{attachedRecord("net1", bridgeResult)}
	first, err := cbr0(attachment.Sandbox{})
	if err != nil {
		t.Fatal(err)
	}
	whole, err := networkStatus(first, records)
	if err != nil {
		t.Fatal(err)
	}
	first.IPs = []string{"10.0.0.9"}
	other, err := networkStatus(first, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, text string
		want       bool
	}{
		{"as it was written", whole, true},
		{"another default network", strings.Replace(whole, "cbr0", "cbr1", 1), true},
		{"without the network", other, false},
		{"another interface", strings.Replace(whole, `"net1"`, `"net2"`, 1), false},
		{"nothing", "", false},
		{"no JSON", "[", false},
	} {
		same(t, tt.name, tt.want, showsNetworks(tt.text, records))
	}
}

// statusWorld is a world whose pod has been attached and whose network-status is
// not stored. write has the API server store it, or fail.
func statusWorld(t *testing.T, restart corev1.RestartPolicy, test func(t *testing.T, w *world, write func(error))) {
	t.Helper()
	statusWorldOf(t, restart, blueConf, test)
}

// statusWorldOf is statusWorld with networks of that configuration.
func statusWorldOf(t *testing.T, restart corev1.RestartPolicy, conf string, test func(t *testing.T, w *world, write func(error))) {
	t.Helper()
	inWorldOf(t, conf, func(t *testing.T, w *world) {
		w.attacher.statusWait = true
		watch, err := newPodWatch(fake.NewClientset(), "node-1", w.podGone)
		if err != nil {
			t.Fatal(err)
		}
		w.watch = watch
		pod := &knownPod{restart: restart}
		pod.Namespace, pod.Name, pod.UID = web.Namespace, web.Name, types.UID(web.UID)
		if err := watch.informer.GetStore().Add(pod); err != nil {
			t.Fatal(err)
		}
		if err := w.RunPodSandbox(t.Context(), podNo(1)); err != nil {
			t.Fatal(err)
		}
		write := func(err error) {
			synctest.Wait()
			if err != nil {
				w.networkStatus.outbox.failed(web, err)
				return
			}
			p, _ := w.networkStatus.outbox.look(web)
			if err := w.store.MarkStatusStored(p.update.records); err != nil {
				t.Error(err)
			}
			w.networkStatus.outbox.forget(web)
		}
		test(t, w, write)
	})
}

// The gate holds a container while the status is on its way, and the kubelet is
// told to come again when it is late.
func TestContainersWaitForNetworkStatus(t *testing.T) {
	statusWorld(t, corev1.RestartPolicyAlways, func(t *testing.T, w *world, write func(error)) {
		if err := w.create(t, 1); err != nil {
			t.Errorf("just attached: %v", err)
		}
		same(t, "held by the gate", true, held(w.store.All()))
		write(errors.New("etcd has no leader"))
		time.Sleep(networkStatusLate)
		wantError(t, w.create(t, 1), "pod default/web has its networks", "has not stored its network-status for 2s", "etcd has no leader")
		write(nil)
		if err := w.create(t, 1); err != nil {
			t.Errorf("stored: %v", err)
		}
		same(t, "held by the gate", false, held(w.store.All()))
	})
}

// The gate's refusal would be the end of a pod that starts no container again: it
// is given the hook's time, and the kubelet asks again after that.
func TestNeverPodsWaitForNetworkStatusBeforeTheGate(t *testing.T) {
	statusWorld(t, corev1.RestartPolicyNever, func(t *testing.T, w *world, write func(error)) {
		begun := time.Now()
		wantError(t, w.create(t, 1), "has not stored its network-status")
		same(t, "waited", w.budget(), time.Since(begun))
		go func() {
			time.Sleep(w.budget() / 2)
			write(nil)
		}()
		if err := w.create(t, 1); err != nil {
			t.Errorf("stored meanwhile: %v", err)
		}
	})
}

// A deleted pod's containers are let go at once, with an error, although its
// networks are attached: the kubelet would wait with them.
func TestDeletedPodsDoNotWaitForNetworkStatus(t *testing.T) {
	statusWorld(t, corev1.RestartPolicyAlways, func(t *testing.T, w *world, _ func(error)) {
		w.podGone(web)
		synctest.Wait()
		for _, r := range w.store.All() {
			same(t, "refusal", errPodGoing.Error(), r.Refusal)
		}
	})
}

// A status that could not be stored for longer than an IPAM plugin's reconciler
// waits is not believed: the pod is attached again before a container starts. One
// that was only slow, or failed for a moment, is.
func TestStaleNetworkStatusIsNotBelieved(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fails time.Duration // for how long writes fail
		slow  time.Duration // how long the first takes
		ipam  string
		again bool
	}{
		{"at once", 0, 0, "host-local", false},
		{"a moment's failure", networkStatusStale / 2, 0, "host-local", false},
		{"slow", 0, 2 * networkStatusStale, "host-local", false},
		{"refused for longer", 2 * networkStatusStale, 0, "host-local", true},
		{"whereabouts, at once", 0, 0, whereabouts, false},
		{"whereabouts, slow", 0, 2 * networkStatusStale, whereabouts, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			statusWorldOf(t, corev1.RestartPolicyAlways, strings.Replace(blueConf, "host-local", tt.ipam, 1), func(t *testing.T, w *world, _ func(error)) {
				pod, _ := objects()
				kube := fake.NewClientset(pod)
				begun := time.Now()
				kube.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
					time.Sleep(tt.slow)
					tt.slow = 0
					if time.Since(begun) < tt.fails {
						return true, nil, errors.New("refused")
					}
					return false, nil, nil
				})
				w.networkStatus.kube = kube
				synctest.Wait()
				w.k.calls = nil
				ctx, end := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() { w.networkStatus.run(ctx); close(ended) }()
				time.Sleep(time.Minute)
				synctest.Wait()
				want := []string(nil)
				if tt.again {
					want = slices.Concat(bothDeleted, bothAdded)
				}
				same(t, "plugins", want, w.k.calls)
				same(t, "held by the gate", false, held(w.store.All()))
				end()
				<-ended
			})
		})
	}
}

// The driver before has attached and not stored: nobody knows for how long the
// pod has not shown its addresses.
func TestStatusOfAnEarlierDriverIsNotBelieved(t *testing.T) {
	statusWorld(t, corev1.RestartPolicyAlways, func(t *testing.T, w *world, write func(error)) {
		synctest.Wait()
		w.networkStatus.outbox.forget(web)
		w.k.calls = nil
		w.synchronize(t, 1)
		synctest.Wait()
		same(t, "plugins", slices.Concat(bothDeleted, bothAdded), w.k.calls)
		same(t, "held by the gate", true, held(w.store.All()))
		write(nil)
		same(t, "held by the gate once it is stored", false, held(w.store.All()))
	})
}

// The runtime connects again while this driver writes: the writer knows for how
// long the pod has not shown its addresses.
func TestStatusThatIsBeingWrittenIsLeftToItsWriter(t *testing.T) {
	statusWorld(t, corev1.RestartPolicyAlways, func(t *testing.T, w *world, write func(error)) {
		synctest.Wait()
		w.checks.began.Store(true) // by the first connection
		w.k.calls = nil
		w.synchronize(t, 1)
		synctest.Wait()
		same(t, "plugins", 0, len(w.k.calls))
		write(nil)
		same(t, "held by the gate once it is stored", false, held(w.store.All()))
	})
}
