package v1alpha1

import (
	"encoding/json"
	"maps"
)

// Overlay merges configs, each over those before it. Each field that is set in a config replaces the
// field of the earlier ones, and each key of CNIArgs that key. An empty string, list or map is not set;
// an empty DefaultRoute is. The result shares no memory with the arguments, each of which is read once.
func Overlay(configs ...AttachmentConfig) AttachmentConfig {
	var out AttachmentConfig
	args := map[string]json.RawMessage{}
	for _, c := range configs {
		out.overlay(c)
		maps.Copy(args, c.CNIArgs)
	}
	if len(args) > 0 {
		out.CNIArgs = args
	}
	return *out.DeepCopy()
}

// overlay replaces the fields that are set in over, without CNIArgs.
func (c *AttachmentConfig) overlay(over AttachmentConfig) {
	overlayValue(&c.APIVersion, over.APIVersion)
	overlayValue(&c.Kind, over.Kind)
	overlayValue(&c.Network, over.Network)
	overlayValue(&c.Interface, over.Interface)
	overlayList(&c.IPs, over.IPs)
	overlayValue(&c.MAC, over.MAC)
	overlayValue(&c.InfinibandGUID, over.InfinibandGUID)
	overlayList(&c.PortMappings, over.PortMappings)
	overlayValue(&c.Bandwidth, over.Bandwidth)
	overlayValue(&c.DefaultRoute, over.DefaultRoute)
	overlayValue(&c.DeviceID, over.DeviceID)
	overlayValue(&c.DeviceFrom, over.DeviceFrom)
	overlayValue(&c.IPAMClaimReference, over.IPAMClaimReference)
}

// overlayValue replaces base by over, unless over is the zero value.
func overlayValue[T comparable](base *T, over T) {
	var zero T
	if over != zero {
		*base = over
	}
}

// overlayList replaces base by over, unless over is empty.
func overlayList[T any](base *[]T, over []T) {
	if len(over) > 0 {
		*base = over
	}
}
