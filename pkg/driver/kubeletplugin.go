package driver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"golang.org/x/sys/unix"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/internal/failpoint"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/driver/internal/background"
)

const (
	// runtimeWait is how long Prepare waits for the container runtime before it refuses. It
	// is below the kubelet's 45 s for one call. Waiting is cheaper than failing: the kubelet
	// retries a failed Prepare only after 60–90 s.
	runtimeWait = 30 * time.Second
	// unprepareWait is how long one call waits for its DELs, below the same 45 s. DELs that
	// take longer continue, and the kubelet calls again.
	unprepareWait = 35 * time.Second
)

// plugin answers the kubelet, by way of the kubeletplugin helper.
type plugin struct {
	*parts
	*publishers
	// prepared is set when claims were prepared. The kubelet then has their devices' health
	// when it first writes the pod's status, and need not write it again. If two streams are
	// open, the one that is about to end may take the signal from the other, which then
	// reports at its next turn.
	prepared background.Trigger
	calls    kubeletCalls
}

var _ kubeletplugin.DRAPlugin = (*plugin)(nil)

// PrepareResourceClaims prepares the claims of one pod, and measures how long the kubelet waits. An error of the call
// counts for all claims.
func (p *plugin) PrepareResourceClaims(ctx context.Context, claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	end, err := p.calls.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	started := time.Now()
	results, err := p.prepare(ctx, claims)
	failed := 0
	for _, claim := range claims {
		if err != nil || results[claim.UID].Err != nil {
			failed++
		}
	}
	p.cfg.Metrics.Prepared(len(claims), failed, time.Since(started))
	return results, err
}

// prepare resolves the claims of one pod against the present NADs and records
// everything that the sandbox hook will need, and the gate that refers to it. It changes
// nothing else on the node, and a failure leaves nothing behind. It prepares all claims of
// the pod or none. A repeated call gives the same answer.
func (p *plugin) prepare(ctx context.Context, claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	defer failpoint.Soon(failpoint.AfterPrepared)
	defer failpoint.Reach(failpoint.BeforePrepared)
	if err := p.waitForLoad(ctx); err != nil {
		p.retrigger.registered.Set() // so that the kubelet tries the pod again
		return nil, err
	}
	if err := p.waitForRuntime(ctx); err != nil {
		return nil, err
	}
	failed := p.preparer.prepare(ctx, claims)
	p.prepared.Set()
	results := map[types.UID]kubeletplugin.PrepareResult{}
	for _, claim := range claims {
		if err := failed[claim.UID]; err != nil {
			p.report.prepareFailed(claim, err)
			results[claim.UID] = kubeletplugin.PrepareResult{Err: err}
			continue
		}
		results[claim.UID] = kubeletplugin.PrepareResult{Devices: p.cfg.kubeletDevices(p.store.ForClaim(string(claim.UID)))}
	}
	return results, nil
}

// UnprepareResourceClaims unprepares claims, and measures the call.
func (p *plugin) UnprepareResourceClaims(ctx context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	end, err := p.calls.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	started := time.Now()
	results, err := p.unprepare(ctx, claims)
	failed := 0
	for _, claim := range claims {
		if err != nil || results[claim.UID] != nil {
			failed++
		}
	}
	p.cfg.Metrics.Unprepared(len(claims), failed, time.Since(started))
	return results, err
}

// unprepare runs the DELs that are left and then removes the records. It uses
// only what is on this node: the claims may be gone.
func (p *plugin) unprepare(ctx context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	defer failpoint.Soon(failpoint.AfterUnprepared)
	defer failpoint.Reach(failpoint.BeforeUnprepared)
	if err := p.waitForLoad(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, unprepareWait, reason.Errorf(reason.DELUnfinished, "the time for unpreparing is over"))
	defer cancel()
	results := map[types.UID]error{}
	for _, claim := range claims {
		results[claim.UID] = p.preparer.unprepare(ctx, string(claim.UID))
	}
	return results, nil
}

// WatchHealthStatus reports the health of devices to the kubelet (KEP-4680).
func (p *plugin) WatchHealthStatus(ctx context.Context, reports chan<- kubeletplugin.DeviceHealthReport) error {
	if err := p.waitForLoad(ctx); err != nil {
		return err
	}
	return p.watchHealth(ctx, reports)
}

// HandleError handles errors in the background, mostly of publishing.
func (p *plugin) HandleError(ctx context.Context, err error, msg string) {
	var dropped *resourceslice.DroppedFieldsError
	if errors.As(err, &dropped) && p.features.dropped(dropped.DisabledFeatures()) {
		klog.FromContext(ctx).Info("The API server dropped fields of the slices; publishing without them", "features", dropped.DisabledFeatures())
		return
	}
	utilruntime.HandleErrorWithContext(ctx, err, msg)
	if !errors.Is(err, kubeletplugin.ErrRecoverable) {
		p.fail(fmt.Errorf("%s: %w", msg, err))
		return
	}
	// These are errors of publishing, and of late reports of health. If the slices are
	// complete, the tracker finds out.
	p.slices.WriteFailed(fmt.Errorf("%s: %w", msg, err))
}

