package cluster

import (
	"context"
	"fmt"
	"os"
	"slices"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// RuntimeVariable names the environment variable that chooses the container runtime of all
// nodes: containerd, the default, or crio.
const RuntimeVariable = "NADRA_RUNTIME"

// containerRuntime has what differs between the container runtimes of nodes. There are two
// implementations: containerd and crio.
type containerRuntime interface {
	// name returns the name of the component.
	name() string
	// socket returns the path of CRI's socket.
	socket() string
	// folders returns the folders of programs.
	folders() []string
	// disk returns the folders on the node's own disk: path in the machine → name on the disk.
	disk() map[string]string
	// files returns the files that the machine has in place of the real machine's.
	files(n *Node) []bind
	// program returns the component, which reads the files of configure.
	program(n *Node) component
	// configure writes the runtime's configuration.
	configure(n *Node, options Options) error
	// importImage imports the image in an archive, and tagImage gives an image another name.
	importImage(ctx context.Context, n *Node, archive string) error
	tagImage(ctx context.Context, n *Node, image, name string) error
	// usesPlugin reports whether the next sandbox's CNI configuration has a plugin.
	usesPlugin(ctx context.Context, n *Node, plugin string) (bool, error)
	// endSandbox ends a sandbox without the kubelet.
	endSandbox(ctx context.Context, n *Node, id string) error
	// removesNamespaceFirst reports whether a sandbox's network namespace is gone when NRI
	// reports the sandbox's end.
	removesNamespaceFirst() bool
	// reportsOlderSandboxes reports whether NRI reports the end of sandboxes that are older
	// than the runtime's process.
	reportsOlderSandboxes() bool
	// bundles returns where the runtime keeps its containers.
	bundles(n *Node) Bundles
	// ended returns the IDs of containers that have ended, if the runtime may have missed it.
	ended(ctx context.Context, n *Node) ([]string, error)
}

// runtime returns the container runtime whose programs were built.
func (a Artifacts) runtime() containerRuntime {
	if a.CRIO != "" {
		return crio{a}
	}
	return containerd{a}
}

// wantsCRIO reports whether nodes run CRI-O.
func wantsCRIO() bool { return os.Getenv(RuntimeVariable) == CRIO }

// checkRuntimeVariable rejects other names of runtimes.
func checkRuntimeVariable() error {
	if name := os.Getenv(RuntimeVariable); name != "" && name != Containerd && name != CRIO {
		return fmt.Errorf("%s is %q: it must be %s, %s or empty", RuntimeVariable, name, Containerd, CRIO)
	}
	return nil
}

// Bundles describes where a runtime keeps the OCI configurations of its containers.
type Bundles struct {
	// Dir has a folder for each container, by its ID, and Config and PID are paths in it:
	// of the OCI configuration, and of the file with the PID of the first process.
	Dir, Config, PID string
	// Name, Namespace, Pod, PodUID, Sandbox and Kind are the annotations in the configuration. Kind is
	// "sandbox" or "container".
	Name, Namespace, Pod, PodUID, Sandbox, Kind string
	// Pause is true if a running sandbox has a process of its own.
	Pause bool
}

// Runtime is the container runtime of a node.
type Runtime struct {
	node *Node
	kind containerRuntime
}

// Runtime returns the node's container runtime.
func (n *Node) Runtime() Runtime { return Runtime{n, n.artifacts.runtime()} }

// Name returns the name of the runtime's component.
func (r Runtime) Name() string { return r.kind.name() }

// Bundles returns where the runtime keeps its containers.
func (r Runtime) Bundles() Bundles { return r.kind.bundles(r.node) }

// RemovesNamespaceFirst reports whether a sandbox's network namespace is gone when NRI
// reports the sandbox's end.
func (r Runtime) RemovesNamespaceFirst() bool { return r.kind.removesNamespaceFirst() }

// ReportsOlderSandboxes reports whether NRI reports the end of sandboxes that are older than
// the runtime's process.
func (r Runtime) ReportsOlderSandboxes() bool { return r.kind.reportsOlderSandboxes() }

// TagImage gives an image another name.
func (r Runtime) TagImage(ctx context.Context, image, name string) error {
	return r.kind.tagImage(ctx, r.node, image, name)
}

// Uses reports whether a plugin is in the CNI configuration that the runtime will use for
// the next sandbox.
func (r Runtime) Uses(ctx context.Context, plugin string) (bool, error) {
	return r.kind.usesPlugin(ctx, r.node, plugin)
}

// EndSandbox ends a running sandbox behind the kubelet's back.
func (r Runtime) EndSandbox(ctx context.Context, id string) error {
	return r.kind.endSandbox(ctx, r.node, id)
}

// RunningContainers returns the number of a pod's running containers.
func (r Runtime) RunningContainers(ctx context.Context, podUID string) (count int, err error) {
	ids, err := r.running(ctx, map[string]string{"io.kubernetes.pod.uid": podUID})
	return len(ids), err
}

// MissedEnds returns the IDs of containers that have ended, and that the runtime takes for running.
func (r Runtime) MissedEnds(ctx context.Context) (missed []string, err error) {
	ended, err := r.kind.ended(ctx, r.node)
	if err != nil || len(ended) == 0 {
		return nil, err
	}
	ids, err := r.running(ctx, nil)
	return slices.DeleteFunc(ids, func(id string) bool { return !slices.Contains(ended, id) }), err
}

// running returns the IDs of the running containers with these labels, as the runtime knows them.
func (r Runtime) running(ctx context.Context, labels map[string]string) (ids []string, err error) {
	err = r.node.askRuntime(func(runtime runtimeapi.RuntimeServiceClient) error {
		list, err := runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
			State:         &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
			LabelSelector: labels,
		}})
		for _, c := range list.GetContainers() {
			ids = append(ids, c.Id)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listing the running containers of %s: %w", r.node.name, err)
	}
	return ids, nil
}

// runtimeComponent returns the node's container runtime. It works when CRI answers: before
// that a runtime recovers its containers, and a kubelet that asks ends.
func (n *Node) runtimeComponent() component {
	c := n.artifacts.runtime().program(n)
	c.check = func(ctx context.Context) error {
		return n.askRuntime(func(runtime runtimeapi.RuntimeServiceClient) error {
			_, err := runtime.Version(ctx, &runtimeapi.VersionRequest{})
			return err
		})
	}
	return c
}
