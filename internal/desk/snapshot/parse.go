package snapshot

import (
	"errors"
	"fmt"

	"github.com/nadra-dev/nadra/internal/desk/document"
)

// Parse parses the output of kubectl nadra snapshot. It ignores unknown fields, which a newer version
// may have written.
func Parse(text []byte) (*Snapshot, error) {
	var s Snapshot
	if err := document.Read(text, APIVersion, Kind, "write the file with kubectl nadra snapshot", &s); err != nil {
		return nil, err
	}
	return &s, s.validate()
}

// validate rejects files that were damaged by editing, and cannot be compared.
func (s *Snapshot) validate() error {
	known := map[string]bool{}
	for i, p := range s.Pods {
		switch {
		case p.Namespace == "" || p.Name == "":
			return fmt.Errorf("pods[%d] has no namespace or no name", i)
		case known[p.String()]:
			return fmt.Errorf("pods[%d]: pod %s is there twice", i, p.String())
		}
		known[p.String()] = true
		for j, n := range p.Interfaces {
			if n.Network == "" && n.Name == "" {
				return fmt.Errorf("pods[%d].interfaces[%d] of pod %s has no network and no interface", i, j, p.String())
			}
		}
	}
	for i, n := range s.Networks {
		if n.Namespace == "" || n.Name == "" {
			return fmt.Errorf("networks[%d] has no namespace or no name", i)
		}
	}
	if s.Pods == nil {
		return errors.New("it has no pods: write [] if there were none")
	}
	return nil
}
