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
	// annotation is the key of the pod's networks annotation.
	annotation string
	// pending is true while the pod, which has no claim, lacks the records of the networks that its
	// annotation names. Its networks do not follow edits until it has them.
	pending bool
	// late is true if no hook held the sandbox's first containers: they may run, and somebody else may
	// have attached the networks.
	late bool
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

// add adds a sandbox, which replaces the pod's earlier one.
func (l *liveSandboxes) add(s liveSandbox) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.byPod[s.Pod.UID] = s
}

// reset forgets all sandboxes.
func (l *liveSandboxes) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.byPod)
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
