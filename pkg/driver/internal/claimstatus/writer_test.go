package claimstatus

import (
	"testing"
	"time"

	"github.com/nadra-dev/nadra/internal/metrics"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/driver/internal/drivertest"
)

var claimRef = attachment.ClaimRef{Namespace: "default", Name: "c", UID: "c-uid"}

// TestRepairKeepsSet repairs a status while a Set is pending, as a CHECK right after an
// attach does: the new addresses are still written.
func TestRepairKeepsSet(t *testing.T) {
	w := NewWriter(nil, "net.nadra.dev", "node-1")
	defer w.outbox.ShutDown()
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
	w := NewWriter(nil, "net.nadra.dev", "node-1")
	defer w.outbox.ShutDown()
	if q := w.Queue(time.Now()); q != (metrics.Queue{}) {
		t.Errorf("the queue is %+v before any update", q)
	}
	w.Set(claimRef, nil)
	first, _ := w.outbox.Get(claimRef)
	w.Set(claimRef, nil)
	w.Repair(claimRef, nil)
	if q := w.Queue(first.Since.Add(5)); q != (metrics.Queue{Length: 1, Oldest: 5}) {
		t.Errorf("the queue is %+v, want one update since the first", q)
	}
}
