package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/nadra-dev/nadra/internal/desk/snapshot"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// takeSnapshot records the networks of a namespace's pods.
func (o *runFlags) takeSnapshot(ctx context.Context, namespace string) ([]byte, error) {
	s, err := o.takeLive(ctx, scope{namespace: namespace}, &nodeFlags{}, true)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("writing the snapshot of namespace %s: %w", namespace, err)
	}
	return text, nil
}

// compareSnapshots returns an error that names what pods have lost.
func compareSnapshots(before, now []byte) error {
	was, err := snapshot.Parse(before)
	if err != nil {
		return fmt.Errorf("reading the snapshot before the move: %w", err)
	}
	is, err := snapshot.Parse(now)
	if err != nil {
		return fmt.Errorf("reading the snapshot after the move: %w", err)
	}
	r, err := snapshot.Compare(was, is, snapshot.Options{})
	if err != nil {
		return fmt.Errorf("comparing the snapshots: %w", err)
	}
	var lost []string
	for _, d := range r.Differences {
		// Pods are counted before: people may take some away meanwhile.
		if d.Severity == translate.Blocker && d.Code != snapshot.PodMissing {
			lost = append(lost, fmt.Sprintf("%s %s %s: %s", d.Code, d.Object, d.Interface, d.Message))
		}
	}
	if len(lost) == 0 {
		return nil
	}
	return fmt.Errorf("pods lack what they had before: %s", strings.Join(lost, "; "))
}
