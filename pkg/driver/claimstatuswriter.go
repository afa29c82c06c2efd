package driver

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	resourceac "k8s.io/client-go/applyconfigurations/resource/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/internal/failpoint"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

const (
	// statusTimeout bounds one write to the API server.
	statusTimeout = 10 * time.Second
	// statusDrain bounds the writes that are left when the driver stops.
	statusDrain = 5 * time.Second
	// claimRetryMin and claimRetryMax bound the pause before a claim's status is
	// written again, and claimRetries how often that is.
	claimRetryMin = 100 * time.Millisecond
	claimRetryMax = time.Minute
	claimRetries  = 15
)

// claimStatusWriter writes status.devices of claims, behind a queue: no pod
// waits for it.
type claimStatusWriter struct {
	kube   kubernetes.Interface
	driver string
	outbox *outbox[attachment.ClaimRef, claimStatus]
}

// claimStatus is what a claim is to say of its devices.
type claimStatus struct {
	devices []deviceState
	// at is when they became so.
	at time.Time
	// repair asks to write only what the claim does not say already.
	repair bool
}

func newClaimStatusWriter(kube kubernetes.Interface, driver string) *claimStatusWriter {
	return &claimStatusWriter{
		kube: kube, driver: driver,
		outbox: newOutbox[attachment.ClaimRef, claimStatus](claimRetryMin, claimRetryMax),
	}
}

// set has the claim's status.devices become these.
func (w *claimStatusWriter) set(claim attachment.ClaimRef, devices []deviceState) {
	w.outbox.put(claim, func(claimStatus, bool) claimStatus {
		return claimStatus{devices: devices, at: time.Now()}
	})
}

// amend has the claim's status.devices become these where they differ. An
// update that is pending is written in any case: its addresses may be others.
func (w *claimStatusWriter) amend(claim attachment.ClaimRef, devices []deviceState) {
	w.outbox.put(claim, func(pending claimStatus, found bool) claimStatus {
		return claimStatus{devices: devices, at: time.Now(), repair: !found || pending.repair}
	})
}

// forget drops what is pending for a claim.
func (w *claimStatusWriter) forget(claim attachment.ClaimRef) { w.outbox.forget(claim) }

// run writes until ctx ends, and then for a moment what is still in the queue.
func (w *claimStatusWriter) run(ctx context.Context) {
	w.outbox.run(ctx, 1, statusDrain, w.write)
}

// write writes one claim's status. It returns an error where that is to be tried
// again: not when the claim is gone or another one has its name, and not for ever.
func (w *claimStatusWriter) write(ctx context.Context, claim attachment.ClaimRef, p pendingUpdate[claimStatus], tries int) error {
	failpoint.Reach(failpoint.BeforeStatusWrite)
	defer failpoint.Reach(failpoint.AfterStatusWrite)
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	err := w.apply(ctx, claim, p.update)
	logger := klog.FromContext(ctx)
	switch {
	case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil
	case tries >= claimRetries:
		logger.Error(err, "Giving up writing a claim's status", "claim", claim)
		return nil
	}
	logger.V(2).Info("Writing a claim's status failed; trying again", "claim", claim, "err", err)
	return err
}

// apply makes one server-side apply with all devices of the claim: with one for
// each device, each would take away the one before.
func (w *claimStatusWriter) apply(ctx context.Context, claim attachment.ClaimRef, u claimStatus) error {
	if u.repair {
		current, err := w.kube.ResourceV1().ResourceClaims(claim.Namespace).Get(ctx, claim.Name, metav1.GetOptions{})
		if err != nil || string(current.UID) != claim.UID || isReported(current, w.driver, u.devices) {
			return err
		}
	}
	status := resourceac.ResourceClaimStatus()
	for _, d := range u.devices {
		status.WithDevices(d.apply(w.driver, u.at))
	}
	ac := resourceac.ResourceClaim(claim.Name, claim.Namespace).WithUID(types.UID(claim.UID)).WithStatus(status)
	_, err := w.kube.ResourceV1().ResourceClaims(claim.Namespace).ApplyStatus(ctx, ac,
		metav1.ApplyOptions{FieldManager: w.driver, Force: true})
	if apierrors.IsInvalid(err) {
		err = w.update(ctx, claim, status)
	}
	return err
}

// update reads and writes the claim where an apply is refused. The API server
// (1.36) handles an apply by writing the whole claim again, the opaque parameters
// in its allocation with sorted keys and other numbers; where a client wrote them
// differently, it takes that for a change of the allocation, and answers "field
// is immutable".
func (w *claimStatusWriter) update(ctx context.Context, claim attachment.ClaimRef, status *resourceac.ResourceClaimStatusApplyConfiguration) error {
	raw, err := json.Marshal(status)
	if err != nil {
		return err
	}
	var ours resourceapi.ResourceClaimStatus
	if err := json.Unmarshal(raw, &ours); err != nil {
		return err
	}
	claims := w.kube.ResourceV1().ResourceClaims(claim.Namespace)
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		current, err := claims.Get(ctx, claim.Name, metav1.GetOptions{})
		if err != nil || string(current.UID) != claim.UID {
			return err
		}
		current.Status.Devices = append(slices.DeleteFunc(current.Status.Devices, func(d resourceapi.AllocatedDeviceStatus) bool {
			return d.Driver == w.driver
		}), ours.Devices...)
		_, err = claims.UpdateStatus(ctx, current, metav1.UpdateOptions{FieldManager: w.driver})
		return err
	})
}
