package checkpoint

import (
	"slices"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// ByPod groups records by their pod.
func ByPod(records []Record) map[attachment.PodRef][]Record {
	out := map[attachment.PodRef][]Record{}
	for _, r := range records {
		out[r.Pod] = append(out[r.Pod], r)
	}
	return out
}

// Keys returns the records' keys in order.
func Keys(records []Record) []Key {
	out := make([]Key, len(records))
	for i, r := range records {
		out[i] = r.Key()
	}
	return out
}

// ClaimUIDs returns the UIDs of the records' claims, sorted and without duplicates. Records
// without a claim have none.
func ClaimUIDs(records []Record) []string {
	var uids []string
	for _, r := range records {
		if !r.Unclaimed() {
			uids = append(uids, r.Claim.UID)
		}
	}
	slices.Sort(uids)
	return slices.Compact(uids)
}

// Networks returns the records of attachments that the pod is to have, without those of devices
// that it gets without a network.
func Networks(records []Record) []Record {
	return Where(records, func(r Record) bool { return !r.DeviceOnly && !r.Removed })
}

// Where returns the records that match.
func Where(records []Record, match func(Record) bool) []Record {
	return slices.DeleteFunc(slices.Clone(records), func(r Record) bool { return !match(r) })
}

// AnyAdopted reports whether Multus made one of the attachments.
func AnyAdopted(records []Record) bool {
	return slices.ContainsFunc(records, func(r Record) bool { return r.Adopted })
}

// InSandbox returns a function that reports whether a record's attachment was made, or
// begun, in the sandbox.
func InSandbox(id string) func(Record) bool {
	return func(r Record) bool { return r.Sandbox != nil && r.Sandbox.ID == id }
}
