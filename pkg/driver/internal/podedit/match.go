package podedit

import (
	"reflect"
	"slices"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
)

// none is the index of a record or an element that does not exist.
const none = -1

// matches says which record an element of the annotation means.
type matches struct {
	records []checkpoint.Record
	wanted  []attachment.Selection
	// baseline has the elements that records of claims had in the baseline, by record.
	baseline map[int]attachment.Selection
	// described is true if the baseline only describes the records of claims.
	described bool
	// byElement has the record of each wanted element, and byRecord the element of each record.
	byElement, byRecord []int
	// absent are wanted elements that the baseline has and nadra did not attach.
	absent []bool
	// unserved counts the elements of the baseline that nadra did not attach and the annotation
	// does not name any more.
	unserved int
	// keeps says, by record, why a network is not removed although the annotation does not name it any more.
	keeps []error
	// taken are the interfaces of attachments that stay or come back.
	taken map[string]bool
}

// match finds the record of each element. An element that names its interface goes first, then
// one that does not, which prefers an interface that nadra has named. Attachments that the pod
// has go before removed ones of claims, which are attached again if their interface is free.
func match(baseline, wanted []attachment.Selection, records []checkpoint.Record, described bool) *matches {
	m := &matches{
		records: records, wanted: wanted, described: described, baseline: map[int]attachment.Selection{},
		byElement: slices.Repeat([]int{none}, len(wanted)), byRecord: slices.Repeat([]int{none}, len(records)), absent: make([]bool, len(wanted)),
		keeps: make([]error, len(records)), taken: map[string]bool{},
	}
	unserved := m.bind(baseline)
	named := m.named()
	there := func(i int) bool { return !records[i].Removed }
	m.assign(true, there)
	// An interface that another element names is not free for one without a name.
	free := func(i int) bool { return there(i) && !named[records[i].Attachment.Interface] }
	m.assign(false, func(i int) bool { return free(i) && isNetN(records[i].Attachment.Interface) })
	m.assign(false, free)
	for e := range wanted {
		if i := slices.IndexFunc(unserved, func(s attachment.Selection) bool { return reflect.DeepEqual(s, wanted[e]) }); i >= 0 && m.byElement[e] == none {
			m.absent[e], unserved = true, slices.Delete(unserved, i, i+1)
		}
	}
	m.unserved = len(unserved)
	m.keep()
	for i, r := range records {
		if m.stays(i) {
			m.taken[r.Attachment.Interface] = true
		}
	}
	back := func(i int) bool {
		return records[i].Removed && !records[i].Unclaimed() && !m.taken[records[i].Attachment.Interface]
	}
	m.assign(true, back)
	m.assign(false, func(i int) bool { return back(i) && !named[records[i].Attachment.Interface] })
	return m
}

// bind finds the records that the baseline's elements mean, first by all parameters and then by the
// network: a claim by hand, and Multus, may have had parameters that the annotation lacks. It returns
// the elements without a record.
func (m *matches) bind(baseline []attachment.Selection) (unserved []attachment.Selection) {
	left := slices.Clone(baseline)
	for _, means := range []func(checkpoint.Record, attachment.Selection) bool{
		func(r checkpoint.Record, s attachment.Selection) bool {
			return r.Attachment.Satisfies(s, !r.Unclaimed())
		},
		func(r checkpoint.Record, s attachment.Selection) bool {
			return !r.ByAnnotation() && r.Attachment.Network == s.Network && (s.Interface == "" || s.Interface == r.Attachment.Interface)
		},
	} {
		left = slices.DeleteFunc(left, func(s attachment.Selection) bool {
			for i, r := range m.records {
				if _, bound := m.baseline[i]; !bound && !r.DeviceOnly && (!r.Unclaimed() || r.LiveIn == "") && means(r, s) {
					m.baseline[i] = s
					return true
				}
			}
			return false
		})
	}
	return left
}

// assign gives elements that have no record one of those that are eligible.
func (m *matches) assign(named bool, eligible func(record int) bool) {
	for e, s := range m.wanted {
		if m.byElement[e] != none || m.absent[e] || named != (s.Interface != "") {
			continue
		}
		for i, r := range m.records {
			if m.byRecord[i] == none && !r.DeviceOnly && eligible(i) && m.means(s, i) {
				m.byElement[e], m.byRecord[i] = i, e
				m.taken[r.Attachment.Interface] = true
				break
			}
		}
	}
}

// means reports whether an element requests what a record is: by its parameters, or because it
// is the element that the record had in the baseline.
func (m *matches) means(s attachment.Selection, record int) bool {
	before, bound := m.baseline[record]
	r := m.records[record]
	return bound && !r.ByAnnotation() && reflect.DeepEqual(before, s) || r.Attachment.Satisfies(s, !r.Unclaimed())
}

// stays reports whether the pod has a record's attachment and an edit does not remove it.
func (m *matches) stays(record int) bool {
	r := m.records[record]
	return !r.DeviceOnly && !r.Removed && (m.byRecord[record] != none || m.isPinned(record) || m.keeps[record] != nil)
}

// isPinned reports whether no edit removes or moves a record: the baseline does not name it, because its claim was written
// by hand, or Multus had it from elsewhere; or it only describes the claim.
func (m *matches) isPinned(record int) bool {
	_, bound := m.baseline[record]
	r := m.records[record]
	if r.ByAnnotation() || r.DeviceOnly || r.Removed {
		return false
	}
	return !bound || m.described && !r.Unclaimed()
}
