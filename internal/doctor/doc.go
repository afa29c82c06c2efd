// Package doctor judges whether a cluster and its nodes are ready for nadra. It
// is pure: Capabilities, which package live beside it reads, go in, and Checks
// come out.
package doctor

import (
	"encoding/json"
	"fmt"

	"sigs.k8s.io/yaml"
)

// APIVersion is that of all that doctor writes. Fields are added within a
// version, never renamed or removed.
const APIVersion = "nadra.dev/v1alpha1"

// The kinds of what doctor writes.
const (
	CapabilitiesKind = "ClusterCapabilities"
	ReportKind       = "DoctorReport"
)

// ParseCapabilities reads what --save has written, as YAML or JSON. Fields that
// a newer version may have are passed over.
func ParseCapabilities(text []byte) (Capabilities, error) {
	var c Capabilities
	content, err := yaml.YAMLToJSON(text)
	if err != nil {
		return c, err
	}
	var head struct{ APIVersion, Kind string }
	if err := json.Unmarshal(content, &head); err != nil {
		return c, fmt.Errorf("it is not what doctor --save writes: %w", err)
	}
	if head.APIVersion != APIVersion || head.Kind != CapabilitiesKind {
		return c, fmt.Errorf("it is %q %q, not %s %s: doctor --save writes it", head.APIVersion, head.Kind, APIVersion, CapabilitiesKind)
	}
	if err := json.Unmarshal(content, &c); err != nil {
		return c, err
	}
	return c, c.validate()
}

// validate refuses what a person could have made of a saved file and no check
// could be held against.
func (c *Capabilities) validate() error {
	seen := map[string]bool{}
	for i, n := range c.Nodes {
		switch {
		case n.Name == "":
			return fmt.Errorf("nodes[%d] has no name", i)
		case seen[n.Name]:
			return fmt.Errorf("nodes[%d]: node %s is there twice", i, n.Name)
		}
		seen[n.Name] = true
	}
	return nil
}

// YAML returns capabilities as --save writes them.
func (c *Capabilities) YAML() ([]byte, error) {
	text, err := yaml.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("writing the capabilities: %w", err)
	}
	return text, nil
}
