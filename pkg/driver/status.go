package driver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	types100 "github.com/containernetworking/cni/pkg/types/100"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	nadutils "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/utils"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	metaac "k8s.io/client-go/applyconfigurations/meta/v1"
	resourceac "k8s.io/client-go/applyconfigurations/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
)

// The condition of a claim's device (KEP-4817), and its reasons.
const (
	conditionReady = "Ready"

	reasonAttached      = "Attached"
	reasonPrepareFailed = "PrepareFailed"
	reasonAttachFailed  = "AttachFailed"
)

// Limits of the API for one device's status, from k8s.io/api resource/v1.
const (
	maxStatusData = 10 << 10 // bytes
	maxStatusIPs  = 16
	maxMessage    = 32 << 10 // bytes, metav1.Condition
)

// deviceState is what the status of one allocated device is to say.
type deviceState struct {
	Pool, Device, ShareID string
	Reason, Message       string
	Interface             string
	Result                json.RawMessage // the CNI result; empty unless attached
	Unchecked             bool            // a CheckFailed that is there already stands
}

// attachedState describes a record that is attached, or a device that is given.
func attachedState(r checkpoint.Record) deviceState {
	if r.DeviceOnly {
		return deviceState{
			Pool: r.Pool, Device: r.Device, ShareID: r.ShareID, Reason: reasonAttached,
			Message: fmt.Sprintf("device %s of %s is given to the pod's containers", r.Hardware.ID, r.Hardware.ResourceName),
		}
	}
	return deviceState{
		Pool: r.Pool, Device: r.Device, ShareID: r.ShareID,
		Reason:    reasonAttached,
		Message:   fmt.Sprintf("network %s is attached as %s", r.Attachment.Network, r.Attachment.Interface),
		Interface: r.Attachment.Interface,
		Result:    r.Result,
	}
}

// failedState describes one that is not.
func failedState(r checkpoint.Record, err error) deviceState {
	return deviceState{Pool: r.Pool, Device: r.Device, ShareID: r.ShareID, Reason: reasonAttachFailed, Message: err.Error()}
}

// statesByClaim describes records as devices of their claims.
func statesByClaim(records []checkpoint.Record, describe func(checkpoint.Record) deviceState) map[attachment.ClaimRef][]deviceState {
	out := map[attachment.ClaimRef][]deviceState{}
	for _, r := range records {
		out[r.Claim] = append(out[r.Claim], describe(r))
	}
	return out
}

// isReported reports whether the claim says already what the devices are to
// say, apart from the time.
func isReported(claim *resourceapi.ResourceClaim, driver string, devices []deviceState) bool {
	for _, d := range devices {
		if !slices.ContainsFunc(claim.Status.Devices, func(s resourceapi.AllocatedDeviceStatus) bool {
			return s.Driver == driver && s.Pool == d.Pool && s.Device == d.Device && ptr.Deref(s.ShareID, "") == d.ShareID &&
				slices.ContainsFunc(s.Conditions, func(c metav1.Condition) bool {
					return c.Type == conditionReady && (c.Reason == d.Reason && c.Message == cut(d.Message, maxMessage) ||
						c.Reason == reasonCheckFailed && d.Unchecked)
				})
		}) {
			return false
		}
	}
	return true
}

// unpreparedStates describes the devices of a claim that could not be prepared.
func unpreparedStates(claim *resourceapi.ResourceClaim, driver string, err error) []deviceState {
	var out []deviceState
	for _, r := range claim.Status.Allocation.Devices.Results {
		if r.Driver != driver {
			continue
		}
		s := deviceState{Pool: r.Pool, Device: r.Device, Reason: reasonPrepareFailed, Message: err.Error()}
		if r.ShareID != nil {
			s.ShareID = string(*r.ShareID)
		}
		out = append(out, s)
	}
	return out
}

// apply renders the state as what server-side apply takes.
func (s deviceState) apply(driver string, now time.Time) *resourceac.AllocatedDeviceStatusApplyConfiguration {
	ready := metav1.ConditionFalse
	if s.Reason == reasonAttached {
		ready = metav1.ConditionTrue
	}
	condition := metaac.Condition().WithType(conditionReady).WithStatus(ready).WithReason(s.Reason).
		WithMessage(cut(s.Message, maxMessage)).WithLastTransitionTime(metav1.NewTime(now))
	out := resourceac.AllocatedDeviceStatus().WithDriver(driver).WithPool(s.Pool).WithDevice(s.Device).
		WithConditions(condition)
	if s.ShareID != "" {
		out.WithShareID(s.ShareID)
	}
	if data := networkData(s.Interface, s.Result); data != nil {
		out.WithNetworkData(data)
	}
	if len(s.Result) > 0 && len(s.Result) <= maxStatusData {
		out.WithData(runtime.RawExtension{Raw: s.Result})
	}
	return out
}

// networkData is the standardised part of the status. Addresses are those of
// the pod's side of the result.
func networkData(ifName string, raw json.RawMessage) *resourceac.NetworkDeviceDataApplyConfiguration {
	if len(raw) == 0 {
		return nil
	}
	out := resourceac.NetworkDeviceData().WithInterfaceName(ifName)
	var result types100.Result
	if json.Unmarshal(raw, &result) != nil {
		return out
	}
	if mac := podMAC(&result, ifName); mac != "" {
		out.WithHardwareAddress(mac)
	}
	for _, ip := range podAddresses(&result) {
		if len(out.IPs) < maxStatusIPs {
			out.WithIPs(ip.String())
		}
	}
	return out
}

