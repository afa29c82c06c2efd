package attachment

import (
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// toConfig returns the wire form of a selection, without its unknown keys.
func toConfig(s Selection) v1alpha1.AttachmentConfig {
	c := v1alpha1.AttachmentConfig{
		TypeMeta:           v1alpha1.TypeMeta(),
		Interface:          s.Interface,
		IPs:                s.IPs,
		MAC:                s.MAC,
		InfinibandGUID:     s.InfinibandGUID,
		CNIArgs:            s.CNIArgs,
		PortMappings:       s.PortMappings,
		Bandwidth:          s.Bandwidth,
		DefaultRoute:       s.DefaultRoute,
		DeviceID:           s.DeviceID,
		DeviceFrom:         s.DeviceFrom,
		IPAMClaimReference: s.IPAMClaimReference,
	}
	if s.Network != (NetworkRef{}) {
		c.Network = &v1alpha1.NetworkReference{Namespace: s.Network.Namespace, Name: s.Network.Name}
	}
	return *c.DeepCopy()
}

// FromConfig returns the selection of a config. It is the inverse of toConfig.
func FromConfig(c v1alpha1.AttachmentConfig) Selection {
	c = *c.DeepCopy()
	s := Selection{
		Interface:          c.Interface,
		IPs:                c.IPs,
		MAC:                c.MAC,
		InfinibandGUID:     c.InfinibandGUID,
		CNIArgs:            c.CNIArgs,
		PortMappings:       c.PortMappings,
		Bandwidth:          c.Bandwidth,
		DefaultRoute:       c.DefaultRoute,
		DeviceID:           c.DeviceID,
		DeviceFrom:         c.DeviceFrom,
		IPAMClaimReference: c.IPAMClaimReference,
	}
	if c.Network != nil {
		s.Network = NetworkRef{Namespace: c.Network.Namespace, Name: c.Network.Name}
	}
	return s
}
