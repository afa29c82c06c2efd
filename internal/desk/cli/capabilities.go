package cli

import (
	"fmt"

	"github.com/nadra-dev/nadra/internal/desk/doctor"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// readCapabilities reads a file of doctor --output-file.
func readCapabilities(path string) (doctor.Capabilities, error) {
	text, err := readFile(path)
	if err != nil {
		return doctor.Capabilities{}, fmt.Errorf("reading capabilities: %w", err)
	}
	c, err := doctor.ParseCapabilities(text)
	if err != nil {
		return c, fmt.Errorf("reading capabilities of %s: %w", path, err)
	}
	return c, nil
}

// nodeFacts returns the facts about the probed nodes in the capabilities of a file, or nil without
// capabilities.
func nodeFacts(path string, c *doctor.Capabilities) ([]translate.NodeFacts, error) {
	if c == nil {
		return nil, nil
	}
	var out []translate.NodeFacts
	for _, n := range c.Nodes {
		if n.Probe == nil {
			continue
		}
		facts := translate.NodeFacts{Name: n.Name}
		for _, dir := range n.Probe.BinDirs {
			facts.Plugins = append(facts.Plugins, dir.Plugins...)
		}
		for _, i := range n.Probe.Interfaces {
			facts.Interfaces = append(append(facts.Interfaces, i.Name), i.AltNames...)
		}
		out = append(out, facts)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("reading capabilities of %s: no node was probed: save them with doctor --probe", path)
	}
	return out, nil
}
