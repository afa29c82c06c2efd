package driver

import (
	"fmt"
	"net"
	"strings"

	"github.com/vishvananda/netlink"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// lookAtVF returns what a physical function has set for a virtual one; nil
// where it does not say.
func lookAtVF(pf string, index int) (*attachment.VFHome, error) {
	l, err := netlink.LinkByName(pf)
	if err != nil {
		return nil, fmt.Errorf("looking at physical function %s: %w", pf, err)
	}
	for _, vf := range l.Attrs().Vfs {
		if vf.ID == index {
			return &attachment.VFHome{
				PF: pf, Index: index, MAC: vf.Mac.String(), VLAN: vf.Vlan, Qos: vf.Qos,
				Settings: &attachment.VFSettings{
					// A driver that knows no trust says -1.
					Trust: vf.Trust == 1, SpoofCheck: vf.Spoofchk,
					MinRate: int(vf.MinTxRate), MaxRate: int(vf.MaxTxRate), LinkState: vf.LinkState,
				},
			}, nil
		}
	}
	return nil, nil
}

// restoreVF has the physical function set for a virtual one what it had, but for
// trust. What is as it was is not touched: drivers refuse what they do not know.
func restoreVF(want *attachment.VFHome) error {
	l, now, err := lookAgain(want)
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

// restoreTrust has the physical function trust a virtual one no more, and no
// less, than it did.
func restoreTrust(want *attachment.VFHome) error {
	l, now, err := lookAgain(want)
	if err != nil || now == nil || want.Settings == nil || now.Settings.Trust == want.Settings.Trust {
		return err
	}
	if err := netlink.LinkSetVfTrust(l, want.Index, want.Settings.Trust); err != nil {
		return fmt.Errorf("setting the trust of VF %d of %s: %w", want.Index, want.PF, err)
	}
	return nil
}

// lookAgain returns what a physical function has set now, with its interface;
// nil where there is nothing to compare with.
func lookAgain(want *attachment.VFHome) (netlink.Link, *attachment.VFHome, error) {
	if want == nil {
		return nil, nil, nil
	}
	now, err := lookAtVF(want.PF, want.Index)
	if err != nil || now == nil {
		return nil, nil, err
	}
	l, err := netlink.LinkByName(want.PF)
	return l, now, err
}
