package v1alpha1

import (
	"encoding/json"
	"maps"
)

// Overlay merges a claim's config over a class's. Each field that is set in over replaces the
// field in base, and each key of CNIArgs that key. An empty string, list or map is not set;
// an empty DefaultRoute is. The result shares no memory with the arguments.
func Overlay(base, over AttachmentConfig) AttachmentConfig {
	out := *base.DeepCopy()
	over = *over.DeepCopy()
	overlayValue(&out.APIVersion, over.APIVersion)
	overlayValue(&out.Kind, over.Kind)
	overlayValue(&out.Network, over.Network)
	overlayValue(&out.Interface, over.Interface)
	overlayList(&out.IPs, over.IPs)
	overlayValue(&out.MAC, over.MAC)
	overlayValue(&out.InfinibandGUID, over.InfinibandGUID)
	out.CNIArgs = overlayKeys(out.CNIArgs, over.CNIArgs)
	overlayList(&out.PortMappings, over.PortMappings)
	overlayValue(&out.Bandwidth, over.Bandwidth)
	overlayValue(&out.DefaultRoute, over.DefaultRoute)
	overlayValue(&out.DeviceID, over.DeviceID)
	overlayValue(&out.DeviceFrom, over.DeviceFrom)
	overlayValue(&out.IPAMClaimReference, over.IPAMClaimReference)
	return out
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

// overlayKeys returns base with the keys of over.
func overlayKeys(base, over map[string]json.RawMessage) map[string]json.RawMessage {
	if len(base) == 0 {
		return over
	}
	maps.Copy(base, over)
	return base
}
