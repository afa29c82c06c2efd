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
	"syscall"
	"time"

	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/pkg/driver"
)

const (
	// portWait is how long the port may still be the driver's before, which has
	// given up its state and is about to end.
	portWait = 10 * time.Second
	// portPoll is the interval at which it is tried.
	portPoll = 200 * time.Millisecond
	// headerTime bounds the reading of a request's header. There is no bound for
	// all of it, which would cut off profiles.
	headerTime = 5 * time.Second
)

// healthy is the driver, for whoever asks how it is.
type healthy interface {
	Live() []driver.Check
	Ready() []driver.Check
}

// serveHTTP answers on --http-address, in the background, until stop is called.
// Only a port that cannot be had is an error: what fails later is logged, and
// keeps nobody from attaching.
func (o options) serveHTTP(ctx context.Context, d healthy) (stop func(), err error) {
	if o.httpAddress == "" {
		return func() {}, nil
	}
	listener, err := listen(ctx, o.httpAddress)
	if err != nil {
		return nil, fmt.Errorf("listening on --http-address %s: %w: free the port, or give another one, or none (--http-address=)", o.httpAddress, err)
	}
	server := &http.Server{Handler: o.handler(d), ReadHeaderTimeout: headerTime, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10}
	klog.FromContext(ctx).Info("Serving metrics and health", "address", listener.Addr().String(), "pprof", o.pprof)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			klog.FromContext(ctx).Error(err, "Nobody can ask for metrics and health any more")
		}
	}()
	return func() {
		_ = server.Close() // whoever is being answered asks again
		<-done
	}, nil
}

// listen waits for a port that is another's for a moment more.
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

// handler is all that is answered.
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

// checked answers with every check and how it is, and by its status whether all
// pass.
func checked(checks func() []driver.Check, word string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		var text strings.Builder
		status, verdict := http.StatusOK, word
		for _, c := range checks() {
			sign := "[+]"
			if !c.OK {
				sign, status, verdict = "[-]", http.StatusServiceUnavailable, "not "+word
			}
			fmt.Fprintf(&text, "%s%s: %s\n", sign, c.Name, oneLine(c.Says))
		}
		text.WriteString(verdict + "\n")
		answer(w, status, text.String())
	})
}

// oneLine is for errors of plugins and runtimes, which may have several.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

func answer(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text)) // who has gone needs no answer
}

// fromHere lets through who is on the node itself: a process there, or somebody
// whom the API server lets forward a port to the driver's pod. No packet from
// elsewhere has a loopback address as its source. The name by which the driver
// was asked must be one of this host, too, so that no page in a browser beside a
// forwarded port has it do anything.
func fromHere(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLoopback(r.RemoteAddr) || !isLoopback(r.Host) {
			answer(w, http.StatusForbidden, "only from the node itself: ask 127.0.0.1 there, or by kubectl port-forward\n")
			return
		}
		h.ServeHTTP(w, r)
	})
}

// isLoopback reports whether a host, with or without a port, is this one.
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
