package upgrade

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// rollouts takes the steps of a namespace's move beside Multus: it labels the namespace, and restarts its workloads.
type rollouts struct{ *run }

// take returns the functions of the steps.
func (r rollouts) take() map[Step]take {
	return map[Step]take{Record: r.recordPods, Verify: r.verify, Label: r.label, Restart: r.restart, Compare: r.compare}
}

// recordPods records how many pods are ready, and what they have.
func (r rollouts) recordPods(ctx context.Context, name string, m *Move) error {
	f, err := r.facts(ctx)
	if err != nil {
		return err
	}
	share := f.Rollouts(name, m.Direction, r.plan.staying())
	m.Ready = nil
	for _, w := range share.Restarts {
		w.Pods = f.Ready(w.Workload)
		m.Ready = append(m.Ready, w)
	}
	if r.Snapshots.Take == nil || r.DryRun != "" {
		return nil
	}
	text, err := r.Snapshots.Take(ctx, name)
	if err == nil {
		m.Before, err = compressed(text)
	}
	return err
}

// verify tests the namespace's networks by canaries of nadra, before a pod of a workload depends on them.
func (r rollouts) verify(ctx context.Context, name string, _ *Move) error {
	return r.test(ctx, r.VerifyNamespace, name)
}

// label gives new pods of the namespace their owner.
func (r rollouts) label(ctx context.Context, name string, m *Move) error {
	if m.Direction == ToNadra {
		return r.assignNamespace(ctx, name)
	}
	f, err := r.facts(ctx)
	if err != nil {
		return err
	}
	before, known := r.state.Namespaces[name]
	if !known && f.Owners[name] != v1alpha1.OwnerNadra {
		return nil // an interrupted rollback has given it back
	}
	if f.DefaultOwner == v1alpha1.OwnerNadra {
		before.Owner = v1alpha1.OwnerMultus
	}
	return r.giveBackNamespace(ctx, name, before.Owner)
}

// restart restarts the workloads of a namespace one after the other, and waits for each: all of its pods have the
// new owner, and as many are ready as before. It also waits for workloads that an interrupted run has restarted.
func (r rollouts) restart(ctx context.Context, name string, m *Move) error {
	f, err := r.facts(ctx)
	if err != nil {
		return err
	}
	share := f.Rollouts(name, m.Direction, r.plan.staying())
	for _, w := range m.Ready { // one whose pods have all changed may not be ready yet
		if slices.Contains(m.Restarted, w.Workload) && !slices.ContainsFunc(share.Restarts, func(s WorkloadPods) bool { return s.Workload == w.Workload }) {
			share.Restarts = append(share.Restarts, w)
		}
	}
	for _, w := range share.Restarts {
		if !slices.Contains(m.Restarted, w.Workload) {
			if err := r.mayContinue(ctx); err != nil {
				return err
			}
			if err := r.rollout(ctx, w.Workload); err != nil {
				return err
			}
			r.Say("%s: restarted", w.Workload)
			m.Restarted = append(m.Restarted, w.Workload)
			if err := r.save(ctx); err != nil {
				return err
			}
		}
		if err := r.awaitRollout(ctx, w.Workload, m); err != nil {
			return err
		}
	}
	return nil
}

// rollout restarts a workload as kubectl rollout restart does.
func (r rollouts) rollout(ctx context.Context, w Workload) error {
	err := r.patchTemplate(ctx, w, fmt.Sprintf(`{"annotations":{"kubectl.kubernetes.io/restartedAt":%q}}`, time.Now().Format(time.RFC3339)))
	if err != nil {
		return fmt.Errorf("restarting %s: %w", w, err)
	}
	return nil
}

// awaitRollout waits until no pod of a workload has its former owner, and as many are ready as before.
func (r rollouts) awaitRollout(ctx context.Context, w Workload, m *Move) error {
	before := slices.DeleteFunc(slices.Clone(m.Ready), func(b WorkloadPods) bool { return b.Workload != w })
	owner := map[Direction]string{ToNadra: "Multus", ToMultus: "nadra"}[m.Direction]
	return r.awaitPods(ctx, before, func(f *Facts) string {
		if p, found := f.unchanged(w, m.Direction); found {
			return fmt.Sprintf("%s still serves pod %s of %s", owner, p, w)
		}
		return ""
	})
}

// compare checks that no pod has lost a network.
func (r rollouts) compare(ctx context.Context, name string, m *Move) error {
	if r.Snapshots.Take == nil || r.DryRun != "" || len(m.Before) == 0 {
		return nil
	}
	before, err := uncompressed(m.Before)
	if err != nil {
		return err
	}
	now, err := r.Snapshots.Take(ctx, name)
	if err != nil {
		return err
	}
	return reason.Wrap(reason.NetworksLost, r.Snapshots.Compare(before, now))
}

// compressed compresses a snapshot, because a ConfigMap has room for a megabyte.
func compressed(text []byte) ([]byte, error) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(text)
	if err = errors.Join(err, w.Close()); err != nil {
		return nil, fmt.Errorf("compressing the snapshot: %w", err)
	}
	return b.Bytes(), nil
}

func uncompressed(data []byte) ([]byte, error) {
	var text []byte
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err == nil {
		text, err = io.ReadAll(r)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the snapshot before the move: %w", err)
	}
	return text, nil
}
