package hwdevices

import (
	"fmt"
	"net"
	"strings"

	"github.com/vishvananda/netlink"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// readVF returns what a physical function has set for a virtual one. It returns nil if the
// physical function does not report it.
func readVF(pf string, index int) (*attachment.VFState, error) {
	l, err := netlink.LinkByName(pf)
	if err != nil {
		return nil, fmt.Errorf("reading physical function %s: %w", pf, err)
	}
	for _, vf := range l.Attrs().Vfs {
		if vf.ID == index {
			return &attachment.VFState{
				PF: pf, Index: index, MAC: vf.Mac.String(), VLAN: vf.Vlan, Qos: vf.Qos,
				Settings: &attachment.VFSettings{
					// Drivers without trust report -1.
					Trust: vf.Trust == 1, SpoofCheck: vf.Spoofchk,
					MinRate: int(vf.MinTxRate), MaxRate: int(vf.MaxTxRate), LinkState: vf.LinkState,
				},
			}, nil
		}
	}
	return nil, nil
}

// restoreVF restores what the physical function had set for a virtual one, except trust. It
// leaves settings alone that have not changed, because drivers refuse settings that they do
// not know.
func restoreVF(want *attachment.VFState) error {
	l, now, err := readNow(want)
	if err != nil || now == nil {
		return err
	}
	set := func(what string, differs bool, do func() error) {
		if err == nil && differs {
			if err = do(); err != nil {
				err = fmt.Errorf("setting the %s of VF %d of %s: %w", what, want.Index, want.PF, err)
			}
		}
	}
	set(fmt.Sprintf("VLAN %d", want.VLAN), now.VLAN != want.VLAN || now.Qos != want.Qos, func() error {
		return netlink.LinkSetVfVlanQos(l, want.Index, want.VLAN, want.Qos)
	})
	set("address "+want.MAC, !strings.EqualFold(now.MAC, want.MAC), func() error {
		mac, err := net.ParseMAC(want.MAC)
		if err != nil {
			return err
		}
		return netlink.LinkSetVfHardwareAddr(l, want.Index, mac)
	})
	if want.Settings == nil {
		return err
	}
	was, is := *want.Settings, *now.Settings
	set("spoof check", is.SpoofCheck != was.SpoofCheck, func() error {
		return netlink.LinkSetVfSpoofchk(l, want.Index, was.SpoofCheck)
	})
	set("rates", is.MinRate != was.MinRate || is.MaxRate != was.MaxRate, func() error {
		return netlink.LinkSetVfRate(l, want.Index, was.MinRate, was.MaxRate)
	})
	set("link state", is.LinkState != was.LinkState, func() error {
		return netlink.LinkSetVfState(l, want.Index, was.LinkState)
	})
	return err
}

// restoreTrust restores whether the physical function trusts a virtual one.
func restoreTrust(want *attachment.VFState) error {
	l, now, err := readNow(want)
	if err != nil || now == nil || want.Settings == nil || now.Settings.Trust == want.Settings.Trust {
		return err
	}
	if err := netlink.LinkSetVfTrust(l, want.Index, want.Settings.Trust); err != nil {
		return fmt.Errorf("setting the trust of VF %d of %s: %w", want.Index, want.PF, err)
	}
	return nil
}

// readNow returns the physical function's interface and what it has set now. It returns nil
// if there is nothing to compare with.
func readNow(want *attachment.VFState) (netlink.Link, *attachment.VFState, error) {
	if want == nil {
		return nil, nil, nil
	}
	now, err := readVF(want.PF, want.Index)
	if err != nil || now == nil {
		return nil, nil, err
	}
	l, err := netlink.LinkByName(want.PF)
	return l, now, err
}
