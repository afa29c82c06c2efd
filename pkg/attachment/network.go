package attachment

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/version"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"

	"github.com/nadra-dev/nadra/internal/words"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// ResourceNameAnnotation is the annotation of a NetworkAttachmentDefinition that names the device
// pool from which it draws (behaviour B9).
const ResourceNameAnnotation = "k8s.v1.cni.cncf.io/resourceName"

// NodeSelectorAnnotation is the annotation of a NetworkAttachmentDefinition with a label, key=value,
// of the nodes for pods that use the network.
const NodeSelectorAnnotation = "k8s.v1.cni.cncf.io/nodeSelector"

// AlignAnnotation says, if it is "true", that claims align other devices with the interface that a NAD names as its
// master. The network then has a device of its own on each node, with the attributes of that interface's PCI function.
const AlignAnnotation = "nadra.dev/align"

// DeviceFromAnnotation says, with the value "required", that only requests with deviceFrom may attach the network.
const DeviceFromAnnotation = "nadra.dev/device-from"

// ErrNoConfig is the error for a NetworkAttachmentDefinition without a configuration: spec.config is
// empty. By the standard, the configuration is then a file on the node whose "name" is the object's
// (behaviour A1-7).
var ErrNoConfig = errors.New("spec.config is empty")

// Network is what attaching needs of a NetworkAttachmentDefinition.
type Network struct {
	Ref NetworkRef `json:"ref"`
	// CNIName is the name of the CNI network: the configuration's "name", or the object's if that is
	// missing or empty (behaviour A1-8).
	CNIName string `json:"cniName"`
	// CNIVersion is the version that libcni uses with the plugins. Empty means 0.1.0, the CNI
	// specification's default.
	CNIVersion string `json:"cniVersion,omitempty"`
	// Conflist is always a list with a name. The plugins have the keys and values of the object.
	Conflist json.RawMessage `json:"conflist"`
	// Plugins has at least one plugin, in the order of the chain.
	Plugins []Plugin `json:"plugins"`
	// ResourceName is the annotation's value, such as "intel.com/sriov".
	ResourceName string `json:"resourceName,omitempty"`
	// DeviceFrom is the value of DeviceFromAnnotation; "required" for an empty one.
	DeviceFrom string `json:"deviceFrom,omitempty"`
}

// CheckNoDeviceFrom refuses a network that needs deviceFrom. Any value of the annotation counts, because a misspelled
// one would attach pods to the network of the node's default route.
func (n Network) CheckNoDeviceFrom() error {
	if n.DeviceFrom == "" {
		return nil
	}
	return reason.Errorf(reason.DeviceMismatch, "NetworkAttachmentDefinition %s has the annotation %s: %q, and the pod names no device for it: "+
		"request the device and the network in a ResourceClaim with deviceFrom, or remove the annotation", n.Ref, DeviceFromAnnotation, n.DeviceFrom)
}

// ParseNetwork parses a NetworkAttachmentDefinition. It returns ErrNoConfig, and the network without its
// configuration, if spec.config is empty; any other error has the position of the mistake. libcni accepts every network that ParseNetwork
// accepts. ParseNetwork refuses a configuration beyond a limit before it decodes anything.
func ParseNetwork(nad *nadv1.NetworkAttachmentDefinition) (Network, error) {
	n := unparsed(nad)
	if nad.Spec.Config == "" {
		return n, reason.Errorf(reason.ConfigMissing, "parsing network %s: %w", n.Ref, ErrNoConfig)
	}
	if err := n.parse(nad.Spec.Config); err != nil {
		return Network{}, reason.Wrap(reason.NetworkInvalid, fmt.Errorf("parsing network %s: spec.config: %w", n.Ref, words.ShortError(err, maxMessage)))
	}
	return n, nil
}

// ParseNetworkFile parses a NetworkAttachmentDefinition without spec.config, with the configuration
// of a file on the node. Errors name the path.
func ParseNetworkFile(nad *nadv1.NetworkAttachmentDefinition, path string, config []byte) (Network, error) {
	n := unparsed(nad)
	if err := n.parse(string(config[:min(len(config), v1alpha1.MaxNetworkConfig+1)])); err != nil {
		return Network{}, reason.Wrap(reason.NetworkInvalid, fmt.Errorf("parsing network %s: file %s: %w", n.Ref, path, words.ShortError(err, maxMessage)))
	}
	return n, nil
}

// unparsed returns the network without its configuration.
func unparsed(nad *nadv1.NetworkAttachmentDefinition) Network {
	n := Network{Ref: RefOf(nad), ResourceName: PoolOf(nad.Annotations)}
	if value, found := nad.Annotations[DeviceFromAnnotation]; found {
		n.DeviceFrom = cmp.Or(value, "required")
	}
	return n
}

// parse adds a configuration to the network.
func (n *Network) parse(config string) error {
	if err := v1alpha1.CheckText("it", config, v1alpha1.MaxNetworkConfig, "shorten it, or make several networks of it"); err != nil {
		return err
	}
	list, err := conflistOf([]byte(config))
	if err != nil {
		return err
	}
	if _, err := spelled([]byte(config)); err != nil {
		return err
	}
	if n.CNIName, err = networkName(list["name"], n.Ref.Name); err != nil {
		return err
	}
	list["name"] = mustJSON(n.CNIName)
	if err := checkPlugins(list["plugins"]); err != nil {
		return err
	}
	n.Conflist = mustJSON(list)
	if err := v1alpha1.CheckSize("it, encoded,", len(n.Conflist), 2*v1alpha1.MaxNetworkConfig, "bytes", "shorten it, or use fewer of the characters <, > and &"); err != nil {
		return err
	}
	parsed, err := libcni.NetworkConfFromBytes(n.Conflist)
	if err != nil {
		return err
	}
	if err := checkVersion(parsed.CNIVersion); err != nil {
		return err
	}
	n.CNIVersion = parsed.CNIVersion
	n.Plugins = PluginsOf(n.Conflist)
	return nil
}

// HasStatus reports whether the network's CNI version has the verb STATUS.
func (n Network) HasStatus() bool {
	known, err := version.GreaterThanOrEqualTo(n.CNIVersion, "1.1.0")
	return known && err == nil
}

// Programs returns the types of the plugins in the chain's order, and those of its IPAM plugins, each once.
func (n Network) Programs() (plugins, ipams []string) {
	for _, p := range n.Plugins {
		plugins = append(plugins, p.Type)
		if p.IPAM.Type != "" && !slices.Contains(ipams, p.IPAM.Type) {
			ipams = append(ipams, p.IPAM.Type)
		}
	}
	return plugins, ipams
}

// checkVersion refuses versions that libcni does not support. libcni would refuse them when a pod
// waits, and again on DEL, which could then never succeed.
func checkVersion(cniVersion string) error {
	known := version.All.SupportedVersions()
	if cniVersion == "" || slices.Contains(known, cniVersion) {
		return nil
	}
	return fmt.Errorf("cniVersion: %q is unknown: use one of %s", cniVersion, strings.Join(known, ", "))
}
