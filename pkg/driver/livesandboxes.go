package driver

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// liveSandbox is a sandbox of which the runtime has not reported the end.
type liveSandbox struct {
	attachment.Sandbox
	// static is true for a pod that the kubelet has from a file.
	static bool
	// launcher is true for the pod of a virtual machine.
	launcher bool
	// annotation is the key of the pod's networks annotation.
	annotation string
	// pending is true while the pod, which has no claim, lacks the records of the networks that its
	// annotation names. Its networks do not follow edits until it has them.
	pending bool
	// late is true if no hook decided about the sandbox when it was made: somebody else may have attached
	// the networks.
	late bool
	// begun is true if a container of the sandbox is known to have been admitted, or to run.
	begun bool
}

// liveSandboxes has the latest sandbox of each pod of the node, also of pods without networks.
type liveSandboxes struct {
	mu    sync.Mutex
	byPod map[string]liveSandbox
	// changing ends a change of a pod's networks.
	changing map[string]context.CancelCauseFunc
}

func newLiveSandboxes() *liveSandboxes {
	return &liveSandboxes{byPod: map[string]liveSandbox{}, changing: map[string]context.CancelCauseFunc{}}
}

// add adds a sandbox, which replaces the pod's earlier one. A sandbox that has begun stays so.
func (l *liveSandboxes) add(s liveSandbox) {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.byPod[s.Pod.UID]
	s.begun = s.begun || known.begun && known.ID == s.ID
	l.byPod[s.Pod.UID] = s
}

// begin records that a container of a sandbox is admitted.
func (l *liveSandboxes) begin(podUID, sandboxID string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s, found := l.byPod[podUID]; found && s.ID == sandboxID {
		s.begun = true
		l.byPod[podUID] = s
	}
}

// reset forgets all sandboxes, and returns them by their IDs.
func (l *liveSandboxes) reset() map[string]liveSandbox {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := map[string]liveSandbox{}
	for _, s := range l.byPod {
		before[s.ID] = s
	}
	clear(l.byPod)
	return before
}

// of returns the latest sandbox of a pod.
func (l *liveSandboxes) of(podUID string) (s liveSandbox, found bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, found = l.byPod[podUID]
	return s, found
}

// countPending counts the sandboxes that lack their records.
func (l *liveSandboxes) countPending() (n int) {
	for _, s := range l.all() {
		if s.pending {
			n++
		}
	}
	return n
}

// all returns all sandboxes.
func (l *liveSandboxes) all() []liveSandbox {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Values(l.byPod))
}

// remove removes a sandbox that ends, and ends a change of its networks. It reports whether
// there is such a change: it may add a record until it has ended.
func (l *liveSandboxes) remove(podUID, sandboxID string, cause cancelled) (changing bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s, found := l.byPod[podUID]; !found || s.ID != sandboxID {
		return false
	}
	delete(l.byPod, podUID)
	cancel, changing := l.changing[podUID]
	if changing {
		cancel(cause)
	}
	return changing
}

// change returns a context for a change of a pod's networks, which ends with the pod's sandbox. The
// caller calls end afterwards. There is one change of a pod at a time.
func (l *liveSandboxes) change(ctx context.Context, podUID string) (changing context.Context, end func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	changing, cancel := context.WithCancelCause(ctx)
	l.changing[podUID] = cancel
	return changing, func() {
		cancel(nil)
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.changing, podUID)
	}
}
