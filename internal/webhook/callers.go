package webhook

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sync/singleflight"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

const (
	// maxCallers is the number of addresses that callers remembers, and callerKept for how long.
	maxCallers = 1000
	callerKept = 10 * time.Minute
	// A pod may call before its address is in its status, so the first answer that an address is no
	// pod's counts for callerNew, and later ones for callerKnown. So does the answer that it is a node's.
	callerNew   = 10 * time.Second
	callerKnown = 5 * time.Minute
	// callerRefused is how long a pod is refused: its address may become another's.
	callerRefused = time.Minute
	// callerWait is how long a request waits for the API server, and callerLimit the timeout of a list.
	callerWait  = 2 * time.Second
	callerLimit = 10 * time.Second
	// maxLookups is the number of lists at a time: each makes the API server look at all pods.
	maxLookups = 2
)

// anyCaller in place of a namespace allows all addresses.
const anyCaller = "*"

// callers recognizes pods by their addresses. Kubernetes tells a webhook nothing else about a caller. An
// address that is no pod's is allowed, and so is one while the API server does not answer: the webhooks
// write nothing, and refusing an API server would stop pods.
type callers struct {
	live       client.Reader
	namespaces []string
	podIP      netip.Addr
	now        func() time.Time
	known      *cache.LRUExpireCache
	flight     singleflight.Group
	lookups    chan struct{}
}

// caller is what is known about an address.
type caller struct {
	refused bool
	until   time.Time
}

func newCallers(live client.Reader, namespaces []string, podIP string) *callers {
	own, _ := netip.ParseAddr(podIP)
	return &callers{
		live: live, namespaces: namespaces, podIP: own, now: time.Now,
		known: cache.NewLRUExpireCache(maxCallers), lookups: make(chan struct{}, maxLookups),
	}
}

// allow reports whether an address may call. It refuses the addresses of pods, except those on the
// host's network and those of the allowed namespaces. It also refuses the addresses by which the API
// server does not find a pod: it selects pods by the first address only, so those of the other family,
// and link-local ones.
func (c *callers) allow(ctx context.Context, from netip.Addr) bool {
	if from.IsLoopback() || slices.Contains(c.namespaces, anyCaller) {
		return true
	}
	at, found := c.at(from)
	if found && c.now().Before(at.until) {
		return !at.refused
	}
	lasting := context.WithoutCancel(ctx)
	answer := c.flight.DoChan(from.String(), func() (any, error) { return c.look(lasting, from), nil })
	if found && !at.refused {
		return true // so that an API server never waits again
	}
	ctx, cancel := context.WithTimeout(ctx, callerWait)
	defer cancel()
	select {
	case r := <-answer:
		refused, _ := r.Val.(bool)
		return !refused
	case <-ctx.Done():
		return true
	}
}

func (c *callers) at(from netip.Addr) (caller, bool) {
	v, _ := c.known.Get(from)
	at, found := v.(caller)
	return at, found
}

// look asks the API server about an address, and remembers the answer.
func (c *callers) look(ctx context.Context, from netip.Addr) (refused bool) {
	before, seen := c.at(from)
	keep := callerNew
	refused, node, err := c.list(ctx, from)
	switch {
	case err != nil:
		logf.FromContext(ctx).Error(err, "Listing the pods of a caller's address failed; answering it", "address", from)
	case refused:
		keep = callerRefused
	case node, seen && !before.refused:
		keep = callerKnown
	}
	c.known.Add(from, caller{refused, c.now().Add(keep)}, callerKept)
	return refused
}

// list reports whether an address is that of a pod to refuse, or of a node. The pods that have ended
// count for nothing, because their addresses are free.
func (c *callers) list(ctx context.Context, from netip.Addr) (refused, node bool, err error) {
	if from.Is6() && from.IsLinkLocalUnicast() || c.podIP.IsValid() && from.Is4() != c.podIP.Is4() {
		logf.FromContext(ctx).Info("Refusing an address by which the API server finds no pod", "address", from)
		return true, false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, callerLimit)
	defer cancel()
	select {
	case c.lookups <- struct{}{}:
		defer func() { <-c.lookups }()
	case <-ctx.Done():
		return false, false, ctx.Err()
	}
	var pods corev1.PodList
	// With this version, the API server answers from its cache.
	cached := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "0"}}
	if err := c.live.List(ctx, &pods, client.MatchingFields{"status.podIP": from.String()}, cached); err != nil {
		return false, false, err
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		switch {
		case attachment.IsOver(p):
		case p.Spec.HostNetwork || slices.Contains(c.namespaces, p.Namespace):
			return false, true, nil
		default:
			refused = true
			logf.FromContext(ctx).Info("Refusing a pod's requests to the webhooks", "pod", klog.KObj(p), "address", from)
		}
	}
	return refused, false, nil
}
