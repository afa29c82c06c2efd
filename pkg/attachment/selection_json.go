package attachment

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// wireElement is an element of the JSON form: the standard's keys and those of Multus (behaviour
// A2-28). Keys are case-insensitive, as for Multus.
type wireElement struct {
	Name               string                     `json:"name"`
	Namespace          string                     `json:"namespace"`
	IPs                []string                   `json:"ips"`
	MAC                string                     `json:"mac"`
	InfinibandGUID     string                     `json:"infiniband-guid"`
	Interface          string                     `json:"interface"`
	InterfaceRequest   string                     `json:"interfaceRequest"`
	PortMappings       []PortMapping              `json:"portMappings"`
	Bandwidth          *Bandwidth                 `json:"bandwidth"`
	DeviceID           string                     `json:"deviceID"`
	CNIArgs            map[string]json.RawMessage `json:"cni-args"`
	DefaultRoute       *[]string                  `json:"default-route"`
	IPAMClaimReference string                     `json:"ipam-claim-reference"`
}

var knownKeys = []string{
	"name", "namespace", "ips", "mac", "infiniband-guid", "interface", "interfaceRequest", "portMappings",
	"bandwidth", "deviceID", "cni-args", "default-route", "ipam-claim-reference",
}

// parseElements parses the JSON form.
func parseElements(annotation string) ([]Selection, error) {
	var raws []json.RawMessage
	if err := decodeJSON([]byte(annotation), &raws); err != nil {
		if json.Valid([]byte(annotation)) {
			return nil, fmt.Errorf(`%w: write a list: [{"name": "…"}]`, err)
		}
		return nil, err
	}
	if err := checkCount(len(raws)); err != nil {
		return nil, err
	}
	var selections []Selection
	for i, raw := range raws {
		s, err := parseElement(raw, element(i))
		if err != nil {
			return nil, err
		}
		selections = append(selections, s)
	}
	return selections, nil
}

// parseElement parses one element.
func parseElement(raw json.RawMessage, path *field.Path) (Selection, error) {
	if err := v1alpha1.CheckText(path.String(), raw, v1alpha1.MaxRequest, "shorten its arguments"); err != nil {
		return Selection{}, err
	}
	var keys object
	if err := json.Unmarshal(raw, &keys); err != nil || keys == nil {
		return Selection{}, fmt.Errorf(`%s: %s is not an object: write {"name": "…"}`, path, raw)
	}
	if err := v1alpha1.CheckSize(path.String(), len(keys), v1alpha1.MaxRequestKeys, "keys", "remove those that are unknown"); err != nil {
		return Selection{}, err
	}
	var e wireElement
	if err := decodeJSON(raw, &e); err != nil {
		return Selection{}, fmt.Errorf("%s.%w", path, err)
	}
	for _, key := range slices.Sorted(maps.Keys(e.CNIArgs)) {
		var decoded any // Multus decodes numbers, too, and refuses 1e400
		if err := decodeJSON(e.CNIArgs[key], &decoded); err != nil {
			return Selection{}, fmt.Errorf("%s.cni-args.%s: %w", path, key, err)
		}
	}
	if namespace, name, slash := strings.Cut(e.Name, "/"); slash {
		// Multus does not split the name and finds no such network.
		return Selection{}, fmt.Errorf(`%s.name: %q contains a namespace, which only the comma form allows: write "namespace": %q, "name": %q`,
			path, e.Name, namespace, name)
	}
	return e.selection(unknown(keys)), nil
}

// unknown returns the sorted unknown keys.
func unknown(keys object) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(keys)), func(key string) bool {
		return slices.ContainsFunc(knownKeys, func(known string) bool { return strings.EqualFold(known, key) })
	})
}

// selection returns the element as a selection. It drops empty lists and maps, except an empty list
// of default routes, which is a request.
func (e wireElement) selection(unknown []string) Selection {
	s := Selection{
		Network:            NetworkRef{Namespace: e.Namespace, Name: e.Name},
		Interface:          e.Interface,
		IPs:                orNil(e.IPs),
		MAC:                e.MAC,
		InfinibandGUID:     e.InfinibandGUID,
		PortMappings:       orNil(e.PortMappings),
		Bandwidth:          e.Bandwidth,
		DefaultRoute:       e.DefaultRoute,
		DeviceID:           e.DeviceID,
		IPAMClaimReference: e.IPAMClaimReference,
		Unknown:            orNil(unknown),
	}
	if s.Interface == "" {
		s.Interface = e.InterfaceRequest
	}
	for key, value := range e.CNIArgs {
		if s.CNIArgs == nil {
			s.CNIArgs = map[string]json.RawMessage{}
		}
		// A claim has the same form, so the value survives the conversion unchanged.
		s.CNIArgs[key] = sortedKeys(value)
	}
	return s
}

// orNil returns nil for an empty list.
func orNil[T any](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	return list
}
