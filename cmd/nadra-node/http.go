package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/pkg/driver"
)

const (
	// portWait is how long another process may have the port.
	portWait = 10 * time.Second
	// portPoll is the pause between tries to open the port.
	portPoll = 50 * time.Millisecond
	// headerTime limits the reading of a request's header. There is no limit for the
	// response, which would cut off profiles.
	headerTime = 5 * time.Second
)

// healthy is the driver's health.
type healthy interface {
	Live() []driver.Check
	Ready() []driver.Check
}

// withMetrics is the health of a driver that must serve --http-address, too. Otherwise a version that
// cannot open the port would be ready until it gives up, and a rollout would go on.
type withMetrics struct {
	healthy
	address string
	// open is true once the port is open.
	open atomic.Bool
}

// Ready implements healthy.
func (m *withMetrics) Ready() []driver.Check {
	checks := m.healthy.Ready()
	if m.address == "" || len(checks) > 0 && checks[0].Name == driver.StateCheck { // the port is the other driver's
		return checks
	}
	c := driver.Check{Name: "http", OK: m.open.Load(), Detail: "serving " + m.address}
	if !c.OK {
		c.Detail = "not yet " + c.Detail + ": another process may have the port"
	}
	return append(checks, c)
}

// serveHTTP serves --http-address until ctx ends, and calls opened when it does. It returns an error if it cannot listen. Later
// failures are only logged, because they keep no pod from its networks.
func (o options) serveHTTP(ctx context.Context, d healthy, opened func()) error {
	if o.httpAddress == "" {
		return nil
	}
	listener, err := listen(ctx, o.httpAddress)
	if err != nil {
		return unlessEnded(ctx, fmt.Errorf("listening on --http-address %s: %w: free the port, choose another one, or serve nothing (--http-address=)", o.httpAddress, err))
	}
	opened()
	server := &http.Server{Handler: o.handler(d), ReadHeaderTimeout: headerTime, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10}
	klog.FromContext(ctx).Info("Serving metrics and health", "address", listener.Addr().String(), "pprof", o.pprof)
	stop := context.AfterFunc(ctx, func() { _ = server.Close() }) // clients retry
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		klog.FromContext(ctx).Error(err, "Serving metrics and health failed")
	}
	return nil
}

// listen opens the address. It retries for portWait while another process has the port.
func listen(ctx context.Context, address string) (net.Listener, error) {
	ctx, cancel := context.WithTimeout(ctx, portWait)
	defer cancel()
	var config net.ListenConfig
	for {
		l, err := config.Listen(ctx, "tcp", address)
		if err == nil || !errors.Is(err, syscall.EADDRINUSE) {
			return l, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(portPoll):
		}
	}
}

// handler returns all endpoints.
func (o options) handler(d healthy) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", o.Metrics.Handler())
	mux.Handle("GET /healthz", checked(d.Live, "alive"))
	mux.Handle("GET /readyz", checked(d.Ready, "ready"))
	mux.Handle("/loglevel", fromHere(http.HandlerFunc(o.verbosity.serve)))
	if o.pprof {
		mux.Handle("GET /debug/pprof/", fromHere(http.HandlerFunc(pprof.Index)))
		mux.Handle("GET /debug/pprof/profile", fromHere(http.HandlerFunc(pprof.Profile)))
		mux.Handle("GET /debug/pprof/symbol", fromHere(http.HandlerFunc(pprof.Symbol)))
		mux.Handle("GET /debug/pprof/trace", fromHere(http.HandlerFunc(pprof.Trace)))
	}
	return mux
}

// checked returns a handler that lists every check. Its status is 503 unless all pass.
func checked(checks func() []driver.Check, word string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		var text strings.Builder
		status, verdict := http.StatusOK, word
		for _, c := range checks() {
			sign := "[+]"
			if !c.OK {
				sign, status, verdict = "[-]", http.StatusServiceUnavailable, "not "+word
			}
			fmt.Fprintf(&text, "%s%s: %s\n", sign, c.Name, oneLine(c.Detail))
		}
		text.WriteString(verdict + "\n")
		answer(w, status, text.String())
	})
}

// oneLine joins the lines of a text, because errors of plugins and runtimes may have
// several.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// answer writes a plain text.
func answer(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text)) // fails if the client is gone
}

// fromHere serves only clients on the node: processes there, and users who may forward a
// port to the driver's pod. No packet from another host has a loopback address as its
// source. The request's Host must be a loopback name, too, so that a page in a browser
// cannot use a forwarded port.
func fromHere(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLoopback(r.RemoteAddr) || !isLoopback(r.Host) {
			answer(w, http.StatusForbidden, "served to clients on the node only: use 127.0.0.1 there, or kubectl port-forward\n")
			return
		}
		h.ServeHTTP(w, r)
	})
}

// isLoopback reports whether a host, with or without a port, is a loopback name or
// address.
func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if host == "localhost" {
		return true
	}
	address, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && address.Unmap().IsLoopback()
}
