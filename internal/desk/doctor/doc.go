// Package doctor checks whether a cluster and its nodes are ready for nadra. It reads Capabilities of a cluster, for
// which only the probe creates objects, a pod on each node; and it judges them.
package doctor

import (
	"fmt"

	"sigs.k8s.io/yaml"

	"github.com/nadra-dev/nadra/internal/desk/document"
)

// APIVersion is the version of doctor's output. Within a version, fields are added, and
// never renamed or removed.
const APIVersion = "nadra.dev/v1alpha1"

// The kinds of doctor's output.
const (
	capabilitiesKind = "ClusterCapabilities"
	reportKind       = "DoctorReport"
)

// ParseCapabilities parses the output of --output-file, as YAML or JSON. It ignores unknown fields,
// which a newer version may have.
func ParseCapabilities(text []byte) (*Capabilities, error) {
	c := &Capabilities{}
	if err := document.Read(text, APIVersion, capabilitiesKind, "write the file with doctor --output-file", c); err != nil {
		return c, err
	}
	for i, g := range c.Gaps {
		if g.Part == "staticPods" { // its name until 0.1.0-rc.1
			c.Gaps[i].Part = PartPods
		}
	}
	return c, c.validate()
}

// validate rejects a saved file that was edited so that checks make no sense.
func (c *Capabilities) validate() error {
	seen := map[string]bool{}
	for i, n := range c.Nodes {
		switch {
		case n.Name == "":
			return fmt.Errorf("nodes[%d] has no name", i)
		case seen[n.Name]:
			return fmt.Errorf("nodes[%d]: node %s is listed twice", i, n.Name)
		}
		seen[n.Name] = true
	}
	return nil
}

// YAML returns the capabilities in the form of --output-file.
func (c *Capabilities) YAML() ([]byte, error) {
	text, err := yaml.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("writing the capabilities: %w", err)
	}
	return text, nil
}
