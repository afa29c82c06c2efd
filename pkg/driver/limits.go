package driver

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
)

// limits is how long the plugins of one network may take before they are ended.
type limits struct{ add, del time.Duration }

// ownLimits is how long IPAM plugins wait by themselves, and some time more.
// Ended before that they leave their lock behind, and everybody waits for it.
// whereabouts waits for its Lease for 2 minutes in ADD and for 1 in DEL (v0.8,
// pkg/types: AddTimeLimit, DelTimeLimit).
var ownLimits = map[string]limits{
	whereabouts: {add: 2*time.Minute + 10*time.Second, del: time.Minute + 10*time.Second},
}

// whereabouts is the IPAM plugin whose reconciler goes by network-status.
const whereabouts = "whereabouts"

// goesByStatus reports whether somebody frees the network's addresses when the
// pod does not show them in its network-status.
func goesByStatus(a attachment.Attachment) bool { return slices.Contains(ipamTypes(a), whereabouts) }

// of returns the limits of one network: at least those of its IPAM plugin.
func (l limits) of(a attachment.Attachment) limits {
	for _, ipam := range ipamTypes(a) {
		own := ownLimits[ipam]
		l.add, l.del = max(l.add, own.add), max(l.del, own.del)
	}
	return l
}

// ipamTypes returns the IPAM plugins of a network's chain; none of a configuration
// that cannot be read, whose plugins are not run.
func ipamTypes(a attachment.Attachment) []string {
	var list struct {
		Plugins []struct {
			IPAM struct {
				Type string `json:"type"`
			} `json:"ipam"`
		} `json:"plugins"`
	}
	if json.Unmarshal(a.Conflist, &list) != nil {
		return nil
	}
	var out []string
	for _, p := range list.Plugins {
		if p.IPAM.Type != "" {
			out = append(out, p.IPAM.Type)
		}
	}
	return out
}

// attaching returns how long a sandbox with these records may be attached: the
// time for which the gate holds a container, and more for networks that may take
// longer than that.
func (l limits) attaching(records []checkpoint.Record) time.Duration {
	return l.total(records, attachTime, attachTime, func(one limits) time.Duration { return one.add })
}

// detaching returns how long the DELs of these records may take.
func (l limits) detaching(records []checkpoint.Record) time.Duration {
	return l.total(records, detachTime, detachTime, func(one limits) time.Duration { return one.del })
}

// rollback returns how long the DELs of these records may take after an attach
// that failed. The hook of the sandbox waits for usual networks.
func (l limits) rollback(records []checkpoint.Record) time.Duration {
	return l.total(records, rollbackTime, l.del, func(one limits) time.Duration { return one.del })
}

// total adds to the usual time that of each network that does not fit.
func (l limits) total(records []checkpoint.Record, usual, fits time.Duration, of func(limits) time.Duration) time.Duration {
	out := usual
	for _, r := range records {
		if own := of(l.of(r.Attachment)); own > fits {
			out += own
		}
	}
	return out
}
