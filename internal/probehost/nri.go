package probehost

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
type visitor struct {
	stub stub.Stub
	seen chan greeting // has room for the one that comes
}

// greeting is what a runtime tells a plugin that it configures.
type greeting struct {
	runtime, version string
	requestTimeout   time.Duration
}

// Configure takes note of who asks.
func (v *visitor) Configure(_ context.Context, _, runtime, version string) (nri.EventMask, error) {
	v.seen <- greeting{runtime, version, v.stub.RequestTimeout()}
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
	ctx, cancel := context.WithTimeout(ctx, nriWait)
	defer cancel()
	seen, err := visit(ctx, socket)
	if err != nil {
		out.Error = fmt.Sprintf("connecting to NRI: %v", err)
		return out
	}
	out.Answers, out.Runtime, out.RuntimeVersion = true, seen.runtime, seen.version
	out.RequestTimeoutMillis = seen.requestTimeout.Milliseconds()
	return out
}

// visit asks the runtime for its greeting.
func visit(ctx context.Context, socket string) (greeting, error) {
	v := &visitor{seen: make(chan greeting, 1)}
	var err error
	v.stub, err = stub.New(v, stub.WithPluginName(pluginName), stub.WithPluginIdx(pluginIndex),
		stub.WithSocketPath(socket), stub.WithLogger(silent{}))
	if err != nil {
		return greeting{}, err
	}
	return hear(ctx, v.stub, v.seen)
}

// hear starts a plugin and returns what it is told. The stub itself would wait for
// ever for a runtime that accepts and says nothing. Its error does not count for a
// plugin that was told: the runtime closes the connection once it is refused, often
// before the stub has read the answer to its registration.
func hear[T any](ctx context.Context, plugin stub.Stub, told <-chan T) (T, error) {
	ended := make(chan error, 1)
	go func() { ended <- plugin.Start(ctx) }()
	var none T
	select {
	case err := <-ended:
		if err == nil {
			break
		}
		select {
		case t := <-told:
			return t, nil
		default:
			return none, err
		}
	case <-ctx.Done():
	}
	select {
	case t := <-told:
		return t, nil
	case <-ctx.Done():
		return none, fmt.Errorf("the runtime did not answer: %w", ctx.Err())
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
