package podedit

import (
	"fmt"
	"slices"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
)

// Pod is a pod with a sandbox, and what is known of its networks.
type Pod struct {
	Namespace string
	// Baseline is the annotation of which an edit is a change: what it does not name and the pod
	// has, an edit does not remove, and what it names and the pod lacks, an edit does not add.
	Baseline string
	// Annotation is the present one.
	Annotation string
	// Described is true if nadra's webhook wrote the baseline from the pod's claims: an edit, whose author may not know of
	// them, changes none of their networks.
	Described bool
	// Records are those of the pod, in order. None has failed to be added: those are forgotten.
	Records []checkpoint.Record
	// Shown are the entries of network-status without that of the default network. OwnStatus is
	// true if nadra was the last to write it.
	Shown     []nadv1.NetworkStatus
	OwnStatus bool
}

// Addition is a network that the pod is to get.
type Addition struct {
	Selection attachment.Selection
	Interface string
	// Index is its position in the pod's plan.
	Index int
}

// Refusal is a change that is not made.
type Refusal struct {
	// Removing is true if the pod keeps a network, and false if it does not get one.
	Removing  bool
	Network   attachment.NetworkRef
	Interface string
	Err       error
}

// Plan is what an edit changes.
type Plan struct {
	// Remove are the records of attachments that end. They end before others begin.
	Remove []checkpoint.Record
	// Back are removed records of claims whose networks the annotation names again.
	Back []checkpoint.Record
	// Add are new attachments without a claim.
	Add []Addition
	// Index has the positions of records that stay or come back, as far as they change.
	Index map[checkpoint.Key]int
	// Refused are changes that cannot be made.
	Refused []Refusal
}

// Empty reports whether there is nothing to change and nothing to refuse.
func (p Plan) Empty() bool {
	return len(p.Remove) == 0 && len(p.Back) == 0 && len(p.Add) == 0 && len(p.Index) == 0 && len(p.Refused) == 0
}

// Make compares a pod's annotation with its records. It refuses the whole edit if the annotation
// cannot be read or contradicts itself, or if the pod has networks that another program has
// attached and nadra would have to describe in network-status.
func Make(pod Pod) Plan {
	if !Due(pod) {
		return Plan{}
	}
	selections, err := attachment.ParseSelections(pod.Annotation, pod.Namespace)
	if err == nil {
		err = attachment.CheckRequests(selections)
	}
	if err != nil {
		return Plan{Refused: []Refusal{{Err: err}}}
	}
	// A baseline that cannot be read has no elements.
	baseline, _ := attachment.ParseSelections(pod.Baseline, pod.Namespace)
	m := match(baseline, selections, pod.Records, pod.Described)
	plan := m.plan()
	foreign := pod.Foreign()
	if foreign == "" || plan.Empty() && m.unserved == 0 {
		return plan
	}
	return Plan{Refused: []Refusal{{Err: reason.Errorf(reason.EditRefused, "network-status of the pod lists %s, which nadra has not attached: "+
		"delete the pod, so that nadra attaches all networks of the next one", foreign)}}}
}

// Due reports whether a pod's annotation may ask for a change: a pod that nobody has edited keeps
// what it has, whatever its annotation says.
func Due(pod Pod) bool { return pod.Annotation != pod.Baseline || pod.edited() }

// edited reports whether an edit has changed the pod's networks before.
func (p Pod) edited() bool {
	claimed := slices.ContainsFunc(p.Records, func(r checkpoint.Record) bool { return !r.Unclaimed() && !r.DeviceOnly })
	return slices.ContainsFunc(p.Records, func(r checkpoint.Record) bool {
		return r.Removed || r.LiveIn != "" || r.Moved || claimed && r.Unclaimed()
	})
}

// Foreign returns the first entry of network-status whose network another program has attached, for
// messages. An entry of nadra's own without a record is that of a network that it has removed: the
// driver was killed before it wrote network-status again.
func (p Pod) Foreign() string {
	if p.OwnStatus {
		return ""
	}
	for _, s := range p.Shown {
		if !slices.ContainsFunc(p.Records, func(r checkpoint.Record) bool { return !r.DeviceOnly && r.Attachment.Network.String() == s.Name }) {
			return fmt.Sprintf("network %s (%s)", s.Name, s.Interface)
		}
	}
	return ""
}

// plan makes a plan of the matches: pinned attachments first, then the elements in order, and then
// what cannot be removed.
func (m *matches) plan() Plan {
	plan := Plan{Index: map[checkpoint.Key]int{}}
	position, refused := 0, []int(nil)
	place := func(r checkpoint.Record) {
		if r.Index != position {
			plan.Index[r.Key()] = position
		}
		position++
	}
	for i, r := range m.records {
		switch {
		case r.DeviceOnly || r.Removed:
		case m.isPinned(i):
			place(r)
		case m.byRecord[i] != none:
		case m.stays(i):
			refused = append(refused, i)
		default:
			plan.Remove = append(plan.Remove, r)
		}
	}
	taken, named := m.taken, m.named()
	for e, s := range m.wanted {
		i, name := m.byElement[e], s.Interface
		switch {
		case m.absent[e]:
			continue
		case i != none && m.isPinned(i): // it has its place
			continue
		case i != none && !m.records[i].Removed:
			place(m.records[i])
			continue
		}
		if err := m.whyNotAdded(e); err != nil {
			if i != none {
				name = m.records[i].Attachment.Interface
				delete(taken, name)
			}
			plan.Refused = append(plan.Refused, Refusal{Network: s.Network, Interface: name, Err: err})
			continue
		}
		if i != none {
			plan.Back = append(plan.Back, m.records[i])
			place(m.records[i])
			continue
		}
		if name == "" {
			name = freeName(taken, named)
		}
		taken[name] = true
		plan.Add = append(plan.Add, Addition{Selection: s, Interface: name, Index: position})
		position++
	}
	for _, i := range refused {
		r := m.records[i]
		place(r)
		plan.Refused = append(plan.Refused, Refusal{Removing: true, Network: r.Attachment.Network, Interface: r.Attachment.Interface, Err: m.keeps[i]})
	}
	return plan
}

// whyNotAdded returns why the pod does not get the network of an element that it lacks, or nil.
func (m *matches) whyNotAdded(element int) error {
	s, networks := m.wanted[element], len(m.taken) // with those that come back
	if m.byElement[element] == none {
		networks++
		for i, r := range m.records {
			if m.described && !r.Unclaimed() && m.isPinned(i) && m.byRecord[i] == none && r.Attachment.Network == s.Network {
				return reason.Errorf(reason.EditRefused, "adding network %s: the pod has it as %s by a claim, which an edit of the annotation does not change: "+
					"name it with this interface and with the parameters of the claim, and once more to add it a second time", s.Network, r.Attachment.Interface)
			}
		}
		if m.taken[s.Interface] {
			return reason.Errorf(reason.InterfaceConflict, "adding network %s as %s: another network of the pod, which the edit does not remove, has this interface: choose another name",
				s.Network, s.Interface)
		}
	}
	return v1alpha1.CheckSize("the pod", networks, v1alpha1.MaxNetworks, "networks with those of its claims", "request fewer networks")
}
