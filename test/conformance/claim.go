package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/translate"
)

const poolName = nodeName + "/networks"

// devices returns the devices that nadra publishes, by the networks that they list.
func (w *world) devices(ctx context.Context) (map[attachment.NetworkID]resourceapi.Device, error) {
	list, err := w.kube.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{FieldSelector: "spec.driver=" + v1alpha1.DriverName})
	if err != nil {
		return nil, fmt.Errorf("listing nadra's devices: %w", err)
	}
	out := map[attachment.NetworkID]resourceapi.Device{}
	for _, slice := range list.Items {
		for _, d := range slice.Spec.Devices {
			for id := range attachment.NetworkIDs(d.Attributes) {
				out[id] = d
			}
		}
	}
	return out, nil
}

// claimSpecs returns the specs of the pod's claims: those of its converted manifest, or one
// made from its annotation.
func claimSpecs(c Case, selections []attachment.Selection) ([]resourceapi.ResourceClaimSpec, error) {
	if len(c.Claims) > 0 {
		return c.Claims, nil
	}
	spec, err := attachment.ClaimSpec(selections)
	if err != nil {
		return nil, refusal{err}
	}
	return []resourceapi.ResourceClaimSpec{spec}, nil
}

// claims creates the pod's claims, allocates them as the scheduler would, and reserves them
// for the pod.
func (w *world) claims(ctx context.Context, s sandbox, selections []attachment.Selection) ([]*resourceapi.ResourceClaim, error) {
	specs, err := claimSpecs(s.c, selections)
	if err != nil {
		return nil, err
	}
	var out []*resourceapi.ResourceClaim
	for i, spec := range specs {
		n := len(spec.Devices.Requests)
		if n > len(selections) {
			return nil, fmt.Errorf("claim %d has %d requests for %d networks", i, n, len(selections))
		}
		claim, err := w.claim(ctx, s, claimName(s.pod.Name, i), spec, selections[:n])
		if err != nil {
			return nil, err
		}
		selections = selections[n:]
		out = append(out, claim)
	}
	if len(selections) > 0 {
		return nil, fmt.Errorf("%d networks are in no claim", len(selections))
	}
	return out, nil
}

// claimName returns the name of a pod's claim.
func claimName(pod string, i int) string { return fmt.Sprintf("%s-%d", pod, i) }

func (w *world) claim(ctx context.Context, s sandbox, name string, spec resourceapi.ResourceClaimSpec, selections []attachment.Selection) (*resourceapi.ResourceClaim, error) {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: s.pod.Namespace, Name: name}, Spec: spec}
	claims := w.kube.ResourceV1().ResourceClaims(s.pod.Namespace)
	claim, err := claims.Create(ctx, claim, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("creating the claim: %w", err)
	}
	devices, err := w.devices(ctx)
	if err != nil {
		return nil, err
	}
	claim.Status.Allocation = allocation(claim, selections, devices)
	claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: s.pod.Name, UID: s.pod.UID}}
	if claim, err = claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{}); err != nil {
		return nil, fmt.Errorf("allocating the claim: %w", err)
	}
	return claim, nil
}

// refusal is an error that a user would get; it is no failure of the suite.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

// allocation gives every request a device and the config of its class, as the scheduler does, but also a
// request whose network nadra does not publish: nadra's error says more than that no node has a device.
func allocation(claim *resourceapi.ResourceClaim, selections []attachment.Selection, devices map[attachment.NetworkID]resourceapi.Device) *resourceapi.AllocationResult {
	var out resourceapi.AllocationResult
	for i, request := range claim.Spec.Devices.Requests {
		network := selections[i].Network
		published, ok := devices[attachment.NetworkIDOf(network)]
		result := resourceapi.DeviceRequestAllocationResult{
			Request: request.Name, Driver: v1alpha1.DriverName, Pool: poolName, Device: cmp.Or(published.Name, "none"),
		}
		for _, config := range translate.DeviceClass(network, "").Spec.Config {
			out.Devices.Config = append(out.Devices.Config, resourceapi.DeviceAllocationConfiguration{
				Source: resourceapi.AllocationConfigSourceClass, Requests: []string{request.Name}, DeviceConfiguration: config.DeviceConfiguration,
			})
		}
		if ok && ptr.Deref(published.AllowMultipleAllocations, false) {
			result.ShareID = ptr.To(uuid.NewUUID())
			result.ConsumedCapacity = map[resourceapi.QualifiedName]resource.Quantity{}
			for name := range published.Capacity {
				result.ConsumedCapacity[name] = *resource.NewQuantity(1, resource.DecimalSI)
			}
		}
		out.Devices.Results = append(out.Devices.Results, result)
	}
	for _, config := range claim.Spec.Devices.Config {
		out.Devices.Config = append(out.Devices.Config, resourceapi.DeviceAllocationConfiguration{
			Source: resourceapi.AllocationConfigSourceClaim, Requests: config.Requests, DeviceConfiguration: config.DeviceConfiguration,
		})
	}
	return &out
}

// attached waits until the claim has a status for all its devices. why is the message of a
// device that failed.
func (w *world) attached(ctx context.Context, claim *resourceapi.ResourceClaim) (why string, err error) {
	err = eventually(ctx, 2*time.Minute, func(ctx context.Context) error {
		now, err := w.kube.ResourceV1().ResourceClaims(claim.Namespace).Get(ctx, claim.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(now.Status.Devices) != len(claim.Status.Allocation.Devices.Results) {
			return fmt.Errorf("%d devices of the claim have a status", len(now.Status.Devices))
		}
		for _, d := range now.Status.Devices {
			for _, c := range d.Conditions {
				if c.Status != metav1.ConditionTrue {
					why = c.Message
				}
			}
		}
		return nil
	})
	return why, err
}

// published waits until nadra has seen the NADs that were created so far. It creates one
// more NAD: the informer delivers changes in order, and nadra publishes all networks at a
// time.
func (w *world) published(ctx context.Context) error {
	w.nadra.waves++
	last := Network{
		Namespace: "default", Name: fmt.Sprintf("last-%d", w.nadra.waves),
		Config: `{"cniVersion": "1.0.0", "name": "last", "type": "ptp"}`,
	}
	if err := w.createNetwork(ctx, last); err != nil {
		return err
	}
	w.nadra.offered = map[attachment.NetworkID]bool{}
	lastID := attachment.NetworkIDOf(attachment.NetworkRef{Namespace: last.Namespace, Name: last.Name})
	return eventually(ctx, time.Minute, func(ctx context.Context) error {
		if err := w.nadra.running(); err != nil {
			return err
		}
		devices, err := w.devices(ctx)
		if err != nil {
			return err
		}
		if _, ok := devices[lastID]; !ok {
			return errors.New("nadra-node does not publish the latest NAD")
		}
		for id := range devices {
			w.nadra.offered[id] = true
		}
		return nil
	})
}

// offered waits until the case's networks are published as they were at the beginning.
// nadra withdraws a network for a moment when its master was moved to a pod.
func (w *world) offered(ctx context.Context, c Case) error {
	return eventually(ctx, 2*time.Minute, func(ctx context.Context) error {
		devices, err := w.devices(ctx)
		if err != nil {
			return err
		}
		for _, n := range c.Networks {
			id := attachment.NetworkIDOf(attachment.NetworkRef{Namespace: n.Namespace, Name: n.Name})
			if _, now := devices[id]; w.nadra.offered[id] && !now {
				return fmt.Errorf("nadra-node does not publish %s/%s any more", n.Namespace, n.Name)
			}
		}
		return nil
	})
}
