package nodecmd

import (
	"context"
	"fmt"

	nri "github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
	securejoin "github.com/cyphar/filepath-securejoin"
)

// guest is a plugin that disconnects as soon as it has the runtime's list of sandboxes.
// Before then, the runtime sends a plugin no events.
type guest struct {
	sandboxes chan []*nri.PodSandbox
}

// Synchronize passes on the sandboxes, and refuses.
func (g guest) Synchronize(_ context.Context, pods []*nri.PodSandbox, _ []*nri.Container) ([]*nri.ContainerUpdate, error) {
	select {
	case g.sandboxes <- pods:
	default: // it has them already
	}
	return nil, errDone
}

// PostUpdateContainer does nothing. The runtime never calls it, but a stub needs a handler.
func (g guest) PostUpdateContainer(context.Context, *nri.PodSandbox, *nri.Container) error {
	return nil
}

// listSandboxes returns the IDs of all sandboxes that the container runtime knows, by NRI.
// root is the host's root directory, and socket a path in it.
func listSandboxes(ctx context.Context, root, socket string) ([]string, error) {
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
	// The stub is not stopped, because Stop would wait for its end, which may come
	// only with the end of the process.
	pods, err := receive(ctx, s, g.sandboxes)
	if err != nil {
		return nil, fmt.Errorf("asking the container runtime by NRI at %s for its sandboxes: %w", socket, err)
	}
	out := make([]string, 0, len(pods))
	for _, p := range pods {
		out = append(out, p.GetId())
	}
	return out, nil
}
