package claimstatus

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
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/driver/internal/background"
)

const (
	// writeTimeout limits one write to the API server.
	writeTimeout = 10 * time.Second
	// shortestPause and longestPause limit the pause before a status is written again,
	// and maxTries the number of tries.
	shortestPause = 100 * time.Millisecond
	longestPause  = time.Minute
	maxTries      = 15
)

// Writer stores status.devices of claims. It works behind a queue: no pod waits for it.
type Writer struct {
	*background.Outbox[attachment.ClaimRef, update]
	kube kubernetes.Interface
	// node is the name of the driver's node.
	node string
}

// update is a claim's pending status.
type update struct {
	devices []Device
	// at is the transition time of the devices' conditions.
	at time.Time
	// repair leaves a claim alone whose status has the devices already.
	repair bool
}

// NewWriter returns a Writer for the claims' devices of the driver of a node.
func NewWriter(kube kubernetes.Interface, node string) *Writer {
	return &Writer{kube: kube, node: node, Outbox: background.New[attachment.ClaimRef, update](shortestPause, longestPause)}
}

// Set queues the devices as the claim's status.
func (w *Writer) Set(claim attachment.ClaimRef, devices []Device) {
	w.Hold(claim, devices)
	w.Release(claim)
}

// Hold keeps the devices as the claim's status, and leaves it to Release to queue it. An earlier status that is still
// queued takes it along.
func (w *Writer) Hold(claim attachment.ClaimRef, devices []Device) {
	w.Outbox.Hold(claim, func(update, bool) update { return update{devices: devices, at: time.Now()} })
}

// Repair queues the devices as the claim's status unless it has them already. A
// pending Set is written in any case, because the claim may have earlier addresses.
func (w *Writer) Repair(claim attachment.ClaimRef, devices []Device) {
	w.Put(claim, func(pending update, found bool) update {
		return update{devices: devices, at: time.Now(), repair: !found || pending.repair}
	})
}

// Pending returns the status that is not stored yet.
func (w *Writer) Pending(claim attachment.ClaimRef) (devices []Device, repair, found bool) {
	p, found := w.Get(claim)
	return p.Update.devices, p.Update.repair, found
}

// Run writes until ctx ends, and then for a short time what is still queued.
func (w *Writer) Run(ctx context.Context) { w.Outbox.Run(ctx, 1, w.write) }

// write stores one claim's status. It returns an error to be called again: not if the
// claim is gone, or another claim has its name, and not after maxTries.
func (w *Writer) write(ctx context.Context, claim attachment.ClaimRef, p background.Pending[update], tries int) error {
	failpoint.Reach(failpoint.BeforeStatusWrite)
	defer failpoint.Reach(failpoint.AfterStatusWrite)
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	err := w.apply(ctx, claim, p.Update)
	logger := klog.FromContext(ctx)
	switch {
	case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil
	case tries >= maxTries:
		logger.Error(err, "Storing a claim's status failed; giving up", "claim", claim)
		return nil
	}
	logger.V(2).Info("Storing a claim's status failed; trying again", "claim", claim, "err", err)
	return err
}

// apply makes one server-side apply with all devices of the claim: an apply replaces
// the devices of the one before.
func (w *Writer) apply(ctx context.Context, claim attachment.ClaimRef, u update) error {
	if u.repair {
		current, err := w.kube.ResourceV1().ResourceClaims(claim.Namespace).Get(ctx, claim.Name, metav1.GetOptions{})
		if err != nil || string(current.UID) != claim.UID || isStored(current, u.devices) {
			return err
		}
	}
	status := resourceac.ResourceClaimStatus()
	for _, d := range u.devices {
		status.WithDevices(d.apply(w.node, u.at))
	}
	ac := resourceac.ResourceClaim(claim.Name, claim.Namespace).WithUID(types.UID(claim.UID)).WithStatus(status)
	_, err := w.kube.ResourceV1().ResourceClaims(claim.Namespace).ApplyStatus(ctx, ac,
		metav1.ApplyOptions{FieldManager: v1alpha1.DriverName, Force: true})
	if apierrors.IsInvalid(err) {
		err = w.update(ctx, claim, status)
	}
	return err
}

// update reads and writes the claim after a refused apply. The API server (1.36)
// writes the whole claim for an apply. It sorts the keys of the opaque parameters in
// the allocation and rewrites their numbers. If a client wrote them differently, the
// API server takes that for a change of the allocation and answers "field is
// immutable".
func (w *Writer) update(ctx context.Context, claim attachment.ClaimRef, status *resourceac.ResourceClaimStatusApplyConfiguration) error {
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
			return d.Driver == v1alpha1.DriverName
		}), ours.Devices...)
		_, err = claims.UpdateStatus(ctx, current, metav1.UpdateOptions{FieldManager: v1alpha1.DriverName})
		return err
	})
}
