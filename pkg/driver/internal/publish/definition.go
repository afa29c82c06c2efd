package publish

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// definition is the content of a NAD. It does not change: a NAD whose content changes gets
// another one.
type definition struct {
	network attachment.Network
	uid     types.UID
	// config is the NAD's own configuration, which may be empty.
	config string
	// id identifies the network in the attributes of devices. It is a long one if later is set, which says
	// that an earlier network has the same ID.
	id    attachment.NetworkID
	later bool
	// addresses is the number of attachments for which the node has addresses, or nil if another IPAM
	// provides them or they cannot be counted.
	addresses *int64
	// plugins are the names of all programs that the chain needs, sorted, and
	// programs the same in one string.
	plugins  []string
	programs string
	// err is what is wrong with the NAD, or nil.
	err error
}

// newDefinition returns the definition of a NAD with the network, or the error, that
// reading it has returned.
func newDefinition(nad *nadv1.NetworkAttachmentDefinition, network attachment.Network, err error) *definition {
	network.Ref = attachment.NetworkRef{Namespace: nad.Namespace, Name: nad.Name}
	network.ResourceName = attachment.PoolOf(nad.Annotations)
	d := &definition{
		network: network, uid: nad.UID, config: nad.Spec.Config, id: attachment.NetworkIDOf(network.Ref),
		err: reason.Wrap(reason.NetworkInvalid, err),
	}
	if count, ok := network.MostPerNode(); ok {
		d.addresses = &count
		if count == 0 && d.err == nil { // the API server refuses a slice with such a device
			d.err = reason.Errorf(reason.NetworkInvalid, "a range of its ipam has no address: set rangeEnd to an address after rangeStart, other than the gateway")
		}
	}
	plugins, ipams := network.Programs()
	d.plugins = slices.Compact(slices.Sorted(slices.Values(append(plugins, ipams...))))
	d.programs = strings.Join(d.plugins, ", ")
	return d
}

// withID returns a copy of the definition with a long ID if the network is later than another one with the
// same ID, and with the usual ID otherwise.
func (d *definition) withID(later bool) *definition {
	changed := *d
	changed.id, changed.later = attachment.NetworkIDOf(d.network.Ref), later
	if later {
		changed.id = attachment.LongNetworkIDOf(d.network.Ref)
	}
	return &changed
}

// matches reports whether the definition is that of the NAD as it is now.
func (d *definition) matches(nad *nadv1.NetworkAttachmentDefinition) bool {
	return d.uid == nad.UID && d.config == nad.Spec.Config && d.network.ResourceName == attachment.PoolOf(nad.Annotations)
}

// same reports whether both are of the same NAD with the same configuration. d may be nil.
func (d *definition) same(other *definition) bool {
	return d == other || d != nil && d.uid == other.uid && bytes.Equal(d.network.Conflist, other.network.Conflist)
}

// definitions keeps the definition of each NAD, so that a refresh costs what has changed
// and not what exists: 10,000 NADs take a second to read, and the publisher refreshes
// whenever an interface comes or goes on the node.
type definitions struct {
	known map[attachment.NetworkRef]*definition
}

// of returns the definitions of these NADs, which are all of the cluster, and forgets all others. It calls
// conf, at every call, for NADs without a configuration.
func (d *definitions) of(nads []*nadv1.NetworkAttachmentDefinition, conf confFinder) []*definition {
	known := make(map[attachment.NetworkRef]*definition, len(nads))
	out := make([]*definition, 0, len(nads))
	later := attachment.LaterOfEqualID(nads)
	for _, nad := range nads {
		ref := attachment.NetworkRef{Namespace: nad.Namespace, Name: nad.Name}
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
