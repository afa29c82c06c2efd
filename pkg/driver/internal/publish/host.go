package publish

import (
	"strings"

	"github.com/nadra-dev/nadra/internal/truncate"
	"github.com/nadra-dev/nadra/pkg/api/reason"
)

// host checks whether this node can attach networks.
type host struct {
	links   map[string]Link
	missing func(pluginTypes []string) []string
	binDirs []string

	// absent has the missing programs that are known already, by definition.programs.
	absent map[string][]string
}

// maxMaster limits what a message repeats of a NAD's master, in bytes. The kernel allows 15.
const maxMaster = 64

// check returns why the network cannot be attached on this node, or nil.
func (h *host) check(d *definition) error {
	if d.err != nil {
		return d.err
	}
	for _, p := range d.network.Plugins {
		if p.Master == "" {
			continue
		}
		if _, ok := h.links[p.Master]; !ok {
			return reason.Errorf(reason.MasterMissing, "plugin %s: master: interface %q is not on the node: create it, or correct the NAD's master", p.Type, truncate.Text(p.Master, maxMaster))
		}
	}
	if missing := h.missingPrograms(d); len(missing) > 0 {
		return reason.Errorf(reason.PluginMissing, "plugin %s is not in %s: install it on the node, or correct the NAD's type",
			strings.Join(missing, ", "), strings.Join(h.binDirs, ", "))
	}
	return nil
}

// missingPrograms returns the programs of a network that are missing. Thousands of
// networks share a few chains, so it reads the disk once for each chain.
func (h *host) missingPrograms(d *definition) []string {
	missing, known := h.absent[d.programs]
	if !known {
		if h.absent == nil {
			h.absent = map[string][]string{}
		}
		missing = h.missing(d.plugins)
		h.absent[d.programs] = missing
	}
	return missing
}
