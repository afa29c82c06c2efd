package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	nadclient "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/client/clientset/versioned"
	"golang.org/x/sys/unix"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/internal/metrics"
	"github.com/nadra-dev/nadra/pkg/driver"
)

// gcPercent is how much the heap may grow over the memory in use, because the driver makes
// little garbage, and its memory is taken from the node's pods. GOGC overrides it.
const gcPercent = 25

// runDriver runs the node driver until ctx ends.
func runDriver(ctx context.Context, args []string) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	o, err := parse(args)
	if err != nil {
		return err
	}
	config, err := restConfig(o.kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the API server's address: %w", err)
	}
	clients, err := newClients(config)
	if err != nil {
		return err
	}
	o.Metrics = metrics.NewNode()
	health := &podHealth{started: time.Now()}
	serving := &withMetrics{address: o.httpAddress}
	o.Serving = func(ctx context.Context) error { return o.serveHTTP(ctx, serving, func() { serving.open.Store(true) }) }
	d, err := driver.New(ctx, o.Config, clients)
	if err != nil {
		return err
	}
	if err := mountProc(o.HostRoot); err != nil {
		return err
	}
	serving.healthy = d
	health.set(serving)
	if err := health.serve(ctx, o.healthSocket); err != nil {
		return err
	}
	err = d.Run(ctx)
	if !errors.Is(err, driver.ErrHandedOver) {
		return err
	}
	return awaitSuccessorEnd(ctx, health, o.StateDir, o.HostRoot, err)
}

// awaitSuccessorEnd waits in a pod that has handed over, until the rollout deletes the pod. If
// its successor ends first, the program starts again, and takes the state directory. It does so in
// its container: while that was restarted, the pod would not be ready, and the DaemonSet controller would
// delete it.
func awaitSuccessorEnd(ctx context.Context, health *podHealth, dir, hostRoot string, handed error) error {
	health.set(handedOver{handed})
	klog.FromContext(ctx).Info("Ended; waiting for the deletion of this pod", "reason", handed.Error())
	debug.FreeOSMemory()
	if err := driver.AwaitSuccessorEnd(ctx, dir); err != nil {
		return unlessEnded(ctx, err)
	}
	klog.FromContext(ctx).Info("The driver that has taken over has ended; starting again")
	klog.Flush()
	if hostRoot != "/" { // the next start reads the host's boot ID, and mounts it again
		if err := unix.Unmount(hostRoot+"/proc", unix.MNT_DETACH); err != nil {
			return fmt.Errorf("unmounting /proc for CNI plugins: %w", err)
		}
	}
	program, err := os.Executable() // its name is that of the process, which /proc/self/exe would make "exe"
	if err != nil {
		return fmt.Errorf("starting again: %w", err)
	}
	return unix.Exec(program, os.Args, os.Environ())
}

// unlessEnded returns err, or nil if ctx has ended: the process was asked to end.
func unlessEnded(ctx context.Context, err error) error {
	select {
	case <-ctx.Done():
		return nil
	default:
		return err
	}
}

// mountProc mounts this PID namespace's /proc over the host's, for CNI plugins only:
// the mount is in the driver's own mount namespace. Plugins find themselves by their
// PID, which belongs to another process in the host's /proc. Without the mount, the
// driver would have to share the host's PID namespace.
func mountProc(hostRoot string) error {
	if hostRoot == "/" {
		return nil
	}
	if err := unix.Mount("proc", hostRoot+"/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mounting /proc for CNI plugins on %s/proc: %w", hostRoot, err)
	}
	return nil
}

// restConfig returns the configuration in a kubeconfig file, or that of the pod if
// there is no file.
func restConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		return rest.InClusterConfig()
	}
	return clientcmd.BuildConfigFromFlags("", kubeconfig)
}

// newClients returns the driver's clients. They share a rate limit, except for the one
// that stores network-status.
func newClients(config *rest.Config) (driver.Clients, error) {
	config = rest.CopyConfig(config)
	config.UserAgent = "nadra-node"
	config.QPS, config.Burst = 50, 100
	nads, err := nadclient.NewForConfig(config)
	if err != nil {
		return driver.Clients{}, fmt.Errorf("making the client for NetworkAttachmentDefinitions: %w", err)
	}
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return driver.Clients{}, fmt.Errorf("making the client for Kubernetes: %w", err)
	}
	unlimited := rest.CopyConfig(config)
	unlimited.QPS = -1
	status, err := kubernetes.NewForConfig(unlimited)
	if err != nil {
		return driver.Clients{}, fmt.Errorf("making the client for network-status: %w", err)
	}
	meta, err := metadata.NewForConfig(config)
	if err != nil {
		return driver.Clients{}, fmt.Errorf("making the client for metadata: %w", err)
	}
	config.ContentType, config.AcceptContentTypes = "application/json", "application/json" // the only type of custom resources
	dyn, err := dynamic.NewForConfig(config)
	if err != nil {
		return driver.Clients{}, fmt.Errorf("making the client for SriovNetworkNodePolicies: %w", err)
	}
	return driver.Clients{Kube: kube, NetworkStatus: status, NADs: nads, Metadata: meta, Dynamic: dyn}, nil
}
