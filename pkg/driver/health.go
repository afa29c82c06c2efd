package driver

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/containernetworking/cni/pkg/version"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

const (
	// statusLimit bounds one STATUS of a network's plugins; a plugin that
	// hangs is killed.
	statusLimit = 5 * time.Second
	// statusEvery and statusRetry are the pauses between two STATUS of a
	// network that is well and of one that is not, so that it is soon back.
	statusEvery = 30 * time.Second
	statusRetry = 5 * time.Second
	// statusAtOnce is how many are asked at a time, however many there are.
	statusAtOnce = 4
	// firstAnswer is how long a network waits for its first answer before it
	// is published without one: a little more than one STATUS may take.
	firstAnswer = statusLimit + time.Second
)

// health knows which networks' plugins say that they cannot attach now (CNI
// specification 1.1.0, § "STATUS"). Their devices are withdrawn before pods
// land on them.
//
// It decides about publishing only. Prepare of a claim that is allocated goes
// ahead: an answer may be half a minute old, and what the plugin says to the
// ADD itself is the truth, which is tried again where it may pass.
type health struct {
	// status is cniexec.Runner.Status outside of tests.
	status func(ctx context.Context, conflist json.RawMessage) error
	// changed is called when an answer may change what is published.
	changed func(cause)
	// tell is called when a network is withdrawn (with the reason) and when it
	// is back (nil): once each, not with every answer.
	tell  func(ctx context.Context, ref attachment.NetworkRef, uid types.UID, why error)
	work  *background
	slots slots

	mu       sync.Mutex
	opinions map[string]*opinion // by conflist: what is the same is asked once
	// offered and away are networks by the last decision: published, and
	// withdrawn and told of.
	offered map[attachment.NetworkRef]candidate
	away    map[attachment.NetworkRef]bool
}

// opinion is what the plugins of one conflist say of themselves.
type opinion struct {
	since time.Time
	stop  context.CancelFunc
	// first is closed by the first answer.
	first chan struct{}
	// err is the latest answer.
	err error
}

func (o *opinion) known() bool {
	select {
	case <-o.first:
		return true
	default:
		return false
	}
}

func newHealth(work *background, status func(context.Context, json.RawMessage) error) *health {
	return &health{
		work: work, status: status, changed: func(cause) {},
		tell:  func(context.Context, attachment.NetworkRef, types.UID, error) {},
		slots: make(slots, statusAtOnce), opinions: map[string]*opinion{},
		away: map[attachment.NetworkRef]bool{},
	}
}

// hasStatus reports whether a network's plugins are asked: whether its CNI
// version has the verb.
func hasStatus(n attachment.Network) bool {
	known, err := version.GreaterThanOrEqualTo(n.CNIVersion, "1.1.0")
	return known && err == nil
}

// judge returns those of the usable networks that are to be published, and has
// the plugins of all of them asked from now on.
func (h *health) judge(ctx context.Context, candidates map[attachment.NetworkRef]candidate) map[attachment.NetworkRef]candidate {
	h.follow(candidates)
	h.mu.Lock()
	defer h.mu.Unlock()
	out := make(map[attachment.NetworkRef]candidate, len(candidates))
	for ref, c := range candidates {
		if c.unusable == nil && h.well(ctx, ref, c) {
			out[ref] = c
		}
	}
	h.offered = out
	maps.DeleteFunc(h.away, func(ref attachment.NetworkRef, _ bool) bool { _, there := candidates[ref]; return !there })
	return out
}

// well decides about one network, and tells when that is a change. While there
// is no answer, one that is new waits, and one that was published and has
// another configuration now stays.
func (h *health) well(ctx context.Context, ref attachment.NetworkRef, c candidate) bool {
	var why error
	if hasStatus(c.network) {
		o := h.opinions[string(c.network.Conflist)]
		if !o.known() {
			_, before := h.offered[ref]
			return before || time.Since(o.since) >= firstAnswer
		}
		why = o.err
	}
	if (why != nil) != h.away[ref] {
		h.away[ref] = why != nil
		h.tell(ctx, ref, c.uid, why)
	}
	return why == nil
}

// follow begins to ask the plugins of networks that are new and ends it for
// those that are gone, or unusable for another reason.
func (h *health) follow(candidates map[attachment.NetworkRef]candidate) {
	h.mu.Lock()
	defer h.mu.Unlock()
	wanted := map[string]bool{}
	for _, c := range candidates {
		if c.unusable != nil || !hasStatus(c.network) {
			continue
		}
		key := string(c.network.Conflist)
		wanted[key] = true
		if h.opinions[key] == nil {
			h.opinions[key] = h.begin(c.network.Conflist)
		}
	}
	for key, o := range h.opinions {
		if !wanted[key] {
			o.stop()
			delete(h.opinions, key)
		}
	}
}

func (h *health) begin(conflist json.RawMessage) *opinion {
	o := &opinion{since: time.Now(), first: make(chan struct{})}
	o.stop = h.work.start(func(ctx context.Context) { h.ask(ctx, conflist, o) })
	return o
}

// ask asks the plugins of one conflist again and again until ctx ends.
func (h *health) ask(ctx context.Context, conflist json.RawMessage, o *opinion) {
	overdue := time.AfterFunc(firstAnswer, func() { h.changed(causeNADs) })
	defer overdue.Stop()
	for {
		asked, err := h.once(ctx, conflist)
		if !asked {
			return
		}
		overdue.Stop()
		if changed, why := h.note(o, err); changed {
			h.changed(why)
		}
		wait := statusEvery
		if err != nil {
			wait = statusRetry
		}
		if !sleep(ctx, wait) {
			return
		}
	}
}

// once asks once. It is false when ctx ended first.
func (h *health) once(ctx context.Context, conflist json.RawMessage) (asked bool, answer error) {
	if !h.slots.take(ctx) {
		return false, nil
	}
	defer h.slots.give()
	limited, cancel := context.WithTimeoutCause(ctx, statusLimit, fmt.Errorf("one STATUS may take %s", statusLimit))
	defer cancel()
	answer = h.status(limited, conflist)
	return ctx.Err() == nil, answer
}

// note keeps an answer and reports whether it may change what is published, and
// why: all nodes have the first answers about a new NAD at once.
func (h *health) note(o *opinion, err error) (changed bool, why cause) {
	h.mu.Lock()
	defer h.mu.Unlock()
	changed, why = (o.err != nil) != (err != nil), causeHere
	if !o.known() {
		changed, why = true, causeNADs
		close(o.first)
	}
	o.err = err
	return changed, why
}

// answer is the latest of a conflist's plugins; nil where they are not asked.
func (h *health) answer(conflist json.RawMessage) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if o := h.opinions[string(conflist)]; o != nil {
		return o.err
	}
	return nil
}

// settle waits until all networks have had their first answer, as long as that
// may take: a driver that has just been started does not withdraw what the one
// before has published.
func (h *health) settle(ctx context.Context) {
	h.mu.Lock()
	var waiting []chan struct{}
	for _, o := range h.opinions {
		waiting = append(waiting, o.first)
	}
	h.mu.Unlock()
	over := time.NewTimer(firstAnswer)
	defer over.Stop()
	for _, first := range waiting {
		select {
		case <-first:
		case <-over.C:
			klog.FromContext(ctx).Info("Publishing networks of which not all plugins have answered to STATUS", "waited", firstAnswer)
			return
		case <-ctx.Done():
			return
		}
	}
}
