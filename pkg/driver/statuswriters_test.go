package driver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
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
	"github.com/nadra-dev/nadra/pkg/driver/internal/claimstatus"
	"github.com/nadra-dev/nadra/pkg/driver/internal/drivertest"
	"github.com/nadra-dev/nadra/pkg/driver/internal/networkstatus"
)

// written runs a driver's writers until ok returns nil.
func written(t *testing.T, d *Driver, ok func() error) {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	writers.Go(func() { d.networkStatus.Run(ctx) })
	writers.Go(func() { d.claimStatus.Run(ctx) })
	defer writers.Wait()
	defer end()
	become(t, ok)
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
	writeTo(d, kube)
	return d
}

// writeTo has a driver's writers talk to kube.
func writeTo(d *Driver, kube *fake.Clientset) {
	d.claimStatus, d.networkStatus.Kube = claimstatus.NewWriter(kube, d.cfg.DriverName), kube
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
	record := drivertest.Attached("net1", drivertest.BridgeResult)
	d.claimStatus.Set(claimRef, []claimstatus.Device{claimstatus.AttachFailed(record, errors.New("an earlier attempt"))})
	second := claimstatus.Attached(record)
	second.Device = "e"
	d.claimStatus.Set(claimRef, []claimstatus.Device{claimstatus.Attached(record), second})
	d.networkStatus.Set(drivertest.SandboxNo(1), []checkpoint.Record{record})
	written(t, d, func() error {
		if got := reportedDevices(t, kube, "c"); len(got) != 2 || got[0].Conditions[0].Reason != "Attached" {
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
	d.claimStatus.Set(claimRef, []claimstatus.Device{claimstatus.Attached(drivertest.Attached("net1", drivertest.BridgeResult))})
	d.networkStatus.Set(drivertest.SandboxNo(1), []checkpoint.Record{drivertest.Attached("net1", drivertest.BridgeResult)})
	written(t, d, func() error {
		if n := d.claimStatus.Queue(time.Now()).Length + d.networkStatus.Queue(time.Now()).Length; n > 0 {
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
	record := drivertest.Attached("net1", drivertest.BridgeResult)
	long := metav1.NewTime(time.Unix(1000, 0))
	told.Status.Devices = []resourceapi.AllocatedDeviceStatus{{
		Driver: "net.nadra.dev", Pool: record.Pool, Device: record.Device, ShareID: ptr.To(record.ShareID),
		Conditions: []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Attached", Message: claimstatus.Attached(record).Message, LastTransitionTime: long}},
	}}
	kube := fake.NewClientset(pod, c, told)
	d := writing(t, kube)
	d.claimStatus.Repair(claimRef, []claimstatus.Device{claimstatus.AttachedBefore(record)})
	d.claimStatus.Repair(attachment.ClaimRef{Namespace: "default", Name: "told", UID: "told-uid"}, []claimstatus.Device{claimstatus.AttachedBefore(record)})
	d.networkStatus.Repair(drivertest.SandboxNo(1), []checkpoint.Record{record})
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

// statusWorld runs a test in a world whose pod is attached and whose network-status is
// not stored. write makes the API server store it, or answer with an error.
func statusWorld(t *testing.T, restart corev1.RestartPolicy, test func(t *testing.T, w *world, write func(error))) {
	t.Helper()
	statusWorldOf(t, restart, blueConf, test)
}

// statusWorldOf is statusWorld with networks of that configuration.
func statusWorldOf(t *testing.T, restart corev1.RestartPolicy, conf string, test func(t *testing.T, w *world, write func(error))) {
	t.Helper()
	inWorldOf(t, conf, func(t *testing.T, w *world) {
		w.attacher.StatusWait = true
		watch, err := newPodWatch(fake.NewClientset(), "node-1", w.podGone)
		if err != nil {
			t.Fatal(err)
		}
		w.watch = watch
		pod := &knownPod{restart: restart}
		pod.Namespace, pod.Name, pod.UID = drivertest.Web.Namespace, drivertest.Web.Name, types.UID(drivertest.Web.UID)
		if err := watch.informer.GetStore().Add(pod); err != nil {
			t.Fatal(err)
		}
		if err := w.RunPodSandbox(t.Context(), podNo(1)); err != nil {
			t.Fatal(err)
		}
		object, _ := objects()
		kube, answers := fake.NewClientset(object), make(chan error)
		kube.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			err := <-answers
			return err != nil, nil, err
		})
		var writer sync.WaitGroup
		ctx, end := context.WithCancel(t.Context())
		start := sync.OnceFunc(func() {
			w.networkStatus.Kube = kube
			writer.Go(func() { w.networkStatus.Run(ctx) })
		})
		write := func(err error) {
			start()
			answers <- err
			synctest.Wait()
		}
		defer writer.Wait()
		defer end()
		defer close(answers)
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
		drivertest.Same(t, "held by the gate", true, held(w.store.All()))
		write(errors.New("etcd has no leader"))
		time.Sleep(networkstatus.Late)
		drivertest.WantError(t, w.create(t, 1), "pod default/web has its networks", "has not stored its network-status for 2s", "etcd has no leader")
		write(nil) // too late: the pod is attached again
		write(nil)
		if err := w.create(t, 1); err != nil {
			t.Errorf("stored: %v", err)
		}
		drivertest.Same(t, "held by the gate", false, held(w.store.All()))
	})
}

// The gate's refusal would be the end of a pod that starts no container again: it
// is given the hook's time, and the kubelet asks again after that.
func TestNeverPodsWaitForNetworkStatusBeforeTheGate(t *testing.T) {
	statusWorld(t, corev1.RestartPolicyNever, func(t *testing.T, w *world, write func(error)) {
		begun := time.Now()
		drivertest.WantError(t, w.create(t, 1), "has not stored its network-status")
		drivertest.Same(t, "waited", w.budget(), time.Since(begun))
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
		w.podGone(drivertest.Web)
		synctest.Wait()
		for _, r := range w.store.All() {
			drivertest.Same(t, "refusal", errPodGoing.Error(), r.Refusal)
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
		{"a moment's failure", networkstatus.StaleAfter / 2, 0, "host-local", false},
		{"slow", 0, 2 * networkstatus.StaleAfter, "host-local", false},
		{"refused for longer", 2 * networkstatus.StaleAfter, 0, "host-local", true},
		{"whereabouts, at once", 0, 0, attachment.Whereabouts, false},
		{"whereabouts, slow", 0, 2 * networkstatus.StaleAfter, attachment.Whereabouts, true},
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
				w.networkStatus.Kube = kube
				synctest.Wait()
				w.k.Calls = nil
				ctx, end := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() { w.networkStatus.Run(ctx); close(ended) }()
				time.Sleep(time.Minute)
				synctest.Wait()
				want := []string(nil)
				if tt.again {
					want = slices.Concat(bothDeleted, bothAdded)
				}
				drivertest.Same(t, "plugins", want, w.k.Calls)
				drivertest.Same(t, "held by the gate", false, held(w.store.All()))
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
		w.networkStatus.Forget(drivertest.Web)
		w.k.Calls = nil
		w.synchronize(t, 1)
		synctest.Wait()
		drivertest.Same(t, "plugins", slices.Concat(bothDeleted, bothAdded), w.k.Calls)
		drivertest.Same(t, "held by the gate", true, held(w.store.All()))
		write(nil)
		drivertest.Same(t, "held by the gate once it is stored", false, held(w.store.All()))
	})
}

// The runtime connects again while this driver writes: the writer knows for how
// long the pod has not shown its addresses.
func TestStatusThatIsBeingWrittenIsLeftToItsWriter(t *testing.T) {
	statusWorld(t, corev1.RestartPolicyAlways, func(t *testing.T, w *world, write func(error)) {
		synctest.Wait()
		w.checks.began.Store(true) // by the first connection
		w.k.Calls = nil
		w.synchronize(t, 1)
		synctest.Wait()
		drivertest.Same(t, "plugins", 0, len(w.k.Calls))
		write(nil)
		drivertest.Same(t, "held by the gate once it is stored", false, held(w.store.All()))
	})
}
