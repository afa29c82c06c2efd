package driver

import (
	"errors"
	"slices"
	"strings"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// definition is what a NAD says. It does not change: a NAD that comes to say
// something else has another one.
type definition struct {
	network attachment.Network
	uid     types.UID
	// config is the NAD's own, which may be empty.
	config string
	// device is the name of the device that stands for the network.
	device string
	// plugins are the names of all programs that the chain needs, sorted, and
	// programs the same in one string.
	plugins  []string
	programs string
	// err says what is wrong with the NAD; nil when nothing is.
	err error
}

// newDefinition is what was read of a NAD, or why nothing could be.
func newDefinition(nad *nadv1.NetworkAttachmentDefinition, network attachment.Network, err error) *definition {
	network.Ref = attachment.NetworkRef{Namespace: nad.Namespace, Name: nad.Name}
	network.ResourceName = attachment.PoolOf(nad.Annotations)
	d := &definition{network: network, uid: nad.UID, config: nad.Spec.Config, device: attachment.DeviceName(network.Ref), err: err}
	for _, p := range network.Plugins {
		d.plugins = append(d.plugins, p.Type)
		if p.IPAM != "" {
			d.plugins = append(d.plugins, p.IPAM)
		}
	}
	slices.Sort(d.plugins)
	d.plugins = slices.Compact(d.plugins)
	d.programs = strings.Join(d.plugins, ", ")
	return d
}

// slimNAD drops what no definition is made from: with thousands of NADs, who
// wrote which field takes more memory than what they say.
func slimNAD(object any) (any, error) {
	if nad, ok := object.(*nadv1.NetworkAttachmentDefinition); ok {
		pool := attachment.PoolOf(nad.Annotations)
		nad.ManagedFields, nad.Labels, nad.Annotations = nil, nil, nil
		if pool != "" {
			nad.Annotations = map[string]string{attachment.ResourceNameAnnotation: pool}
		}
	}
	return object, nil
}

// says reports whether the definition is of this NAD as it is now.
func (d *definition) says(nad *nadv1.NetworkAttachmentDefinition) bool {
	return d.uid == nad.UID && d.config == nad.Spec.Config && d.network.ResourceName == attachment.PoolOf(nad.Annotations)
}

// definitions remembers what was made of each NAD, so that a look costs what
// has changed and not what there is: 10,000 NADs take a second to read, and
// every interface that comes or goes on the node is an occasion to look.
type definitions struct {
	known map[attachment.NetworkRef]*definition
}

// of returns the definitions of these NADs, and forgets all others. conf is
// asked for those without a configuration, at every call.
func (d *definitions) of(nads []*nadv1.NetworkAttachmentDefinition, conf confFinder) []*definition {
	known := make(map[attachment.NetworkRef]*definition, len(nads))
	out := make([]*definition, 0, len(nads))
	for _, nad := range nads {
		ref := attachment.NetworkRef{Namespace: nad.Namespace, Name: nad.Name}
		def := d.known[ref]
		if def == nil || def.config == "" || !def.says(nad) {
			network, err := attachment.ParseNetwork(nad)
			if errors.Is(err, attachment.ErrNoConfig) {
				network, err = fromFile(nad, conf)
			}
			def = newDefinition(nad, network, err)
		}
		known[ref] = def
		out = append(out, def)
	}
	d.known = known
	return out
}

// confFinder returns the node's configuration for a NAD that has none, and its
// file.
type confFinder func(nad string) (path string, config []byte, err error)

// fromFile reads a NAD that has its configuration in a file of the node.
func fromFile(nad *nadv1.NetworkAttachmentDefinition, conf confFinder) (attachment.Network, error) {
	path, config, err := conf(nad.Name)
	if err != nil {
		return attachment.Network{}, err
	}
	return attachment.ParseNetworkFile(nad, path, config)
}

// candidate is a NAD and whether this node can attach it.
type candidate struct {
	*definition
	// unusable says why not; nil when it can.
	unusable error
}

// host is what a node offers to networks.
type host struct {
	links   map[string]link
	missing func(pluginTypes []string) []string
	binDirs []string

	// absent has what was found out about programs, by definition.programs.
	absent map[string][]string
}

// candidate decides whether a network can be attached on this host.
func (h *host) candidate(d *definition) candidate {
	c := candidate{definition: d, unusable: d.err}
	if d.err == nil {
		c.unusable = h.check(d)
	}
	return c
}

// check says why the network cannot be attached on this host; nil if it can.
func (h *host) check(d *definition) error {
	for _, p := range d.network.Plugins {
		if p.Master == "" {
			continue
		}
		if _, ok := h.links[p.Master]; !ok {
			return reason.Errorf(reason.MasterMissing, "plugin %s: master: interface %q is not on the node: create it, or correct the NAD's master", p.Type, p.Master)
		}
	}
	if missing := h.lacks(d); len(missing) > 0 {
		return reason.Errorf(reason.PluginMissing, "plugin %s is not in %s: install it on the node, or correct the NAD's type",
			strings.Join(missing, ", "), strings.Join(h.binDirs, ", "))
	}
	return nil
}

// lacks returns which programs of a network are missing. Thousands of networks
// share a few chains: the disk is asked once for each.
func (h *host) lacks(d *definition) []string {
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
