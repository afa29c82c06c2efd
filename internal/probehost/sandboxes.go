package probehost

import (
	"context"
	"fmt"

	nri "github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
	securejoin "github.com/cyphar/filepath-securejoin"
)

// guest is a plugin that leaves as soon as the runtime has told it of all
// sandboxes: before that the runtime does not ask a plugin about any event.
type guest struct {
	sandboxes chan []*nri.PodSandbox
}

// Synchronize takes note of the sandboxes, and refuses.
func (g guest) Synchronize(_ context.Context, pods []*nri.PodSandbox, _ []*nri.Container) ([]*nri.ContainerUpdate, error) {
	select {
	case g.sandboxes <- pods:
	default: // it was told before
	}
	return nil, errSeen
}

// PostUpdateContainer is never called; a stub that handles no event is an error.
func (g guest) PostUpdateContainer(context.Context, *nri.PodSandbox, *nri.Container) error {
	return nil
}

// Sandboxes asks the container runtime by NRI for the IDs of all sandboxes that
// it knows. root is the host's, socket a path in it.
func Sandboxes(ctx context.Context, root, socket string) ([]string, error) {
	inside, err := securejoin.SecureJoin(root, socket)
	if err != nil {
		return nil, fmt.Errorf("asking the container runtime by NRI: %w", err)
	}
	g := guest{make(chan []*nri.PodSandbox, 1)}
	s, err := stub.New(g, stub.WithPluginName(pluginName), stub.WithPluginIdx(pluginIndex),
		stub.WithSocketPath(inside), stub.WithLogger(silent{}), stub.WithOnClose(func() {}))
	if err != nil {
		return nil, fmt.Errorf("asking the container runtime by NRI: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, nriWait)
	defer cancel()
	// It is not stopped: the stub would wait for its own end, which comes with
	// that of the process at the latest.
	pods, err := hear(ctx, s, g.sandboxes)
	if err != nil {
		return nil, fmt.Errorf("asking the container runtime by NRI at %s for its sandboxes: %w", socket, err)
	}
	out := make([]string, 0, len(pods))
	for _, p := range pods {
		out = append(out, p.GetId())
	}
	return out, nil
}
