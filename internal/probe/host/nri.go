package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	nri "github.com/containerd/nri/pkg/api"
	nrilog "github.com/containerd/nri/pkg/log"
	"github.com/containerd/nri/pkg/stub"

	"github.com/nadra-dev/nadra/internal/probe"
)

const (
	pluginName = "nadra-probe"
	// pluginIndex is the last one: the probe leaves before its turn.
	pluginIndex = "99"
	// nriWait is how long the runtime may take to greet. It waits 5 s for a
	// plugin that another one keeps it busy with.
	nriWait = 15 * time.Second
)

// errSeen ends the conversation with the runtime.
var errSeen = errors.New("nadra-probe has seen what it wanted, and leaves")

// visitor is a plugin that refuses to be configured. So it is told the
// runtime's request timeout, and is never subscribed to any event: to the
// runtime, a plugin that asks for none wants all.
type visitor struct{ runtime, version string }

// Configure takes note of who asks.
func (v *visitor) Configure(_ context.Context, _, runtime, version string) (nri.EventMask, error) {
	v.runtime, v.version = runtime, version
	return 0, errSeen
}

// PostUpdateContainer is never called; a stub without any handler is an error.
func (v *visitor) PostUpdateContainer(context.Context, *nri.PodSandbox, *nri.Container) error {
	return nil
}

// nri knocks at the runtime's socket.
func (l *look) nri(ctx context.Context) probe.NRI {
	out := probe.NRI{Socket: l.NRISocket}
	socket, err := l.path(l.NRISocket)
	if err != nil {
		out.Error = err.Error()
		return out
	}
	if _, err := os.Stat(socket); err != nil {
		out.Error = err.Error()
		return out
	}
	out.Found = true
	v := &visitor{}
	s, err := stub.New(v, stub.WithPluginName(pluginName), stub.WithPluginIdx(pluginIndex),
		stub.WithSocketPath(socket), stub.WithLogger(silent{}))
	if err != nil {
		out.Error = err.Error()
		return out
	}
	ctx, cancel := context.WithTimeout(ctx, nriWait)
	defer cancel()
	if err := start(ctx, s); !errors.Is(err, errSeen) {
		out.Error = fmt.Sprintf("connecting to NRI: %v", err)
		return out
	}
	out.Answers, out.Runtime, out.RuntimeVersion = true, v.runtime, v.version
	out.RequestTimeoutMillis = s.RequestTimeout().Milliseconds()
	return out
}

// start starts the stub, which itself would wait for ever for a runtime that
// accepts and says nothing.
func start(ctx context.Context, s stub.Stub) error {
	done := make(chan error, 1)
	go func() { done <- s.Start(ctx) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("the runtime did not answer: %w", ctx.Err())
	}
}

// silent is a logger: standard output is for the report alone, and the pod's
// log has standard error, too.
type silent struct{}

var _ nrilog.Logger = silent{}

func (silent) Debugf(context.Context, string, ...any) {}
func (silent) Infof(context.Context, string, ...any)  {}
func (silent) Warnf(context.Context, string, ...any)  {}
func (silent) Errorf(context.Context, string, ...any) {}
