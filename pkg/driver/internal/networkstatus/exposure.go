package networkstatus

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
)

// exposure is the time in which an interface has addresses that its pod's network-status
// does not list.
type exposure struct {
	addresses string
	// allocated is when the addresses were given, shown since when the API server's
	// network-status lists them; shown is zero if it does not.
	allocated, shown time.Time
}

// ended reports whether the addresses were listed before anybody could take them for those
// of a pod that is gone. A status with the same addresses may be older than the ADD.
func (e exposure) ended() bool {
	return !e.shown.IsZero() && e.shown.Before(e.allocated.Add(StaleAfter))
}

// exposures has the exposures of pods whose containers wait for network-status, by
// interface.
type exposures struct {
	mu    sync.Mutex
	byPod map[attachment.PodRef]map[string]exposure
}

// allocate records that an ADD has given addresses. They may be those that the interface
// had before, and that network-status lists already.
func (x *exposures) allocate(pod attachment.PodRef, r checkpoint.Record, at time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.byPod[pod] == nil {
		x.byPod[pod] = map[string]exposure{}
	}
	next := exposure{addresses: addresses(r), allocated: at}
	if before := x.byPod[pod][r.Attachment.Interface]; before.addresses == next.addresses {
		next.shown = before.shown
	}
	x.byPod[pod][r.Attachment.Interface] = next
}

// show records that network-status lists these records, and no others, since a time.
func (x *exposures) show(pod attachment.PodRef, records []checkpoint.Record, at time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	listed := map[string]string{}
	for _, r := range records {
		listed[r.Attachment.Interface] = addresses(r)
	}
	for iface, e := range x.byPod[pod] {
		switch {
		case listed[iface] != e.addresses:
			e.shown = time.Time{}
		case e.shown.IsZero():
			e.shown = at
		}
		x.byPod[pod][iface] = e
	}
}

// ended reports whether the exposure of a record's addresses has ended in time.
func (x *exposures) ended(pod attachment.PodRef, r checkpoint.Record) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	e := x.byPod[pod][r.Attachment.Interface]
	return e.addresses == addresses(r) && e.ended()
}

// addresses returns the addresses of a record's result, or none if it has no result.
func addresses(r checkpoint.Record) string {
	var result struct {
		IPs []struct {
			Address string `json:"address"`
		} `json:"ips"`
	}
	_ = json.Unmarshal(r.Result, &result) // nadra has encoded it
	return fmt.Sprint(result.IPs)
}

// forget drops what is known of a pod.
func (x *exposures) forget(pod attachment.PodRef) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.byPod, pod)
}
