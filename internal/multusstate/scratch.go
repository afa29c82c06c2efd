package multusstate

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/internal/atomicfile"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// delegate is one network in Multus' file of a sandbox: the fields of Multus' DelegateNetConf
// (pkg/types) that a DEL depends on.
type delegate struct {
	// Conf and ConfList are the configuration. Multus takes it for a list if ConfList has plugins.
	Conf, ConfList json.RawMessage `json:",omitempty"`
	// Name is namespace/name of the NAD, or the name of a configuration without one.
	Name                  string
	IfnameRequest         string    `json:"ifnameRequest,omitempty"`
	MacRequest            string    `json:"macRequest,omitempty"`
	IPRequest             []string  `json:"ipRequest,omitempty"`
	InfinibandGUIDRequest string    `json:"infinibandGUIDRequest,omitempty"`
	GatewayRequest        *[]string `json:"default-route,omitempty"`
	DeviceID              string    `json:"deviceID,omitempty"`
	ResourceName          string    `json:"resourceName,omitempty"`
	// Bytes is the configuration that the plugins were given.
	Bytes []byte
}

// maxScratch limits the bytes of Multus' file of a sandbox. It is several times what the networks of a pod
// at nadra's limits take in it.
const maxScratch = 16 << 20

// readScratch reads Multus' file of a sandbox. The first delegate is the default network.
func readScratch(path string) ([]delegate, error) {
	data, err := atomicfile.Read(path, maxScratch)
	if err != nil {
		return nil, err
	}
	var out []delegate
	if err := json.Unmarshal(data, &out); err != nil {
		return nil, fmt.Errorf("decoding %s: %w", path, err)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("decoding %s: %w", path, errors.New("it has no network"))
	}
	return out, nil
}

// interfaceName returns the name of the interface that Multus gives the delegate at a position
// of the list, where the default network is the first.
func (d delegate) interfaceName(position int) string {
	if d.IfnameRequest != "" {
		return d.IfnameRequest
	}
	return fmt.Sprintf("net%d", position)
}

// capabilityArgs returns what the pod's annotation requests, as Multus passes it to plugins.
func (d delegate) capabilityArgs() map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	set := func(key string, value any, present bool) {
		if raw, err := json.Marshal(value); err == nil && present {
			out[key] = raw
		}
	}
	set("ips", d.IPRequest, len(d.IPRequest) > 0)
	set("mac", d.MacRequest, d.MacRequest != "")
	set("infinibandGUID", d.InfinibandGUIDRequest, d.InfinibandGUIDRequest != "")
	set("deviceID", d.DeviceID, d.DeviceID != "")
	return out
}

// ref returns the delegate's NAD. The namespace of a configuration without a NAD is empty.
func (d delegate) ref() attachment.NetworkRef {
	if namespace, name, found := strings.Cut(d.Name, "/"); found {
		return attachment.NetworkRef{Namespace: namespace, Name: name}
	}
	return attachment.NetworkRef{Name: d.Name}
}

// setConfig sets the name and the configuration of an attachment of a NAD. file is for errors.
func setConfig(a *attachment.Attachment, file string, config []byte) error {
	nad := &nadv1.NetworkAttachmentDefinition{ObjectMeta: metav1.ObjectMeta{Namespace: a.Network.Namespace, Name: a.Network.Name}}
	network, err := attachment.ParseNetworkFile(nad, file, config)
	a.CNIName, a.Conflist = network.CNIName, network.Conflist
	return err
}
