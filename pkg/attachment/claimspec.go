package attachment

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// ClaimSpec returns the claim that requests selections: one request for each, in their order and
// named after its interface, of the network's class. A selection that only names its network has no
// config, because the class has one, and the API server keeps each config twice. FromClaim returns the
// same selections from the allocated claim, without their unknown keys. Networks must have a namespace.
func ClaimSpec(selections []Selection) (resourceapi.ResourceClaimSpec, error) {
	var spec resourceapi.ResourceClaimSpec
	if n := len(selections); n > resourceapi.DeviceRequestsMaxSize {
		return spec, fmt.Errorf("making a claim for %d networks: a claim has at most %d requests: use several claims", n, resourceapi.DeviceRequestsMaxSize)
	}
	interfaces, err := InterfaceNames(selections)
	if err != nil {
		return spec, fmt.Errorf("making a claim: %w", err)
	}
	taken := map[string]bool{}
	for i, s := range selections {
		request := requestName(interfaces[i], taken)
		config, err := ClaimConfig(request, s)
		if err != nil {
			return resourceapi.ResourceClaimSpec{}, fmt.Errorf("making a claim: %s: %w", title(selections, i), err)
		}
		spec.Devices.Requests = append(spec.Devices.Requests, resourceapi.DeviceRequest{
			Name:    request,
			Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: DeviceClassName(s.Network)},
		})
		if !s.isItsClass() {
			spec.Devices.Config = append(spec.Devices.Config, config)
		}
	}
	return spec, nil
}

// isItsClass reports whether the class of a selection's network has all that the selection has. The
// network of a class whose name is shortened cannot be read from a manifest, so it counts as more.
func (s Selection) isItsClass() bool {
	named, _ := ClassNetwork(DeviceClassName(s.Network))
	return named == s.Network && reflect.DeepEqual(toConfig(s), toConfig(Selection{Network: s.Network}))
}

// ClaimConfig returns the config for a request of a selection. It returns an error if FromClaim or the API
// server would refuse it.
func ClaimConfig(request string, s Selection) (resourceapi.DeviceClaimConfiguration, error) {
	parameters, err := parametersOf(s)
	return resourceapi.DeviceClaimConfiguration{
		Requests: []string{request},
		DeviceConfiguration: resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{
			Driver: v1alpha1.DriverName, Parameters: parameters,
		}},
	}, err
}

// ClassParameters returns the parameters of a class's config, which only names the network.
func ClassParameters(network NetworkRef) runtime.RawExtension {
	return runtime.RawExtension{Raw: sortedKeys(mustJSON(toConfig(Selection{Network: network})))}
}

// parametersOf returns the parameters of a selection's config.
func parametersOf(s Selection) (runtime.RawExtension, error) {
	if s.Network.Namespace == "" || s.Network.Name == "" {
		return runtime.RawExtension{}, errors.New("the network must have a namespace and a name")
	}
	config := toConfig(s)
	v1alpha1.SetDefaults(&config)
	if err := v1alpha1.AsError(config.Validate(nil)); err != nil {
		return runtime.RawExtension{}, err
	}
	raw := sortedKeys(mustJSON(config))
	return runtime.RawExtension{Raw: raw}, v1alpha1.CheckText("its config", raw, v1alpha1.MaxRequest, "shorten cni-args")
}

// requestName turns an interface name into a DNS label that is not taken yet.
func requestName(iface string, taken map[string]bool) string {
	label := cmp.Or(Label(iface), "net")
	name := label
	for n := 2; taken[name]; n++ {
		name = fmt.Sprintf("%s-%d", label, n)
	}
	taken[name] = true
	return name
}

// Label returns a name in lower case without the characters that a DNS label cannot have.
func Label(name string) string {
	return strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(name)), "-")
}
