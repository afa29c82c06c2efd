package hwdevices

import (
	"fmt"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/inventory"
)

var errNodeNotOwned = reason.Errorf(reason.NodeNotOwned, "the node's networks are not nadra's")

// decide returns nil if a device is to be offered on this node. Otherwise it returns the
// reason, an error with a code. ResourceSlices, metrics, Prepare and the health of devices
// go by it. A device without a link is tainted rather than withheld, if the API server knows
// taints.
func decide(d *Device, owned bool) error {
	switch {
	case d.UsedBy != "":
		return reason.Errorf(reason.PoolConflict, "a device plugin has given it to pod %s", d.UsedBy)
	case !owned:
		return errNodeNotOwned
	}
	return d.LinkDown()
}

// Claimed returns why a claim cannot have the device although it is allocated, or nil. The
// link and the owner of the node do not matter.
func (d *Device) Claimed() error {
	if err := decide(d, true); reason.Of(err) == reason.PoolConflict {
		return err
	}
	return nil
}

// LinkDown returns an error if the device's function has no link, and nil if it has one or
// it is not known. A shared device has several functions. A function that a pod gets as a
// whole is set up by the pod: only one that is set up and has no carrier is without a link.
func (d *Device) LinkDown() error {
	if d.IsShared() {
		return nil
	}
	f := d.Function()
	if f.PF != nil {
		if f.PF.Link == inventory.LinkDown {
			return linkDown(fmt.Sprintf("the link of its PF %s (%s) is down", f.PF.Name, f.PF.PCIAddress))
		}
		return nil
	}
	for _, n := range f.Netdevs {
		if n.Up && n.Link == inventory.LinkDown {
			return linkDown(fmt.Sprintf("its link %s is down", n.Name))
		}
	}
	return nil
}

func linkDown(text string) error { return reason.Errorf(reason.LinkDown, "%s", text) }
