package v1alpha1

import (
	"encoding/json"
	"maps"
)

// Overlay lays one config over another: a class's under a claim's (design D1).
// Each field that over has replaces base's whole; of CNIArgs each key does. An
// empty string, list or map does not count as had, a DefaultRoute does. The
// result shares nothing with either.
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
	overlayValue(&out.IPAMClaimReference, over.IPAMClaimReference)
	return out
}

func overlayValue[T comparable](base *T, over T) {
	var zero T
	if over != zero {
		*base = over
	}
}

func overlayList[T any](base *[]T, over []T) {
	if len(over) > 0 {
		*base = over
	}
}

func overlayKeys(base, over map[string]json.RawMessage) map[string]json.RawMessage {
	if len(base) == 0 {
		return over
	}
	maps.Copy(base, over)
	return base
}
