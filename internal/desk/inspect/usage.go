package inspect

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/internal/words"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// usage is how much of a network's devices claims have taken.
type usage struct {
	// room is the number of attachments that all devices take together, used the number that they have.
	room, used int64
	// addresses is set if the network's addresses limit them.
	addresses bool
	// full: the devices have a limit, and are all in use.
	full bool
	// holders are the pods, or the claims without a pod, that have them, as namespace/name and sorted.
	holders []string
}

// roomOf returns the number of attachments that a device takes, 0 without a limit.
func roomOf(d resourceapi.Device) int64 {
	if c, limited := d.Capacity[attachment.CapacityAddresses]; limited {
		return c.Value.Value()
	}
	if ptr.Deref(d.AllowMultipleAllocations, false) {
		return 0
	}
	return 1
}

// usageOf returns how much of a network's devices is in use, or nothing if one of them has no limit.
func (x *index) usageOf(network attachment.NetworkRef, pool string) (u usage) {
	id := x.idOf(network)
	ours := map[string]bool{}
	for key, d := range x.published {
		if !slices.Contains(d.networks, id) && (pool == "" || d.resource != pool) {
			continue
		}
		if d.room == 0 {
			return usage{}
		}
		ours[key] = true
		u.room += d.room
		u.addresses = u.addresses || d.counted
	}
	holders := map[string]bool{}
	for _, c := range x.claims {
		for _, r := range ownResults(c) {
			if ours[r.Pool+"/"+r.Device] && !ptr.Deref(r.AdminAccess, false) {
				u.used++
				holders[holderOf(c)] = true
			}
		}
	}
	u.holders = slices.Sorted(maps.Keys(holders))
	u.full = len(ours) > 0 && u.used >= u.room
	return u
}

// attachedTo returns the pods, or the claims without a pod, that have addresses of a network, on a node or, for "", on
// all, sorted.
func (x *index) attachedTo(network attachment.NetworkRef, node string) []string {
	holders := map[string]bool{}
	for _, c := range x.claims {
		for _, w := range x.wantsOfClaim(c) {
			if w.network == nil || *w.network != network || w.status == nil || w.status.NetworkData == nil || len(w.status.NetworkData.IPs) == 0 {
				continue
			}
			if node == "" || slices.Contains(x.published[w.result.Pool+"/"+w.result.Device].nodes, node) {
				holders[holderOf(c)] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(holders))
}

// holderOf returns the pod that a claim is reserved for, or the claim.
func holderOf(c *resourceapi.ResourceClaim) string {
	for _, r := range c.Status.ReservedFor {
		if attachment.IsPod(r) {
			return c.Namespace + "/" + r.Name
		}
	}
	return "claim " + c.Namespace + "/" + c.Name
}

// String says how much is in use, and by whom.
func (u usage) String() string {
	what := "attachments"
	if u.addresses {
		what = "addresses"
	}
	return fmt.Sprintf("%d of %d %s are used by %s", u.used, u.room, what, some(u.holders))
}

// some joins names, and counts those after the sixth.
func some(names []string) string { return strings.Join(words.ShortList(names, 6), ", ") }