// waitForLoad delays a call until the driver has read the networks and its node. The driver
// registers before that: the kubelet fails the pods that it starts meanwhile, and tries them
// again only after 60–90 s.
func (p *plugin) waitForLoad(ctx context.Context) error {
	if !background.Await(ctx, p.loaded) {
		return fmt.Errorf("waiting until the driver has read the networks: %w", context.Cause(ctx))
	}
	return nil
}

// waitForRuntime delays Prepare until the runtime calls the hooks: a pod that is prepared
// without them would start without its networks.
func (p *plugin) waitForRuntime(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, runtimeWait)
	defer cancel()
	if err := p.runtime.wait(ctx); err != nil {
		return reason.Errorf(reason.RuntimeNotConnected, "the container runtime has not connected nadra's NRI plugin on %s: "+
			"enable NRI in the runtime's configuration: %w", p.cfg.NRISocket, err)
	}
	return nil
}

// startKubeletPlugin registers the driver with the kubelet.
//
// Each start has sockets of its own names, so that the kubelet can be connected to a driver and its
// successor at a time; it calls the one that has registered last. (kubeletplugin.RollingUpdate names
// them by the pod, and a pod's container may be restarted.) A registration socket that a driver leaves when the
// node loses its power is in the directory when the kubelet starts, and the kubelet dials it for
// 10 s, with pauses of up to 4 s (pluginmanager/operationexecutor: dial). It takes a new socket
// of the same name only within these pauses, and then registers it once more, for which it first
// closes the connection of the first pods (pluginmanager/reconciler). It dials a socket of a new
// name within a second.
func (d *Driver) startKubeletPlugin(ctx context.Context) (*kubeletplugin.Helper, error) {
	if err := d.makeSocketDirs(); err != nil {
		return nil, err
	}
	registrar, service := socketNames(d.started)
	helper, err := kubeletplugin.Start(ctx, d.plugin, append(metadataOptions(d.cfg),
		kubeletplugin.DriverName(v1alpha1.DriverName),
		kubeletplugin.KubeClient(d.clients.Kube),
		kubeletplugin.NodeName(d.cfg.NodeName),
		kubeletplugin.PluginDataDirectoryPath(d.cfg.pluginDir()),
		kubeletplugin.RegistrarDirectoryPath(d.cfg.KubeletRegistryDir),
		kubeletplugin.RegistrarSocketFilename(registrar),
		kubeletplugin.PluginSocket(service),
		// Pods are prepared in parallel: a Prepare that waits, or an Unprepare with a slow
		// plugin, must not delay others. Each pod has its lock.
		kubeletplugin.Serialize(false),
		kubeletplugin.GRPCInterceptor(d.retrigger.intercept),
	)...)
	if err != nil {
		return nil, fmt.Errorf("registering with the kubelet: %w", err)
	}
	return helper, nil
}

// makeSocketDirs makes the plugin directory. It returns an error if the driver cannot make sockets in it, or in
// the kubelet's registration directory.
func (n *node) makeSocketDirs() error {
	if err := os.MkdirAll(n.cfg.pluginDir(), 0o750); err != nil {
		return fmt.Errorf("making the plugin directory: %w", err)
	}
	for _, dir := range []string{n.cfg.pluginDir(), n.cfg.KubeletRegistryDir} {
		if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
			return fmt.Errorf("making sockets in %s: %w", dir, err)
		}
	}
	return nil
}

// socketNames returns the names of the registration socket, and of the socket for calls, of a driver
// that was started at a time.
func socketNames(started time.Time) (registrar, service string) {
	id := fmt.Sprintf("%016x", started.UnixNano())
	return v1alpha1.DriverName + "-" + id + "-reg.sock", "dra-" + id + ".sock"
}

// removeStaleSockets removes the sockets of earlier drivers, which did not end in an orderly way,
// also those without the time in their names. The state directory's lock ensures that none of
// them runs.
func (d *Driver) removeStaleSockets() error {
	registrar, service := socketNames(d.started)
	stale := regexp.MustCompile("^" + regexp.QuoteMeta(v1alpha1.DriverName) + "(-[0-9a-f]{16})?-reg\\.sock$|^dra(-[0-9a-f]{16})?\\.sock$")
	for _, dir := range []string{d.cfg.KubeletRegistryDir, d.cfg.pluginDir()} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return fmt.Errorf("looking for sockets of earlier drivers: %w", err)
		}
		for _, e := range entries {
			if name := e.Name(); !stale.MatchString(name) || name == registrar || name == service {
				continue
			}
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("removing the socket of an earlier driver: %w", err)
			}
		}
	}
	return nil
}
