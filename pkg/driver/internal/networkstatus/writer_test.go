package networkstatus

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/drivertest"
)

// seenPod is pod web in the driver's watch until it is gone.
type seenPod struct{ gone atomic.Bool }

func (p *seenPod) Find(attachment.PodRef) *metav1.PartialObjectMetadata {
	if p.gone.Load() {
		return nil
	}
	return &metav1.PartialObjectMetadata{}
}

func (p *seenPod) Absent(attachment.PodRef) bool { return p.gone.Load() }

// TestWriteIsTriedWhileThePodExists refuses every write for an hour: the writer goes on
// and reports once that the status is late. It stops when the pod is gone.
func TestWriteIsTriedWhileThePodExists(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "web", errors.New("no rights"))
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "web", errors.New("changed meanwhile"))
	for _, why := range []error{forbidden, conflict} {
		synctest.Test(t, func(t *testing.T) {
			known := &seenPod{}
			var stored, told int
			tries := 0
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: drivertest.Web.Namespace, Name: drivertest.Web.Name, UID: types.UID(drivertest.Web.UID)}}
			kube := fake.NewClientset(pod)
			kube.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
				tries++
				return true, nil, why
			})
			w := NewWriter(Options{
				Kube: kube, Manager: "nadra", DefaultNetwork: drivertest.CBR0, Pods: known,
				Stored: func([]checkpoint.Record) error { stored++; return nil },
				Late: func(_ attachment.PodRef, err error) {
					if told++; !errors.Is(err, why) {
						t.Errorf("told of %v", err)
					}
				},
			})
			ctx, end := context.WithCancel(t.Context())
			defer end()
			ended := make(chan struct{})
			go func() { w.Run(ctx, func(context.Context, attachment.Sandbox) error { return nil }); close(ended) }()
			w.Set(drivertest.SandboxNo(1), []checkpoint.Record{drivertest.Attached("net1", drivertest.BridgeResult)})
			time.Sleep(time.Hour)
			synctest.Wait()
			if tries < 700 || told != 1 || stored != 0 {
				t.Errorf("in an hour: %d tries, told %d times, stored %d times", tries, told, stored)
			}
			known.gone.Store(true)
			time.Sleep(longestPause)
			synctest.Wait()
			if n := w.Queue(time.Now()).Length; n > 0 {
				t.Errorf("%d statuses of a pod that is gone are pending", n)
			}
			end()
			<-ended
		})
	}
}
