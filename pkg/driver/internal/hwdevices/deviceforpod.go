package hwdevices

import (
	"cmp"
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/inventory"
)

// Device files that all functions share.
const (
	vfioControl = "/dev/vfio/vfio"
	tunFile     = "/dev/net/tun"
)

// ForPod returns what a pod gets with the device, as from the device plugins: what the
// README of the SR-IOV network device plugin lists, and from the RDMA shared one the files
// of all devices of the pool.
func (d *Device) ForPod() (attachment.Hardware, error) {
	h := attachment.Hardware{ResourceName: d.Pool.ResourceName, Info: map[string]map[string]string{}}
	if d.Selector.IsRDMA || d.IsShared() {
		h.Files = rdmaFiles(d.Functions)
		if len(h.Files) == 0 {
			return h, reason.Errorf(reason.DeviceUnsuitable, "device %s of %s: %s asks for RDMA, and the host has no RDMA device of it now: load the card's RDMA driver", d.Name, d.Pool.ResourceName, d.Pool.Source)
		}
	}
	if d.IsShared() {
		return h, nil
	}
	f := d.Function()
	h.ID, h.PCIAddress = f.ID, f.PCIAddress
	h.Info["generic"] = map[string]string{"deviceID": f.ID}
	add := func(provider string, info map[string]string, files ...attachment.DeviceFile) {
		h.Info[provider] = info
		h.Files = append(h.Files, files...)
	}
	if d.Selector.IsRDMA {
		add("rdma", rdmaInfo(f))
	}
	switch {
	case f.VFIODevice != "":
		add("vfio", map[string]string{"mount": vfioControl, "dev-mount": cmp.Or(f.VFIOContainerDevice, f.VFIODevice)},
			attachment.DeviceFile{Path: vfioControl}, attachment.DeviceFile{Path: f.VFIODevice, ContainerPath: f.VFIOContainerDevice})
	case f.UIODevice != "":
		add("uio", map[string]string{"mount": f.UIODevice}, attachment.DeviceFile{Path: f.UIODevice})
	}
	if d.Selector.NeedVhostNet {
		if d.VhostNet == "" {
			return h, reason.Errorf(reason.DeviceUnsuitable, "device %s of %s: %s asks for vhost-net, which the host does not have: load the kernel module vhost_net", f.ID, d.Pool.ResourceName, d.Pool.Source)
		}
		add("vhost", map[string]string{"net-mount": d.VhostNet, "tun-mount": tunFile},
			attachment.DeviceFile{Path: d.VhostNet}, attachment.DeviceFile{Path: tunFile})
	}
	if d.Selector.VDPAType != "" && f.VDPA != nil && f.VDPA.Path != "" {
		add("vdpa", map[string]string{"mount": f.VDPA.Path}, attachment.DeviceFile{Path: f.VDPA.Path})
	}
	if extra := d.extraInfo(); len(extra) > 0 {
		h.Info["extra"] = extra
	}
	var err error
	h.DeviceInfo, err = json.Marshal(d.deviceInfo())
	return h, err
}

// extraInfo returns what the pool's definition adds, for all devices and for this one.
func (d *Device) extraInfo() map[string]string {
	out := map[string]string{}
	maps.Copy(out, d.Pool.AdditionalInfo["*"])
	maps.Copy(out, d.Pool.AdditionalInfo[d.Function().ID])
	return out
}

// rdmaFiles returns the files of exactly these functions, and rdma_cm, which all share.
func rdmaFiles(functions []inventory.Function) []attachment.DeviceFile {
	var out []attachment.DeviceFile
	seen := map[string]bool{}
	for _, f := range functions {
		for _, r := range f.RDMA {
			for _, file := range r.CharDevices {
				if !seen[file] {
					seen[file] = true
					out = append(out, attachment.DeviceFile{Path: file})
				}
			}
		}
	}
	return out
}

func rdmaInfo(f *inventory.Function) map[string]string {
	out := map[string]string{}
	for _, r := range f.RDMA {
		out["rdma_dev"] = r.Name
		for _, file := range r.CharDevices {
			out[strings.TrimRight(path.Base(file), "0123456789")] = file
		}
	}
	return out
}

// deviceInfo returns the device for network-status (device information specification
// 1.1.0).
func (d *Device) deviceInfo() nadv1.DeviceInfo {
	f := d.Function()
	if v := f.VDPA; v != nil && d.Selector.VDPAType != "" {
		return nadv1.DeviceInfo{Type: nadv1.DeviceInfoTypeVDPA, Version: nadv1.DeviceInfoVersion, Vdpa: &nadv1.VdpaDevice{
			ParentDevice: v.Name, Driver: strings.TrimSuffix(v.Driver, "_vdpa"), Path: v.Path,
			PciAddress: f.PCIAddress, PfPciAddress: f.PFAddress(), RepresentorDevice: f.Representor,
		}}
	}
	pci := &nadv1.PciDevice{PciAddress: f.PCIAddress, PfPciAddress: f.PFAddress(), RepresentorDevice: f.Representor}
	if d.Selector.NeedVhostNet {
		pci.Vhostnet = d.VhostNet
	}
	if d.Selector.IsRDMA && len(f.RDMA) > 0 {
		pci.RdmaDevice = f.RDMA[0].Name
	}
	return nadv1.DeviceInfo{Type: nadv1.DeviceInfoTypePCI, Version: nadv1.DeviceInfoVersion, Pci: pci}
}

// CheckSuitable returns an error if the network's plugins must fail with the device, so that
// the pod is refused before it has a sandbox.
func (d *Device) CheckSuitable(n attachment.Network) error {
	for _, p := range n.Plugins {
		if p.Type != "rdma" {
			continue
		}
		switch {
		case d.RDMAMode == inventory.RDMAShared:
			return reason.Errorf(reason.DeviceUnsuitable, "network %s: its plugin rdma moves RDMA devices between network namespaces, and on this node all namespaces share them: "+
				"run `rdma system set netns exclusive` on the node while no other network namespace exists, or set ib_core's option netns_mode=0 and reboot; or take rdma out of the NAD", n.Ref)
		case !slices.ContainsFunc(d.Functions, func(f inventory.Function) bool { return len(f.RDMA) > 0 }):
			return reason.Errorf(reason.DeviceUnsuitable, "network %s: its plugin rdma needs an RDMA device, and %s has none on the host: load the card's RDMA driver, or take rdma out of the NAD", n.Ref, d.Name)
		}
	}
	return nil
}
