package webhook

import (
	"context"
	"crypto/x509"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// maxRunning is the number of requests of one address that run at a time, and maxQueued the number
	// of those that wait. An API server needs a few: a request takes milliseconds.
	maxRunning = 64
	maxQueued  = 1000
	// maxBody is the size of the largest request: an API server admits objects of 3 MiB.
	maxBody = 4 << 20
	// readTimeout is how long a caller may take to send a request.
	readTimeout = 10 * time.Second
)

// guard refuses callers of the webhooks that are not an API server, and bounds what each address can
// hold, so that no caller starves another.
type guard struct {
	// names are those of client certificates. If there are none, callers decides.
	names   []string
	callers *callers
	slots   slots
}

func newGuard(live client.Reader, o Options) *guard {
	return &guard{names: o.ClientNames, callers: newCallers(live, o.Callers, o.PodIP), slots: slots{sources: map[netip.Addr]*source{}}}
}

// protect returns a handler that passes the requests of allowed callers. It refuses others before it
// reads their body, and says nothing about the reason. It ignores headers that name another address.
func (g *guard) protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		remote, err := netip.ParseAddrPort(r.RemoteAddr)
		from := remote.Addr().Unmap()
		if err != nil || !g.allows(r, from) {
			http.Error(w, http.StatusText(http.StatusForbidden), http.StatusForbidden)
			return
		}
		release, ok := g.slots.take(r.Context(), from.WithZone(""))
		if !ok {
			http.Error(w, http.StatusText(http.StatusTooManyRequests), http.StatusTooManyRequests)
			return
		}
		defer release()
		if err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(readTimeout)); err != nil {
			http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		next.ServeHTTP(w, r)
	})
}

// allows reports whether a caller may be an API server.
func (g *guard) allows(r *http.Request, from netip.Addr) bool {
	if len(g.names) == 0 {
		return g.callers.allow(r.Context(), from)
	}
	return r.TLS != nil && len(r.TLS.VerifiedChains) > 0 && hasName(r.TLS.PeerCertificates[0], g.names)
}

// hasName reports whether a certificate is for one of the names.
func hasName(c *x509.Certificate, names []string) bool {
	return slices.ContainsFunc(append([]string{c.Subject.CommonName}, c.DNSNames...), func(name string) bool { return slices.Contains(names, name) })
}

// slots bounds the requests of each address.
type slots struct {
	mu      sync.Mutex
	sources map[netip.Addr]*source
}

// source has the requests of one address.
type source struct {
	running chan struct{}
	// requests counts those that run and those that wait.
	requests int
}

// take waits until a request of an address may run. It returns false if too many wait, or if the caller
// has left.
func (s *slots) take(ctx context.Context, from netip.Addr) (release func(), ok bool) {
	s.mu.Lock()
	at := s.sources[from]
	if at == nil {
		at = &source{running: make(chan struct{}, maxRunning)}
		s.sources[from] = at
	}
	if at.requests >= maxRunning+maxQueued {
		s.mu.Unlock()
		return nil, false
	}
	at.requests++
	s.mu.Unlock()
	select {
	case at.running <- struct{}{}:
		return func() { <-at.running; s.leave(from, at) }, true
	case <-ctx.Done():
		s.leave(from, at)
		return nil, false
	}
}

// leave forgets a request, and the address with its last one.
func (s *slots) leave(from netip.Addr, at *source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.requests--; at.requests == 0 {
		delete(s.sources, from)
	}
}
