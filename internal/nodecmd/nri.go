package nodecmd

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
	// pluginIndex is the last one: the probe disconnects before its turn.
	pluginIndex = "99"
	// nriWait limits the time until the runtime configures the plugin. The runtime
	// waits 5 s for another plugin that keeps it busy.
	nriWait = 15 * time.Second
)

// errDone ends the connection to the runtime. The runtime logs its text.
var errDone = errors.New("nadra-probe has its answer, and disconnects")

// visitor is a plugin that refuses its configuration. So it gets the runtime's request
// timeout, and is never subscribed to events: a plugin that asks for no events would get
// all of them.
type visitor struct {
	stub       stub.Stub
	configured chan greeting // with a capacity of 1
}

// greeting is the information with which a runtime configures a plugin.
type greeting struct {
	runtime, version string
	requestTimeout   time.Duration
}

// Configure passes on the runtime's greeting, and refuses.
func (v *visitor) Configure(_ context.Context, _, runtime, version string) (nri.EventMask, error) {
	v.configured <- greeting{runtime, version, v.stub.RequestTimeout()}
	return 0, errDone
}

// PostUpdateContainer does nothing. The runtime never calls it, but a stub needs a handler.
func (v *visitor) PostUpdateContainer(context.Context, *nri.PodSandbox, *nri.Container) error {
	return nil
}

// nri connects to the runtime as a plugin.
func (l *inspection) nri(ctx context.Context) probe.NRI {
	out := probe.NRI{Socket: l.NRISocket}
	socket, err := l.inside(l.NRISocket)
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
	g, err := visit(ctx, socket)
	if err != nil {
		out.Error = fmt.Sprintf("connecting to NRI: %v", err)
		return out
	}
	out.Answers, out.Runtime, out.RuntimeVersion = true, g.runtime, g.version
	out.RequestTimeoutMillis = g.requestTimeout.Milliseconds()
	return out
}

// visit returns the runtime's greeting.
func visit(ctx context.Context, socket string) (greeting, error) {
	v := &visitor{configured: make(chan greeting, 1)}
	var err error
	v.stub, err = stub.New(v, stub.WithPluginName(pluginName), stub.WithPluginIdx(pluginIndex),
		stub.WithSocketPath(socket), stub.WithLogger(silent{}))
	if err != nil {
		return greeting{}, err
	}
	return receive(ctx, v.stub, v.configured)
}

// receive starts a plugin and returns the first value from its handler. The stub itself
// would wait forever for a runtime that accepts the connection and does not answer. Its
// error does not matter once there is a value: the runtime closes the connection after the
// refusal, often before the stub has read the answer to its registration.
func receive[T any](ctx context.Context, plugin stub.Stub, values <-chan T) (T, error) {
	ended := make(chan error, 1)
	go func() { ended <- plugin.Start(ctx) }()
	var none T
	select {
	case err := <-ended:
		if err == nil {
			break
		}
		select {
		case t := <-values:
			return t, nil
		default:
			return none, err
		}
	case <-ctx.Done():
	}
	select {
	case t := <-values:
		return t, nil
	case <-ctx.Done():
		return none, fmt.Errorf("the runtime did not answer: %w", ctx.Err())
	}
}

// silent is a logger that logs nothing: the pod's log, which has standard output and
// standard error, is for the report.
type silent struct{}

var _ nrilog.Logger = silent{}

func (silent) Debugf(context.Context, string, ...any) {}
func (silent) Infof(context.Context, string, ...any)  {}
func (silent) Warnf(context.Context, string, ...any)  {}
func (silent) Errorf(context.Context, string, ...any) {}
