package publish

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/driver/internal/slicewriter"
)

// pciAttributes are the standard attributes of a PCI function.
type pciAttributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute

// pciOf merges the PCI attributes of the interfaces that a network's plugins work on.
func pciOf(n attachment.Network, links map[string]Link) pciAttributes {
	var out pciAttributes
	for _, p := range n.Plugins {
		if pci := links[p.Master].pci; out == nil {
			out = pci
		} else if len(pci) > 0 {
			out = maps.Clone(out)
			maps.Copy(out, pci)
		}
	}
	return out
}

// attributes returns the attributes by which claims select a network. The values are those
// of the first plugin of the chain that has them.
func attributes(n attachment.Network, pci pciAttributes) map[resourceapi.QualifiedName]resourceapi.DeviceAttribute {
	out := map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
		attrNamespace: slicewriter.String(n.Ref.Namespace),
		attrName:      slicewriter.String(n.Ref.Name),
		attrHash:      slicewriter.String(refHash(n.Ref)),
	}
	set := func(name resourceapi.QualifiedName, value string) {
		if _, ok := out[name]; !ok && value != "" {
			out[name] = slicewriter.String(value)
		}
	}
	for _, p := range n.Plugins {
		set(attrPlugin, p.Type)
		set(attrIPAM, p.IPAM)
		set(attrMaster, p.Master)
		set(attrMode, p.Mode)
		if _, ok := out[attrVLAN]; !ok && p.VLAN != 0 {
			out[attrVLAN] = slicewriter.Int(int64(p.VLAN))
		}
		if len(p.Ranges) > 0 && len(p.Ranges[0]) > 0 {
			set(attrSubnet, p.Ranges[0][0].Subnet)
		}
	}
	maps.Copy(out, pci)
	return out
}

// refHash identifies a NAD whose name is too long for an attribute.
func refHash(ref attachment.NetworkRef) string {
	sum := sha256.Sum256([]byte(ref.String()))
	return hex.EncodeToString(sum[:8])
}
