package nodecmd

import (
	"fmt"
	"path/filepath"

	"github.com/vishvananda/netlink"

	"github.com/nadra-dev/nadra/internal/probe"
	"github.com/nadra-dev/nadra/pkg/inventory"
)

// hostVFs returns a function that lists the host's virtual functions, with their settings.
func hostVFs(root string) func() ([]probe.VF, error) {
	return func() ([]probe.VF, error) {
		reader := inventory.Reader{Sys: filepath.Join(root, "sys"), Dev: filepath.Join(root, "dev")}
		all, err := reader.Read()
		if err != nil {
			return nil, err
		}
		return vfsOf(all, settingsOf)
	}
}

// vfsOf returns the virtual functions with their settings, which settings returns for the
// interface of a physical function.
func vfsOf(all inventory.Inventory, settings func(pf string) (map[int]probe.VF, error)) ([]probe.VF, error) {
	var out []probe.VF
	known := map[string]map[int]probe.VF{}
	var failed error
	for _, f := range all.Functions {
		if f.Kind != inventory.KindVF || f.PF == nil {
			continue
		}
		pf := f.PF.Name
		if _, asked := known[pf]; !asked && pf != "" {
			of, err := settings(pf)
			if err != nil && failed == nil {
				failed = err
			}
			known[pf] = of
		}
		vf := known[pf][f.Index]
		vf.PCI, vf.PF, vf.Index, vf.Driver = f.PCIAddress, pf, f.Index, f.Driver
		out = append(out, vf)
	}
	return out, failed
}

// settingsOf reads the settings of a physical function's virtual functions, by index.
func settingsOf(pf string) (map[int]probe.VF, error) {
	l, err := netlink.LinkByName(pf)
	if err != nil {
		return nil, fmt.Errorf("asking physical function %s: %w", pf, err)
	}
	out := map[int]probe.VF{}
	for _, vf := range l.Attrs().Vfs {
		out[vf.ID] = settingsFrom(vf)
	}
	return out, nil
}

// bigEndian8021AD is the protocol in network byte order, as the kernel returns it.
const bigEndian8021AD = int(netlink.VLAN_PROTOCOL_8021AD&0xff)<<8 | int(netlink.VLAN_PROTOCOL_8021AD)>>8

// settingsFrom returns a virtual function's settings for the report.
func settingsFrom(vf netlink.VfInfo) probe.VF {
	out := probe.VF{
		MAC: vf.Mac.String(), VLAN: vf.Vlan, QoS: vf.Qos, SpoofCheck: vf.Spoofchk,
		Trust:   vf.Trust == 1, // a driver without trust returns -1
		MinRate: int(vf.MinTxRate), MaxRate: int(vf.MaxTxRate),
	}
	if vf.VlanProto == bigEndian8021AD {
		out.Proto = "802.1ad"
	}
	switch vf.LinkState {
	case netlink.VF_LINK_STATE_AUTO:
		out.LinkState = "auto"
	case netlink.VF_LINK_STATE_ENABLE:
		out.LinkState = "enable"
	case netlink.VF_LINK_STATE_DISABLE:
		out.LinkState = "disable"
	}
	return out
}
