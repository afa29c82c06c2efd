package snapshot

import (
	"cmp"
	"slices"
	"strings"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/internal/desk/inspect"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// addInterfaces joins network-status with the rows of the pod.
func (p *Pod) addInterfaces(pod *corev1.Pod, rows []inspect.Attachment) {
	reported, by := map[int]inspect.Attachment{}, map[string]System{}
	for _, r := range rows {
		reported[r.ReportedAt] = r
		if r.Network != nil {
			by[r.Network.String()] = cmp.Or(by[r.Network.String()], systemOf(r))
		}
	}
	entries, _ := attachment.StatusesOf(pod)
	for i, e := range entries {
		n := interfaceOf(e)
		if r, found := reported[i+1]; found {
			n.addRow(r)
		} else if !n.Default { // a plugin may make several interfaces
			n.By = by[n.Network]
		}
		p.Interfaces = append(p.Interfaces, n)
	}
	for _, r := range rows {
		if r.ReportedAt == 0 {
			p.addUnreported(r)
		}
	}
}

// addUnreported adds an attachment that network-status does not have.
func (p *Pod) addUnreported(r inspect.Attachment) {
	network := ""
	if r.Network != nil {
		network = r.Network.String()
	}
	switch r.State {
	case inspect.Attached, inspect.CheckFailed:
		if r.Interface == "" && network == "" {
			return // a device without a network
		}
		n := Interface{Network: network, Name: r.Interface, IPs: r.IPs, MAC: r.MAC}
		n.addRow(r)
		p.Interfaces = append(p.Interfaces, n)
	case inspect.Unclaimed, inspect.Removed, inspect.Ended, inspect.Gone:
	default:
		p.Lacking = append(p.Lacking,
			Lack{Network: network, Interface: r.Interface, State: string(r.State), Reason: cmp.Or(r.Message, r.Reason)})
	}
}

// addRow adds what an attachment's row has besides network-status.
func (n *Interface) addRow(r inspect.Attachment) {
	n.By = systemOf(r)
	if r.State == inspect.CheckFailed {
		n.Problem = cmp.Or(r.Message, r.Reason)
	}
}

func systemOf(r inspect.Attachment) System {
	switch {
	case r.State == inspect.Multus:
		return Multus
	case r.Claim != "", r.State == inspect.Attached: // also without a claim
		return Nadra
	}
	return ""
}

func interfaceOf(e nadv1.NetworkStatus) Interface {
	out := Interface{
		Network: e.Name, Name: e.Interface, Default: attachment.IsDefault(e), IPs: e.IPs, MAC: e.Mac, MTU: e.Mtu, Device: deviceInfoOf(e.DeviceInfo),
		// Multus writes Go's "<nil>" for a default route without a gateway.
		Gateways: slices.DeleteFunc(slices.Clone(e.Gateway), func(g string) bool { return g == "<nil>" }),
	}
	if d := e.DNS; len(d.Nameservers)+len(d.Search)+len(d.Options) > 0 || d.Domain != "" {
		out.DNS = &DNS{Nameservers: d.Nameservers, Domain: d.Domain, Search: d.Search, Options: d.Options}
	}
	return out
}

func deviceInfoOf(d *nadv1.DeviceInfo) *DeviceInfo {
	if d == nil {
		return nil
	}
	out := &DeviceInfo{Type: d.Type}
	switch {
	case d.Pci != nil:
		out.PCI, out.PF, out.RDMA, out.Path, out.Representor = d.Pci.PciAddress, d.Pci.PfPciAddress, d.Pci.RdmaDevice, d.Pci.Vhostnet, d.Pci.RepresentorDevice
	case d.Vdpa != nil:
		out.PCI, out.PF, out.Path, out.Mode, out.Representor = d.Vdpa.PciAddress, d.Vdpa.PfPciAddress, d.Vdpa.Path, d.Vdpa.Driver, d.Vdpa.RepresentorDevice
	case d.VhostUser != nil:
		out.Path, out.Mode = d.VhostUser.Path, d.VhostUser.Mode
	case d.Memif != nil:
		out.Path, out.Mode = d.Memif.Path, strings.Trim(d.Memif.Role+" "+d.Memif.Mode, " ")
	}
	return out
}

// addRequested adds what the pod requested of each network: in its annotation or, without
// one, in its claims.
func (in *Input) addRequested(p *Pod, pod *corev1.Pod, rows []inspect.Attachment) {
	requested := map[string]*Requested{} // by network and interface
	selections, err := attachment.ParseSelections(attachment.NetworksText(pod.Annotations), pod.Namespace)
	names, namesErr := attachment.InterfaceNames(selections)
	switch {
	case err != nil || namesErr != nil:
	case len(selections) > 0:
		for i, s := range selections {
			requested[s.Network.String()+" "+names[i]] = requestedOf(s)
		}
	default:
		in.requestedByClaims(requested, pod.Namespace, rows)
	}
	for i := range p.Interfaces {
		n := &p.Interfaces[i]
		if !n.Default {
			n.Requested = requested[n.Network+" "+n.Name]
		}
	}
}

// requestedByClaims adds what a pod's claims request, by network and interface.
func (in *Input) requestedByClaims(requested map[string]*Requested, namespace string, rows []inspect.Attachment) {
	byClaim := map[string][]inspect.Attachment{}
	for _, r := range rows {
		byClaim[r.Claim] = append(byClaim[r.Claim], r)
	}
	for _, claim := range in.Claims {
		of := byClaim[claim.Name]
		if claim.Namespace != namespace || len(of) == 0 || claim.Status.Allocation == nil {
			continue
		}
		// A claim's rows and its requests are both in the order of its results.
		selections, err := attachment.FromClaim(claim, attachment.AnyNetwork)
		if err != nil || len(selections) != len(of) {
			continue
		}
		for i, r := range of {
			if r.Network != nil {
				requested[r.Network.String()+" "+r.Interface] = requestedOf(selections[i].Selection)
			}
		}
	}
}

// requestedOf returns what a selection requests, or nil if it only names the network.
func requestedOf(s attachment.Selection) *Requested {
	out := Requested{
		Interface: s.Interface, IPs: s.IPs, MAC: strings.ToLower(s.MAC), GUID: s.InfinibandGUID, DeviceID: s.DeviceID, DefaultRoute: s.DefaultRoute,
	}
	if out.Interface == "" && len(out.IPs) == 0 && out.MAC == "" && out.GUID == "" && out.DeviceID == "" && out.DefaultRoute == nil {
		return nil
	}
	return &out
}

// devicesOf returns the devices of all drivers in the status of the pod's claims.
func (in *Input) devicesOf(pod *corev1.Pod) []Device {
	var out []Device
	names := map[string]bool{}
	for _, name := range attachment.ClaimNames(pod) {
		names[name] = true
	}
	for _, c := range in.Claims {
		if c.Namespace != pod.Namespace || !names[c.Name] {
			continue
		}
		for _, d := range c.Status.Devices {
			out = append(out, deviceOf(c, d))
		}
	}
	slices.SortFunc(out, func(a, b Device) int {
		return cmp.Or(cmp.Compare(a.Claim, b.Claim), cmp.Compare(a.Request, b.Request),
			cmp.Compare(a.Interface, b.Interface), cmp.Compare(a.Device, b.Device))
	})
	return out
}

func deviceOf(claim *resourceapi.ResourceClaim, d resourceapi.AllocatedDeviceStatus) Device {
	out := Device{Claim: claim.Name, Driver: d.Driver, Pool: d.Pool, Device: d.Device}
	if n := d.NetworkData; n != nil {
		out.Interface, out.MAC, out.IPs = n.InterfaceName, n.HardwareAddress, n.IPs
	}
	for _, c := range d.Conditions {
		if c.Type == reason.ConditionReady {
			out.Ready = string(c.Status)
		}
	}
	if claim.Status.Allocation == nil {
		return out
	}
	for _, r := range claim.Status.Allocation.Devices.Results {
		if r.Driver == d.Driver && r.Pool == d.Pool && r.Device == d.Device &&
			string(ptr.Deref(r.ShareID, "")) == ptr.Deref(d.ShareID, "") {
			out.Request = r.Request
		}
	}
	return out
}
