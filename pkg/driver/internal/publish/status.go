package publish

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/driver/internal/background"
	"github.com/nadra-dev/nadra/pkg/driver/internal/operations"
)

const (
	// statusEvery is the pause between two STATUS of healthy plugins.
	statusEvery = 30 * time.Second
	// statusRetry is the pause after an error, so that the network is soon published again.
	statusRetry = 5 * time.Second
	// firstAnswer is the time for which a network waits for its first answer before it is
	// published without one: a little more than one STATUS may take.
	firstAnswer = operations.StatusLimit + time.Second
)

// statusWatch asks plugins whether they can attach now (CNI specification 1.1.0, §
// "STATUS"), so that networks are withdrawn before pods land on them.
//
// The answers decide about publishing only. Prepare of an allocated claim goes ahead: an
// answer may be half a minute old, and the plugin's answer to ADD counts, which is retried
// if the failure may pass.
type statusWatch struct {
	// status is operations.Group.Status outside of tests, which limits its time.
	status func(ctx context.Context, namespace string, conflist json.RawMessage) error
	// changed is called when an answer may change what is published.
	changed func(cause)
	work    *background.Group

	mu      sync.Mutex
	answers map[string]*answer // by conflist: equal ones are asked once, for the first namespace
}

// answer is the latest answer of the plugins of one conflist.
type answer struct {
	asked time.Time // for the first time
	stop  context.CancelFunc
	first chan struct{} // closed by the first answer
	err   error
}

// received reports whether the plugins have answered at least once.
func (a *answer) received() bool {
	select {
	case <-a.first:
		return true
	default:
		return false
	}
}

func newStatusWatch(work *background.Group, status func(context.Context, string, json.RawMessage) error, changed func(cause)) *statusWatch {
	return &statusWatch{
		work: work, status: status, changed: changed, answers: map[string]*answer{},
	}
}

// follow begins to ask the plugins of new candidates, and stops asking those of networks
// that are gone or withheld for another reason.
func (s *statusWatch) follow(candidates []candidate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wanted := map[string]bool{}
	for _, c := range candidates {
		if !c.asksStatus() {
			continue
		}
		key := string(c.Network.Conflist)
		wanted[key] = true
		if s.answers[key] == nil {
			s.answers[key] = s.start(c.Network)
		}
	}
	for key, a := range s.answers {
		if !wanted[key] {
			a.stop()
			delete(s.answers, key)
		}
	}
}

func (s *statusWatch) start(n attachment.Network) *answer {
	a := &answer{asked: time.Now(), first: make(chan struct{})}
	a.stop = s.work.Start(func(ctx context.Context) { s.ask(ctx, n, a) })
	return a
}

// of returns the answer of a network's plugins.
func (s *statusWatch) of(n attachment.Network) pluginStatus {
	if !n.HasStatus() {
		return pluginStatus{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.answers[string(n.Conflist)]
	if a == nil {
		return pluginStatus{}
	}
	return pluginStatus{asked: true, answered: a.received(), overdue: time.Since(a.asked) >= firstAnswer, err: a.err}
}

// ask asks the plugins of one conflist repeatedly until ctx ends.
func (s *statusWatch) ask(ctx context.Context, n attachment.Network, a *answer) {
	overdue := time.AfterFunc(firstAnswer, func() { s.changed(causeNADs) })
	defer overdue.Stop()
	for {
		err := s.status(ctx, n.Ref.Namespace, n.Conflist)
		if ctx.Err() != nil {
			return
		}
		overdue.Stop()
		if changed, why := s.record(a, err); changed {
			s.changed(why)
		}
		pause := statusEvery
		if err != nil {
			pause = statusRetry
		}
		if !background.Sleep(ctx, pause) {
			return
		}
	}
}

// record keeps an answer. It returns whether the answer may change what is published, and
// the cause: all nodes have the first answers about a new NAD at once.
func (s *statusWatch) record(a *answer, err error) (changed bool, why cause) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed, why = (a.err != nil) != (err != nil), causeHere
	if !a.received() {
		changed, why = true, causeNADs
		close(a.first)
	}
	a.err = err
	return changed, why
}

// awaitAnswers waits until the plugins of all networks have answered once, or the answers
// are overdue. A driver that was just started does not withdraw what the one before has
// published.
func (s *statusWatch) awaitAnswers(ctx context.Context) {
	s.mu.Lock()
	var waiting []chan struct{}
	for _, a := range s.answers {
		waiting = append(waiting, a.first)
	}
	s.mu.Unlock()
	over := time.NewTimer(firstAnswer)
	defer over.Stop()
	for _, first := range waiting {
		select {
		case <-first:
		case <-over.C:
			klog.FromContext(ctx).Info("Publishing networks whose plugins have not all answered STATUS", "timeout", firstAnswer)
			return
		case <-ctx.Done():
			return
		}
	}
}
