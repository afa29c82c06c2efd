package claimstatus

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	types100 "github.com/containernetworking/cni/pkg/types/100"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	metaac "k8s.io/client-go/applyconfigurations/meta/v1"
	resourceac "k8s.io/client-go/applyconfigurations/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/internal/words"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/cniexec"
)

// Limits of the API for the status of one device, from k8s.io/api resource/v1.
const (
	maxData    = 10 << 10 // bytes
	maxIPs     = 16
	maxMessage = 32 << 10 // bytes, metav1.Condition
)

// Device is the status of one allocated device. Reason is that of its condition Ready.
type Device struct {
	Pool, Device, ShareID string
	Reason, Message       string
	Interface             string
	Result                json.RawMessage // the CNI result; empty unless attached
	Plugins               []string        // the files of plugins that made it
	// KeepCheckFailed leaves a CheckFailed condition alone that is there already.
	KeepCheckFailed bool
}

// Attached returns the status of a record that is attached, or of a device that is in
// the pod's containers.
func Attached(r checkpoint.Record) Device {
	d := deviceOf(r, reason.ConditionAttached, "")
	if r.DeviceOnly {
		d.Message = fmt.Sprintf("device %s of %s is given to the pod's containers", r.Hardware.ID, r.Hardware.ResourceName)
		return d
	}
	d.Message = fmt.Sprintf("network %s is attached as %s", r.Attachment.Network, r.Attachment.Interface)
	d.Interface, d.Result, d.Plugins = r.Attachment.Interface, r.Result, r.Plugins
	return d
}

// detached returns the status of a record that an edit of the pod's annotation has removed.
func detached(r checkpoint.Record) Device {
	return deviceOf(r, reason.ConditionDetached,
		fmt.Sprintf("network %s (%s) is not attached: the pod's annotation does not name it any more", r.Attachment.Network, r.Attachment.Interface))
}

// AttachedBefore returns the status of a record that may have been checked by an
// earlier driver. What that CHECK found stands until the next one.
func AttachedBefore(r checkpoint.Record) Device {
	d := Attached(r)
	d.KeepCheckFailed = true
	return d
}

// CheckFailed returns the status of a record that is attached and is not as it was made: what says how.
func CheckFailed(r checkpoint.Record, what string) Device {
	d := Attached(r)
	d.Reason, d.Message = reason.ConditionCheckFailed, fmt.Sprintf("%s, but %s", d.Message, what)
	return d
}

// AttachFailed returns the status of a record that could not be attached.
func AttachFailed(r checkpoint.Record, err error) Device {
	return deviceOf(r, reason.ConditionAttachFailed, err.Error())
}

// deviceOf returns the device of a record in a state.
func deviceOf(r checkpoint.Record, condition, message string) Device {
	return Device{Pool: r.Pool, Device: r.Device, ShareID: r.ShareID, Reason: condition, Message: message}
}

// PrepareFailed returns the status of nadra's devices in a claim that could not be
// prepared.
func PrepareFailed(claim *resourceapi.ResourceClaim, err error) []Device {
	var out []Device
	for _, r := range claim.Status.Allocation.Devices.Results {
		if r.Driver != v1alpha1.DriverName {
			continue
		}
		out = append(out, Device{
			Pool: r.Pool, Device: r.Device, ShareID: string(ptr.Deref(r.ShareID, "")), Reason: reason.ConditionPrepareFailed, Message: err.Error(),
		})
	}
	return out
}

// ByClaim groups the statuses that describe returns for records by their claim. A removed
// record has its own status, and records without a claim have none.
func ByClaim(records []checkpoint.Record, describe func(checkpoint.Record) Device) map[attachment.ClaimRef][]Device {
	out := map[attachment.ClaimRef][]Device{}
	for _, r := range records {
		switch {
		case r.Unclaimed():
		case r.Removed:
			out[r.Claim] = append(out[r.Claim], detached(r))
		default:
			out[r.Claim] = append(out[r.Claim], describe(r))
		}
	}
	return out
}

