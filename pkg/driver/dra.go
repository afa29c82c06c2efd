package driver

import (
	"context"
	"errors"
	"fmt"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/internal/failpoint"
	"github.com/nadra-dev/nadra/pkg/api/reason"
)

const (
	// runtimeWait is how long Prepare waits for the container runtime before
	// it refuses; below the kubelet's 45 s per call. Waiting is cheaper than
	// failing: a failed Prepare is retried only after 60–90 s.
	runtimeWait = 30 * time.Second
	// unprepareTime is how long one call waits for its DELs, below the same 45 s.
	// DELs that take longer go on, and the kubelet asks again.
	unprepareTime = 35 * time.Second
)

// plugin is what the kubelet calls, by way of the kubeletplugin helper.
type plugin struct{ d *Driver }

var _ kubeletplugin.DRAPlugin = plugin{}

// PrepareResourceClaims resolves the claims of one pod against the NADs of
// this moment and notes everything that the sandbox hook will need, and the
// gate that refers to it. It touches nothing else on the node, and a failure
// leaves nothing behind. It is all or nothing for the pod, and repeating it
// gives the same answer.
func (p plugin) PrepareResourceClaims(ctx context.Context, claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	defer failpoint.Soon(failpoint.AfterPrepared)
	defer failpoint.Reach(failpoint.BeforePrepared)
	if err := p.d.waitForRuntime(ctx); err != nil {
		return nil, err
	}
	failed := p.d.prepare(ctx, claims)
	p.d.lookAtHealth()
	results := map[types.UID]kubeletplugin.PrepareResult{}
	for _, claim := range claims {
		if err := failed[claim.UID]; err != nil {
			p.d.reportPrepareFailure(claim, err)
			results[claim.UID] = kubeletplugin.PrepareResult{Err: err}
			continue
		}
		results[claim.UID] = kubeletplugin.PrepareResult{Devices: p.d.devicesOf(p.d.store.ForClaim(string(claim.UID)))}
	}
	return results, nil
}

// UnprepareResourceClaims runs the DELs that are still owed and then forgets.
// It uses only what is on this node: the claims may be gone.
func (p plugin) UnprepareResourceClaims(ctx context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	defer failpoint.Soon(failpoint.AfterUnprepared)
	defer failpoint.Reach(failpoint.BeforeUnprepared)
	ctx, cancel := context.WithTimeoutCause(ctx, unprepareTime, reason.Errorf(reason.DELUnfinished, "the time for unpreparing is over"))
	defer cancel()
	results := map[types.UID]error{}
	for _, claim := range claims {
		results[claim.UID] = p.d.unprepare(ctx, string(claim.UID))
	}
	return results, nil
}

// HandleError is told of errors in the background, above all while publishing.
func (p plugin) HandleError(ctx context.Context, err error, msg string) {
	var dropped *resourceslice.DroppedFieldsError
	if errors.As(err, &dropped) && p.d.dropped(dropped.DisabledFeatures()) {
		klog.FromContext(ctx).Info("The API server dropped fields of our slices; publishing without them", "features", dropped.DisabledFeatures())
		return
	}
	utilruntime.HandleErrorWithContext(ctx, err, msg)
	if !errors.Is(err, kubeletplugin.ErrRecoverable) {
		p.d.fail(fmt.Errorf("%s: %w", msg, err))
		return
	}
	// Publishing has such errors, and health that was told too late; slices that
	// are as they should be are found to be so.
	p.d.slices.doubt(fmt.Errorf("%s: %w", msg, err))
}

// waitForRuntime holds Prepare until the runtime would call our hooks: a pod
// prepared without them would start without its networks (design D4, first guard).
func (d *Driver) waitForRuntime(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, runtimeWait)
	defer cancel()
	if err := d.runtime.wait(ctx); err != nil {
		return reason.Errorf(reason.RuntimeNotConnected, "the container runtime has not connected nadra's NRI plugin on %s: "+
			"enable NRI in the runtime's configuration: %w", d.cfg.NRISocket, err)
	}
	return nil
}
