package offer

import (
	"strings"

	"github.com/nadra-dev/nadra/internal/words"
	"github.com/nadra-dev/nadra/pkg/api/reason"
)

// Host is what a node has of what networks need: a node itself, as its driver sees it, or Facts about it.
type Host struct {
	// HasLink reports whether the node has an interface.
	HasLink func(name string) bool
	// Missing returns the programs of a network that are in none of BinDirs.
	Missing func(*Definition) []string
	BinDirs []string
	// HasPool reports whether another driver has devices of a resource pool on the node.
	HasPool func(pool string) bool
}

// maxMaster limits what a message repeats of a NAD's master, in bytes. The kernel allows 15.
const maxMaster = 64

// Check returns why a network cannot be attached on the node, or nil.
func (h Host) Check(d *Definition) error {
	if d.Err != nil {
		return d.Err
	}
	for _, p := range d.Network.Plugins {
		if p.Master != "" && !h.HasLink(p.Master) {
			return reason.Errorf(reason.MasterMissing, "plugin %s: master: interface %q is not on the node: create it, or correct the NAD's master", p.Type, words.Short(p.Master, maxMaster))
		}
	}
	if missing := h.Missing(d); len(missing) > 0 {
		return reason.Errorf(reason.PluginMissing, "plugin %s is not in %s: install it on the node, or correct the NAD's type",
			strings.Join(missing, ", "), strings.Join(h.BinDirs, ", "))
	}
	return nil
}

var errPoolDevice = reason.Errorf(reason.PoolDevice, "its devices are those of its resource pool")

// CheckPool returns an error if a network has no device of its own, because its pods get one of nadra's pools.
func (h Host) CheckPool(d *Definition) error {
	if d.Network.ResourceName != "" && !h.HasPool(d.Network.ResourceName) {
		return errPoolDevice
	}
	return nil
}
