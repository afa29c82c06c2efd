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
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/claimstatus"
	"github.com/nadra-dev/nadra/pkg/driver/internal/networkstatus"
	"github.com/nadra-dev/nadra/test/drivertest"
)

// written runs a driver's writers until ok returns nil.
func written(t *testing.T, d *Driver, ok func() error) {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	writers.Go(func() { d.networkStatus.Run(ctx, d.jobs.attachAgain) })
	writers.Go(func() { d.claimStatus.Run(ctx) })
	defer writers.Wait()
	defer end()
	become(t, ok)
}

var claimRef = attachment.ClaimRef{Namespace: "default", Name: "c", UID: "c-uid"}

// writing returns a driver whose writers write to kube.
func writing(t *testing.T, kube *fake.Clientset) *Driver {
	t.Helper()
	return newDriverWith(t, setup{heldStatus: true, clients: func(c *Clients) { c.Kube, c.NetworkStatus = kube, kube }})
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

// TestStatusOfGoneObjectsIsDropped checks that the status of deleted objects is not retried.
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

// TestStatusIsRepaired checks that the status of attachments which an earlier driver did not report
// is written, and that an existing one keeps its transition time.
func TestStatusIsRepaired(t *testing.T) {
	pod, c := objects()
	stored := c.DeepCopy()
	stored.Name, stored.UID = "stored", "stored-uid"
	record := drivertest.Attached("net1", drivertest.BridgeResult)
	long := metav1.NewTime(time.Unix(1000, 0))
	stored.Status.Devices = []resourceapi.AllocatedDeviceStatus{{
		Driver: "net.nadra.dev", Pool: record.Pool, Device: record.Device, ShareID: ptr.To(record.ShareID),
		Conditions: []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Attached", Message: claimstatus.Attached(record).Message, LastTransitionTime: long}},
	}}
	kube := fake.NewClientset(pod, c, stored)
	d := writing(t, kube)
	d.claimStatus.Repair(claimRef, []claimstatus.Device{claimstatus.AttachedBefore(record)})
	d.claimStatus.Repair(attachment.ClaimRef{Namespace: "default", Name: "stored", UID: "stored-uid"}, []claimstatus.Device{claimstatus.AttachedBefore(record)})
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
	if at := reportedDevices(t, kube, "stored")[0].Conditions[0].LastTransitionTime; !at.Equal(&long) {
		t.Errorf("the status that was there is written again, at %s", at)
	}
}

// statusWorld runs a test in a world whose pod is attached and whose network-status is not stored.
// write makes the API server store it, or answer with an error.
func statusWorld(t *testing.T, restart corev1.RestartPolicy, test func(t *testing.T, w *world, write func(error))) {
	t.Helper()
	statusWorldOf(t, restart, blueConf, test)
}

// statusWorldOf runs a test as statusWorld does, with networks of that configuration.
func statusWorldOf(t *testing.T, restart corev1.RestartPolicy, conf string, test func(t *testing.T, w *world, write func(error))) {
	t.Helper()
	inWorldWith(t, setup{heldStatus: true}, conf, func(t *testing.T, w *world) {
		knowsPod(t, w.Driver, restart)
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
			writer.Go(func() { w.networkStatus.Run(ctx, w.jobs.attachAgain) })
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

// TestContainersWaitForNetworkStatus checks that the gate holds a container while the status is being
// written, and that the kubelet gets an error, and asks again, when it is late.
func TestContainersWaitForNetworkStatus(t *testing.T) {
	statusWorld(t, corev1.RestartPolicyAlways, func(t *testing.T, w *world, write func(error)) {
		if err := w.create(t, 1); err != nil {
			t.Errorf("just attached: %v", err)
		}
		drivertest.Same(t, "held by the gate", true, held(w.store.All()))
		write(errors.New("etcd has no leader"))
		time.Sleep(networkstatus.Late)
		drivertest.WantReason(t, w.create(t, 1), reason.StatusNotStored, "pod default/web", " 2s", "etcd has no leader")
		write(nil) // too late: the pod is attached again
		write(nil)
		if err := w.create(t, 1); err != nil {
			t.Errorf("stored: %v", err)
		}
		drivertest.Same(t, "held by the gate", false, held(w.store.All()))
	})
}

// TestNeverPodsWaitForNetworkStatusBeforeTheGate checks pods that restart no container: the gate's
// refusal would be final, so they wait in the hook, and the kubelet asks again after that.
func TestNeverPodsWaitForNetworkStatusBeforeTheGate(t *testing.T) {
	statusWorld(t, corev1.RestartPolicyNever, func(t *testing.T, w *world, write func(error)) {
		begun := time.Now()
		drivertest.WantReason(t, w.create(t, 1), reason.StatusNotStored)
		drivertest.Same(t, "waited", w.budget(), time.Since(begun))
		w.refill()
		go func() {
			time.Sleep(w.budget() / 2)
			write(nil)
		}()
		if err := w.create(t, 1); err != nil {
			t.Errorf("stored meanwhile: %v", err)
		}
	})
}

// TestDeletedPodsDoNotWaitForNetworkStatus checks that the containers of a deleted pod fail at once,
// although its networks are attached: the kubelet would wait with them.
func TestDeletedPodsDoNotWaitForNetworkStatus(t *testing.T) {
	statusWorld(t, corev1.RestartPolicyAlways, func(t *testing.T, w *world, _ func(error)) {
		w.jobs.podDeleted(drivertest.Web)
		synctest.Wait()
		for _, r := range w.store.All() {
			drivertest.Same(t, "refusal", errPodDeleting.Error(), r.Refusal)
		}
	})
}

// TestStaleNetworkStatus checks that a pod is attached again before a container starts if its status
// could not be stored for longer than an IPAM plugin's reconciler waits. A status that was only slow,
// or failed for a moment, is fine.
func TestStaleNetworkStatus(t *testing.T) {
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
				go func() { w.networkStatus.Run(ctx, w.jobs.attachAgain); close(ended) }()
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

// TestStatusOfAnEarlierDriver checks that a pod whose status an earlier driver has not stored is
// attached again: it is unknown for how long the pod has not shown its addresses.
func TestStatusOfAnEarlierDriver(t *testing.T) {
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

// TestStatusThatIsBeingWrittenIsLeftToItsWriter checks a runtime that connects again while
// this driver writes: the writer knows for how long the pod has not shown its addresses.
func TestStatusThatIsBeingWrittenIsLeftToItsWriter(t *testing.T) {
	statusWorld(t, corev1.RestartPolicyAlways, func(t *testing.T, w *world, write func(error)) {
		synctest.Wait()
		w.checker.began.Store(true) // by the first connection
		w.k.Calls = nil
		w.synchronize(t, 1)
		synctest.Wait()
		drivertest.Same(t, "plugins", 0, len(w.k.Calls))
		write(nil)
		drivertest.Same(t, "held by the gate once it is stored", false, held(w.store.All()))
	})
}
