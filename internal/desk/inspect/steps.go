package inspect

import (
	"slices"

	"github.com/nadra-dev/nadra/pkg/api/reason"
)

// stepState is the outcome of a step.
type stepState string

// The states of a step.
const (
	StepOK         stepState = "ok"
	StepFailed     stepState = "failed"
	StepWaiting    stepState = "waiting"
	StepNotReached stepState = "not reached"
	StepNotUsed    stepState = "not used"
)

// Step is one link of a chain.
type Step struct {
	Name string `json:"name"`
	// Network and Interface are empty for steps of the whole pod.
	Network   string `json:"network,omitempty"`
	Interface string `json:"interface,omitempty"`
	// Claim is the name of an entry in the pod's spec.resourceClaims.
	Claim  string    `json:"claim,omitempty"`
	State  stepState `json:"state"`
	Detail string    `json:"detail,omitempty"`
	// Reason is nadra's code for the cause. Causes outside of nadra have none.
	Reason reason.Code `json:"reason,omitempty"`
	// Owner can continue a step that fails or waits, by Remedy.
	Owner  reason.Owner `json:"owner,omitempty"`
	Remedy string       `json:"remedy,omitempty"`
}

// advice is what to do about a step.
type advice struct {
	owner  reason.Owner
	remedy string
}

func ok(detail string) Step { return Step{State: StepOK, Detail: detail} }

func notUsed(detail string) Step { return Step{State: StepNotUsed, Detail: detail} }

func notReached() Step { return Step{State: StepNotReached} }

// anotherFails is the step of a network that is not the one that keeps the pod from starting.
var anotherFails = Step{State: StepNotReached, Detail: "another network of the pod fails"}

func failed(detail string, owner reason.Owner, remedy string) Step {
	return Step{State: StepFailed, Detail: detail, Reason: reason.Cause(detail), Owner: owner, Remedy: remedy}
}

func waiting(detail string, owner reason.Owner, remedy string) Step {
	return Step{State: StepWaiting, Detail: detail, Reason: reason.Cause(detail), Owner: owner, Remedy: remedy}
}

// stepList collects the steps of a chain in their order.
type stepList struct {
	steps     []Step
	hasFailed bool
}

// add appends a step, which is about a network unless w is nil.
func (l *stepList) add(name string, w *want, s Step) {
	s.Name = name
	if w != nil {
		s.Interface = w.iface
		if w.network != nil {
			s.Network = w.network.String()
		}
		if w.entry != nil {
			s.Claim = w.entry.Name
		}
	}
	l.steps, l.hasFailed = append(l.steps, s), l.hasFailed || s.State == StepFailed
}

// failed reports whether a step so far has failed.
func (l *stepList) failed() bool { return l.hasFailed }

// first returns the first step with a state, or nil without one.
func (l *stepList) first(state stepState) *Step {
	for i := range l.steps {
		if l.steps[i].State == state {
			return &l.steps[i]
		}
	}
	return nil
}

// usesClaims reports whether the pod has a claim of nadra that exists.
func (l *stepList) usesClaims() bool {
	return slices.ContainsFunc(l.steps, func(s Step) bool { return s.State == StepOK && s.Name == "claim" })
}
