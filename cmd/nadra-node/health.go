package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/pkg/driver"
)

const (
	// defaultHealthSocket is the default of --health-socket, in a volume of the driver's pod.
	defaultHealthSocket = "/run/nadra/health.sock"
	// startLimit is how long a driver that is not ready counts as one that is being started.
	startLimit = time.Minute
	// healthTime limits one question of the subcommand health.
	healthTime = 5 * time.Second
)

// probes are what the subcommand health asks for: the paths of the health socket.
var probes = []string{"live", "ready", "started"}

// handedOver is the health of a driver that has handed over to another.
type handedOver struct{ why error }

// Live implements healthy.
func (handedOver) Live() []driver.Check { return nil }

// Ready implements healthy. The pod stays ready, because the node is served: the DaemonSet controller deletes
// an old pod that is not, whatever has become of the new one.
func (h handedOver) Ready() []driver.Check {
	return []driver.Check{{Name: driver.StateCheck, OK: true, Detail: h.why.Error()}}
}

// podHealth answers the probes of this pod. --http-address cannot: on the host's network it is
// a port of the node, and during an update the node has two drivers, of which one has the port.
type podHealth struct {
	started time.Time
	// of is the health of the driver at this time.
	of atomic.Pointer[healthy]
}

// set changes whose health is asked for.
func (p *podHealth) set(h healthy) { p.of.Store(&h) }

// begun checks that the driver is ready, or has had enough time to become so. The kubelet asks
// every second until this passes, and then rarely.
func (p *podHealth) begun() []driver.Check {
	checks := (*p.of.Load()).Ready()
	if time.Since(p.started) > startLimit {
		for i := range checks {
			checks[i].OK = true
		}
	}
	return checks
}

// handler returns the probes.
func (p *podHealth) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /live", checked(func() []driver.Check { return (*p.of.Load()).Live() }, "alive"))
	mux.Handle("GET /ready", checked(func() []driver.Check { return (*p.of.Load()).Ready() }, "ready"))
	mux.Handle("GET /started", checked(p.begun, "started"))
	return mux
}

// serve answers on a socket until ctx ends. It serves nothing if the socket's directory is missing:
// the driver runs outside of its pod.
func (p *podHealth) serve(ctx context.Context, socket string) error {
	if _, err := os.Stat(filepath.Dir(socket)); errors.Is(err, fs.ErrNotExist) {
		klog.FromContext(ctx).Info("Not answering the subcommand health: the directory of --health-socket is missing", "address", socket)
		return nil
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) { // of this container before its restart
		return fmt.Errorf("removing the health socket of an earlier run: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", socket)
	if err != nil {
		return fmt.Errorf("listening on --health-socket %s: %w", socket, err)
	}
	server := &http.Server{Handler: p.handler(), ReadHeaderTimeout: headerTime}
	go func() { _ = server.Serve(listener) }() // ends with the process; the probes report it
	context.AfterFunc(ctx, func() { _ = server.Close() })
	return nil
}

// runHealth asks the driver in this container.
func runHealth(ctx context.Context, args []string, out io.Writer) error {
	fs := newFlagSet("health")
	socket := fs.String("health-socket", defaultHealthSocket, "the driver's --health-socket")
	if err := parseArgs(fs, args); err != nil {
		return err
	}
	probe := fs.Arg(0)
	if fs.NArg() != 1 || !slices.Contains(probes, probe) {
		return fmt.Errorf("health takes one of %s", strings.Join(probes, ", "))
	}
	ctx, cancel := context.WithTimeout(ctx, healthTime)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", *socket)
	}}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://nadra-node/"+probe, nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("asking the driver on %s: %w", *socket, err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return fmt.Errorf("reading the driver's answer: %w", err)
	}
	if answer.StatusCode != http.StatusOK {
		return errors.New(strings.TrimSpace(string(text)))
	}
	_, err = out.Write(text)
	return err
}
