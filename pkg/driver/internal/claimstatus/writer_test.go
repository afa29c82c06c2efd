package claimstatus

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/nadra-dev/nadra/internal/metrics"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/test/drivertest"
)

var claimRef = attachment.ClaimRef{Namespace: "default", Name: "c", UID: "c-uid"}

// TestRepairKeepsSet repairs a status while a Set is pending, as a CHECK right after an
// attach does: the new addresses are still written.
func TestRepairKeepsSet(t *testing.T) {
	w := NewWriter(nil, "node-1")
	defer w.ShutDown()
	states := []Device{Attached(drivertest.Attached("net1", drivertest.BridgeResult))}
	w.Set(claimRef, states)
	w.Repair(claimRef, states)
	if _, repair, _ := w.Pending(claimRef); repair {
		t.Error("it is written only where the condition differs")
	}
	w.Forget(claimRef)
	w.Repair(claimRef, states)
	if _, repair, _ := w.Pending(claimRef); !repair {
		t.Error("it is written in any case")
	}
}

// TestQueue checks that a pending status keeps the time of its first update.
func TestQueue(t *testing.T) {
	w := NewWriter(nil, "node-1")
	defer w.ShutDown()
	if q := w.Queue(time.Now()); q != (metrics.Queue{}) {
		t.Errorf("the queue is %+v before any update", q)
	}
	w.Set(claimRef, nil)
	first, _ := w.Get(claimRef)
	w.Set(claimRef, nil)
	w.Repair(claimRef, nil)
	if q := w.Queue(first.Since.Add(5)); q != (metrics.Queue{Length: 1, Oldest: 5}) {
		t.Errorf("the queue is %+v, want one update since the first", q)
	}
}

// TestHold checks that a status waits for its release, and is written then, also if the driver stops.
func TestHold(t *testing.T) {
	for name, stops := range map[string]bool{"the driver runs": false, "the driver stops": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				kube := fake.NewClientset(&resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: claimRef.Namespace, Name: claimRef.Name, UID: types.UID(claimRef.UID)}})
				w := NewWriter(kube, "node-1")
				ctx, end := context.WithCancel(t.Context())
				var running sync.WaitGroup
				running.Go(func() { w.Run(ctx) })
				w.Hold(claimRef, nil)
				time.Sleep(time.Second)
				drivertest.Same(t, "requests before", 0, len(kube.Actions()))
				w.Release(claimRef)
				if !stops {
					synctest.Wait()
					drivertest.Same(t, "requests at once", 1, len(kube.Actions()))
				}
				end()
				running.Wait()
				drivertest.Same(t, "requests", 1, len(kube.Actions()))
			})
		})
	}
}
