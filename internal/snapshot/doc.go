// Package snapshot records what networks the pods of a cluster have, and says
// what is otherwise later. It is pure: objects and what nodes saw go in, a
// Snapshot comes out; two Snapshots go in, a Report of differences comes out.
// Package live beside it reads the cluster.
package snapshot

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// APIVersion is that of all that this package writes. Fields are added within a
// version, never renamed or removed.
const APIVersion = "nadra.dev/v1alpha1"

// The kinds of what it writes.
const (
	Kind       = "Snapshot"
	ReportKind = "VerifyReport"
)

// Encode returns a snapshot as it is kept in files.
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

// Parse reads what Encode has written. Fields that a newer version may have are
// passed over.
func Parse(text []byte) (*Snapshot, error) {
	var head struct{ APIVersion, Kind string }
	if err := json.Unmarshal(text, &head); err != nil {
		return nil, fmt.Errorf("it is not what kubectl nadra snapshot writes: %w", err)
	}
	if head.APIVersion != APIVersion || head.Kind != Kind {
		return nil, fmt.Errorf("it is %.60q %.60q, not %s %s: kubectl nadra snapshot writes it", head.APIVersion, head.Kind, APIVersion, Kind)
	}
	var s Snapshot
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, fmt.Errorf("it is not what kubectl nadra snapshot writes: %w", err)
	}
	return &s, s.validate()
}

// validate refuses what somebody could have made of a file, and what nothing
// could be compared with.
func (s *Snapshot) validate() error {
	seen := map[string]bool{}
	for i, p := range s.Pods {
		switch {
		case p.Namespace == "" || p.Name == "":
			return fmt.Errorf("pods[%d] has no namespace or no name", i)
		case seen[p.String()]:
			return fmt.Errorf("pods[%d]: pod %s is there twice", i, p.String())
		}
		seen[p.String()] = true
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
