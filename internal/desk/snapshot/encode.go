package snapshot

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Encode encodes a snapshot as it is kept in files.
func (s *Snapshot) Encode() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(s); err != nil {
		return nil, fmt.Errorf("writing the snapshot: %w", err)
	}
	return b.Bytes(), nil
}

// Parse parses the output of Encode. It ignores unknown fields, which a newer version
// may have written.
func Parse(text []byte) (*Snapshot, error) {
	var head struct{ APIVersion, Kind string }
	if err := json.Unmarshal(text, &head); err != nil {
		return nil, fmt.Errorf("it is not the output of kubectl nadra snapshot: %w", err)
	}
	if head.APIVersion != APIVersion || head.Kind != Kind {
		return nil, fmt.Errorf("apiVersion %.60q and kind %.60q are not %s %s: write the file with kubectl nadra snapshot", head.APIVersion, head.Kind, APIVersion, Kind)
	}
	var s Snapshot
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, fmt.Errorf("it is not the output of kubectl nadra snapshot: %w", err)
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
