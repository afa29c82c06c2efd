package driver

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"strings"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/inventory"
	"github.com/nadra-dev/nadra/pkg/pools"
)

// Device files that are not a function's own.
const (
	vfioControl = "/dev/vfio/vfio"
	tunFile     = "/dev/net/tun"
)

// poolDevice is a device of a resource pool as it is now.
type poolDevice struct {
	function inventory.Function
	pool     pools.Pool
	// by is the selector of the pool that has selected the function.
	by pools.Selector
	// host is what the function was read with.
	host inventory.Inventory
}

// given is what a pod gets with the device: what the device plugins give (behaviour
// D1, SR-IOV network device plugin README, "Configurations").
func (d *poolDevice) given() (attachment.Hardware, error) {
	f := &d.function
	h := attachment.Hardware{ID: f.ID, ResourceName: d.pool.ResourceName, PCIAddress: f.PCIAddress, Info: map[string]map[string]string{
		"generic": {"deviceID": f.ID},
	}}
	add := func(provider string, info map[string]string, files ...attachment.DeviceFile) {
		h.Info[provider] = info
		h.Files = append(h.Files, files...)
	}
	if d.by.IsRDMA || d.pool.DeviceType == pools.SharedRDMA {
		files := rdmaFiles(f)
		if len(files) == 0 {
			return h, fmt.Errorf("device %s of %s: %s asks for RDMA, and the function has no RDMA device on the host now: load the card's RDMA driver", f.ID, d.pool.ResourceName, d.pool.Source)
		}
		add("rdma", rdmaInfo(f), files...)
	}
	switch {
	case f.VFIODevice != "":
		inside := f.VFIOContainerDevice
		if inside == "" {
			inside = f.VFIODevice
		}
		add("vfio", map[string]string{"mount": vfioControl, "dev-mount": inside},
			attachment.DeviceFile{Path: vfioControl}, attachment.DeviceFile{Path: f.VFIODevice, ContainerPath: f.VFIOContainerDevice})
	case f.UIODevice != "":
		add("uio", map[string]string{"mount": f.UIODevice}, attachment.DeviceFile{Path: f.UIODevice})
	}
	if d.by.NeedVhostNet {
		if d.host.VhostNet == "" {
			return h, fmt.Errorf("device %s of %s: %s asks for vhost-net, which the host does not have: load the kernel module vhost_net", f.ID, d.pool.ResourceName, d.pool.Source)
		}
		add("vhost", map[string]string{"net-mount": d.host.VhostNet, "tun-mount": tunFile},
			attachment.DeviceFile{Path: d.host.VhostNet}, attachment.DeviceFile{Path: tunFile})
	}
	if d.by.VDPAType != "" && f.VDPA != nil && f.VDPA.Path != "" {
		add("vdpa", map[string]string{"mount": f.VDPA.Path}, attachment.DeviceFile{Path: f.VDPA.Path})
	}
	if extra := d.extraInfo(); len(extra) > 0 {
		add("extra", extra)
	}
	var err error
	h.DeviceInfo, err = json.Marshal(d.deviceInfo())
	return h, err
}

// extraInfo is what the pool's definition adds, for all and then for one.
func (d *poolDevice) extraInfo() map[string]string {
	out := maps.Clone(d.pool.AdditionalInfo["*"])
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, d.pool.AdditionalInfo[d.function.ID])
	return out
}

func rdmaFiles(f *inventory.Function) []attachment.DeviceFile {
	var out []attachment.DeviceFile
	seen := map[string]bool{}
	for _, r := range f.RDMA {
		for _, file := range r.CharDevices {
			if !seen[file] {
				seen[file] = true
				out = append(out, attachment.DeviceFile{Path: file})
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

// deviceInfo is the device for network-status (device information
// specification 1.1.0).
func (d *poolDevice) deviceInfo() nadv1.DeviceInfo {
	f := &d.function
	if v := f.VDPA; v != nil && d.by.VDPAType != "" {
		return nadv1.DeviceInfo{Type: nadv1.DeviceInfoTypeVDPA, Version: nadv1.DeviceInfoVersion, Vdpa: &nadv1.VdpaDevice{
			ParentDevice: v.Name, Driver: strings.TrimSuffix(v.Driver, "_vdpa"), Path: v.Path,
			PciAddress: f.PCIAddress, PfPciAddress: f.PFAddress(), RepresentorDevice: f.Representor,
		}}
	}
	pci := &nadv1.PciDevice{PciAddress: f.PCIAddress, PfPciAddress: f.PFAddress(), RepresentorDevice: f.Representor}
	if d.by.NeedVhostNet {
		pci.Vhostnet = d.host.VhostNet
	}
	if d.by.IsRDMA && len(f.RDMA) > 0 {
		pci.RdmaDevice = f.RDMA[0].Name
	}
	return nadv1.DeviceInfo{Type: nadv1.DeviceInfoTypePCI, Version: nadv1.DeviceInfoVersion, Pci: pci}
}

// fits returns an error where what the network's plugins will do cannot come
// to a good end with the device: it is better said before there is a sandbox.
func (d *poolDevice) fits(n attachment.Network) error {
	for _, p := range n.Plugins {
		if p.Type != "rdma" {
			continue
		}
		switch {
		case d.host.RDMAMode == inventory.RDMAShared:
			return fmt.Errorf("network %s: its plugin rdma moves RDMA devices between network namespaces, and on this node all namespaces share them: "+
				"run `rdma system set netns exclusive` on the node while no other network namespace exists, or set ib_core's option netns_mode=0 and reboot; or take rdma out of the NAD", n.Ref)
		case len(d.function.RDMA) == 0:
			return fmt.Errorf("network %s: its plugin rdma needs an RDMA device, and %s has none on the host: load the card's RDMA driver, or take rdma out of the NAD", n.Ref, d.function.ID)
		}
	}
	return nil
}
