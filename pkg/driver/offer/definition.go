package offer

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"strings"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// Definition is the content of a NAD. It does not change: a NAD whose content changes gets
// another one.
type Definition struct {
	Network attachment.Network
	UID     types.UID
	// ID identifies the network in the attributes of devices. It is a long one if later is set, which says
	// that an earlier network has the same ID.
	ID    attachment.NetworkID
	later bool
	// config is the NAD's own configuration. It is empty if the configuration is in a file of the node.
	config string
	// annotations are the NAD's.
	annotations map[string]string
	// align is set if the NAD asks for devices that claims can align with others.
	align bool
	// addresses is the number of attachments for which the node has addresses, or nil if another IPAM
	// provides them or they cannot be counted.
	addresses *int64
	// Plugins are the names of all programs that the chain needs, sorted, and
	// Programs the same in one string.
	Plugins  []string
	Programs string
	// Err is what is wrong with the NAD, or nil.
	Err error
}

// newDefinition returns the definition of a NAD with the network, or the error, that
// reading it has returned.
func newDefinition(nad *nadv1.NetworkAttachmentDefinition, network attachment.Network, err error) *Definition {
	network.Ref = attachment.RefOf(nad)
	network.ResourceName = attachment.PoolOf(nad.Annotations)
	d := &Definition{
		Network: network, UID: nad.UID, config: nad.Spec.Config, ID: attachment.NetworkIDOf(network.Ref),
		annotations: nad.Annotations, align: nad.Annotations[attachment.AlignAnnotation] == "true", Err: reason.Wrap(reason.NetworkInvalid, err),
	}
	if count, ok := network.MostPerNode(); ok {
		d.addresses = &count
		if count == 0 && d.Err == nil { // the API server refuses a slice with such a device
			d.Err = reason.Errorf(reason.NetworkInvalid, "a range of its ipam has no address: set rangeEnd to an address after rangeStart, other than the gateway")
		}
	}
	plugins, ipams := network.Programs()
	d.Plugins = slices.Compact(slices.Sorted(slices.Values(append(plugins, ipams...))))
	d.Programs = strings.Join(d.Plugins, ", ")
	return d
}

// withID returns a copy of the definition with a long ID if the network is later than another one with the
// same ID, and with the usual ID otherwise.
func (d *Definition) withID(later bool) *Definition {
	changed := *d
	changed.ID, changed.later = attachment.NetworkIDOf(d.Network.Ref), later
	if later {
		changed.ID = attachment.LongNetworkIDOf(d.Network.Ref)
	}
	return &changed
}

// matches reports whether the definition is that of the NAD as it is now.
func (d *Definition) matches(nad *nadv1.NetworkAttachmentDefinition) bool {
	return d.UID == nad.UID && d.config == nad.Spec.Config && maps.Equal(d.annotations, nad.Annotations)
}

// Same reports whether both are of the same NAD with the same configuration. d may be nil.
func (d *Definition) Same(other *Definition) bool {
	return d == other || d != nil && d.UID == other.UID && bytes.Equal(d.Network.Conflist, other.Network.Conflist)
}

// Definitions keeps the definition of each NAD, so that reading all NADs again costs what has changed
// and not what exists: 10,000 NADs take a second to read, and the driver reads them
// whenever an interface comes or goes on the node.
type Definitions struct {
	known map[attachment.NetworkRef]*Definition
}

// Of returns the Definitions of these NADs, which are all of the cluster, and forgets all others. It calls
// conf, at every call, for NADs without a configuration.
func (d *Definitions) Of(nads []*nadv1.NetworkAttachmentDefinition, conf confFinder) []*Definition {
	known := make(map[attachment.NetworkRef]*Definition, len(nads))
	out := make([]*Definition, 0, len(nads))
	later := attachment.LaterOfEqualID(nads)
	for _, nad := range nads {
		ref := attachment.RefOf(nad)
		def := d.known[ref]
		if def == nil || def.config == "" || !def.matches(nad) {
			network, err := attachment.ParseNetwork(nad)
			if errors.Is(err, attachment.ErrNoConfig) {
				network, err = fromFile(nad, conf)
			}
			def = newDefinition(nad, network, err)
		}
		if _, isLater := later[ref]; isLater != def.later {
			def = def.withID(isLater)
		}
		known[ref] = def
		out = append(out, def)
	}
	d.known = known
	return out
}

// confFinder returns the node's configuration for a NAD that has none, and its file.
type confFinder func(nad string) (path string, config []byte, err error)

// fromFile reads a NAD that has its configuration in a file of the node.
func fromFile(nad *nadv1.NetworkAttachmentDefinition, conf confFinder) (attachment.Network, error) {
	path, config, err := conf(nad.Name)
	if err != nil {
		return attachment.Network{}, err
	}
	return attachment.ParseNetworkFile(nad, path, config)
}