// isStored reports whether the claim's status has all of these devices, apart from the
// time.
func isStored(claim *resourceapi.ResourceClaim, devices []Device) bool {
	for _, d := range devices {
		if !slices.ContainsFunc(claim.Status.Devices, func(s resourceapi.AllocatedDeviceStatus) bool {
			return s.Driver == v1alpha1.DriverName && s.Pool == d.Pool && s.Device == d.Device && ptr.Deref(s.ShareID, "") == d.ShareID &&
				slices.ContainsFunc(s.Conditions, func(c metav1.Condition) bool {
					return c.Type == reason.ConditionReady && (c.Reason == d.Reason && c.Message == words.Short(d.Message, maxMessage) ||
						c.Reason == reason.ConditionCheckFailed && d.KeepCheckFailed)
				})
		}) {
			return false
		}
	}
	return true
}

// apply returns the status for a server-side apply by the driver of a node.
func (d Device) apply(node string, now time.Time) *resourceac.AllocatedDeviceStatusApplyConfiguration {
	ready := metav1.ConditionFalse
	if d.Reason == reason.ConditionAttached {
		ready = metav1.ConditionTrue
	}
	condition := metaac.Condition().WithType(reason.ConditionReady).WithStatus(ready).WithReason(d.Reason).
		WithMessage(words.Short(d.Message, maxMessage)).WithLastTransitionTime(metav1.NewTime(now))
	out := resourceac.AllocatedDeviceStatus().WithDriver(v1alpha1.DriverName).WithPool(d.Pool).WithDevice(d.Device).
		WithConditions(condition)
	if d.ShareID != "" {
		out.WithShareID(d.ShareID)
	}
	if data := NetworkData(d.Interface, d.Result); data != nil {
		network := resourceac.NetworkDeviceData().WithInterfaceName(data.InterfaceName).WithIPs(data.IPs...)
		if data.HardwareAddress != "" {
			network.WithHardwareAddress(data.HardwareAddress)
		}
		out.WithNetworkData(network)
	}
	own, all := map[string]any{}, map[string]any{}
	if !strings.HasPrefix(d.Pool, node+"/") {
		// The name of a device that nodes share does not tell on which node the claim has it, and the policy
		// nadra-claim-status keeps the drivers of other nodes from it.
		own["node"], all["node"] = node, node
	}
	if len(d.Plugins) > 0 {
		all[v1alpha1.PluginsData] = d.Plugins
	}
	for _, try := range []struct {
		result json.RawMessage
		fields map[string]any
	}{{d.Result, all}, {d.Result, own}, {nil, all}, {nil, own}} {
		if data := with(try.result, try.fields); len(data) > 0 && len(data) <= maxData {
			return out.WithData(runtime.RawExtension{Raw: data})
		}
	}
	return out
}

// with adds fields of nadra to a CNI result, which a plugin cannot set. It returns a result that is no object as it is.
func with(result json.RawMessage, own map[string]any) json.RawMessage {
	if len(own) == 0 {
		return result
	}
	var fields map[string]json.RawMessage // numbers keep their digits
	if len(result) > 0 && json.Unmarshal(result, &fields) != nil {
		return result
	}
	if fields == nil {
		fields = map[string]json.RawMessage{}
	}
	for key, value := range own {
		fields[key], _ = json.Marshal(value) // never fails
	}
	out, _ := json.Marshal(fields)
	return out
}

// NetworkData returns what a CNI result says about the pod's side of the interface. It
// returns nil if there is no result.
func NetworkData(ifName string, raw json.RawMessage) *resourceapi.NetworkDeviceData {
	if len(raw) == 0 {
		return nil
	}
	out := &resourceapi.NetworkDeviceData{InterfaceName: ifName}
	var result types100.Result
	if json.Unmarshal(raw, &result) != nil {
		return out
	}
	out.HardwareAddress = cniexec.MAC(&result, ifName)
	for _, ip := range cniexec.Addresses(&result) {
		if len(out.IPs) < maxIPs {
			out.IPs = append(out.IPs, ip.String())
		}
	}
	return out
}