// podMAC is the MAC of the interface of that name in the pod, or of the first
// that the plugin says is in the pod: some name their interfaces otherwise.
func podMAC(result *types100.Result, ifName string) string {
	first := ""
	for _, i := range result.Interfaces {
		if i.Sandbox == "" {
			continue
		}
		if i.Name == ifName {
			return i.Mac
		}
		if first == "" {
			first = i.Mac
		}
	}
	return first
}

// podAddresses are the distinct addresses that are on an interface in the pod,
// or on none in particular, in the form the API demands.
func podAddresses(result *types100.Result) []netip.Prefix {
	var out []netip.Prefix
	seen := map[netip.Prefix]bool{}
	for _, ip := range result.IPs {
		if i := ip.Interface; i != nil && (*i < 0 || *i >= len(result.Interfaces) || result.Interfaces[*i].Sandbox == "") {
			continue
		}
		if p, ok := prefixOf(ip.Address); ok && !seen[p] {
			seen[p] = true
			out = append(out, p)
		}
	}
	return out
}

func prefixOf(n net.IPNet) (netip.Prefix, bool) {
	addr, ok := netip.AddrFromSlice(n.IP)
	ones, bits := n.Mask.Size()
	if !ok || bits == 0 {
		return netip.Prefix{}, false
	}
	addr = addr.Unmap()
	if addr.Is4() && bits == 128 {
		ones -= 96
	}
	p := netip.PrefixFrom(addr, ones)
	return p, p.IsValid()
}

// networkStatus renders the annotation k8s.v1.cni.cncf.io/network-status: the
// default network first, then the attachments in order, in Multus' form
// (behaviours A3-29 to A3-42).
func networkStatus(defaultNetwork *nadv1.NetworkStatus, records []checkpoint.Record) (string, error) {
	statuses, err := networkStatuses(records)
	if err != nil {
		return "", err
	}
	if defaultNetwork != nil {
		statuses = slices.Insert(statuses, 0, defaultNetwork)
	}
	var entries []string
	for _, s := range statuses {
		b, err := json.MarshalIndent(s, "", "    ")
		if err != nil {
			return "", fmt.Errorf("encoding the status of %s: %w", s.Interface, err)
		}
		entries = append(entries, string(b))
	}
	return "[" + strings.Join(entries, ",") + "]", nil
}

// networkStatuses returns the entries of attachments. Gateways are those by
// which the pod's default routes leave, also after they were moved (behaviour
// A3-40).
func networkStatuses(records []checkpoint.Record) ([]*nadv1.NetworkStatus, error) {
	var out []*nadv1.NetworkStatus
	moved := slices.ContainsFunc(records, asksForDefaultRoute)
	for _, r := range records {
		var result types100.Result
		if err := json.Unmarshal(r.Result, &result); err != nil {
			return nil, fmt.Errorf("reading the result of %s: %w", r.Attachment.Interface, err)
		}
		statuses, err := nadutils.CreateNetworkStatuses(&result, r.Attachment.Network.String(), false, deviceInfoOf(r))
		if err != nil {
			return nil, fmt.Errorf("making the status of %s: %w", r.Attachment.Interface, err)
		}
		for _, s := range statuses {
			s.Gateway = statusGateways(r, *s, moved)
		}
		out = append(out, statuses...)
	}
	return out, nil
}

// showsNetworks reports whether a network-status has the entries of these
// records. Its entry of the default network is not looked at: the interface's
// addresses may change while the pod runs.
func showsNetworks(text string, records []checkpoint.Record) bool {
	var shown []nadv1.NetworkStatus
	if json.Unmarshal([]byte(text), &shown) != nil {
		return false
	}
	wanted, err := networkStatuses(records)
	return err == nil && !slices.ContainsFunc(wanted, func(w *nadv1.NetworkStatus) bool {
		return !slices.ContainsFunc(shown, func(s nadv1.NetworkStatus) bool { return sameJSON(s, w) })
	})
}

// sameJSON reports whether two values are encoded the same.
func sameJSON(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

func asksForDefaultRoute(r checkpoint.Record) bool { return r.Attachment.DefaultRoute != nil }

// statusGateways are those of one entry: of the result's default routes, as
// the client library lists them, or of those that they were replaced by.
func statusGateways(r checkpoint.Record, entry nadv1.NetworkStatus, moved bool) []string {
	switch {
	case !moved:
		// A default route without a gateway has the text of Go's nil there.
		return slices.DeleteFunc(entry.Gateway, func(g string) bool { return g == "<nil>" })
	case asksForDefaultRoute(r) && entry.Interface == r.Attachment.Interface:
		return *r.Attachment.DefaultRoute
	}
	return nil
}

// deviceInfoOf is what the plugins have told, as far as the specification has
// it; nil for nothing.
func deviceInfoOf(r checkpoint.Record) *nadv1.DeviceInfo {
	var info *nadv1.DeviceInfo
	if json.Unmarshal(r.DeviceInfo, &info) != nil {
		return nil
	}
	return info
}

// addedMessage is the text of the AddedInterface event, as Multus words it.
func addedMessage(r checkpoint.Record) string {
	var result types100.Result
	_ = json.Unmarshal(r.Result, &result) // a result without addresses is worded the same
	ips := []string{}
	for _, p := range podAddresses(&result) {
		ips = append(ips, p.String())
	}
	return fmt.Sprintf("Add %s %v from %s", r.Attachment.Interface, ips, r.Attachment.Network)
}

func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit-len("…")], "") + "…"
}
