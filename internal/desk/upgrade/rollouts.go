package upgrade

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// rollouts moves namespaces beside Multus: it labels a namespace, and restarts its workloads.
type rollouts struct {
	env
	plan       *Plan
	reader     *factReader
	journal    *journal
	namespaces *namespaces
	// gate limits the wait for each rollout.
	gate time.Duration
	// canaries tests the networks of a namespace; nil skips it.
	canaries  func(ctx context.Context, namespace string) error
	snapshots Snapshots
}

// remaining returns the namespaces that have not moved to nadra. It leaves out namespaces that are gone.
func (r *rollouts) remaining(ctx context.Context, names []string) ([]string, error) {
	var out []string
	for _, name := range names {
		ns, err := r.kube.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			r.say("namespace %s is gone", name)
		case err != nil:
			return nil, &GateError{"namespace " + name, readError(err)}
		case !r.journal.state.Rollouts[name].AtNadra() || ns.Labels[v1alpha1.OwnerLabel] != v1alpha1.OwnerNadra:
			out = append(out, name)
		}
	}
	return out, nil
}

// take takes one step.
func (r *rollouts) take(ctx context.Context, step Step, name string, state *Move) error {
	switch step {
	case Record:
		return r.record(ctx, name, state)
	case Verify:
		return r.verify(ctx, name)
	case Label:
		return r.label(ctx, name, state.Direction)
	case Restart:
		return r.restart(ctx, name, state)
	case Compare:
		return r.compare(ctx, name, state)
	}
	return fmt.Errorf("%q is not a step of a namespace", step)
}

// record records how many pods are ready, and what they have.
func (r *rollouts) record(ctx context.Context, name string, state *Move) error {
	f, err := r.reader.facts(ctx)
	if err != nil {
		return err
	}
	share := f.Rollouts(name, state.Direction, r.plan.Staying())
	state.Ready = nil
	for _, w := range share.Restarts {
		w.Pods = f.Ready(w.Workload)
		state.Ready = append(state.Ready, w)
	}
	if r.snapshots.Take == nil || r.dry != "" {
		return nil
	}
	text, err := r.snapshots.Take(ctx, name)
	if err == nil {
		state.Before, err = compressed(text)
	}
	return err
}

// verify tests the namespace's networks by canaries of nadra, before a pod of a workload depends on them.
func (r *rollouts) verify(ctx context.Context, name string) error {
	if r.canaries == nil || r.dry != "" {
		return nil
	}
	err := r.canaries(ctx, name)
	if ctx.Err() != nil {
		return err
	}
	return reason.Wrap(reason.CanaryFailed, err)
}

// label gives new pods of the namespace their owner.
func (r *rollouts) label(ctx context.Context, name string, direction Direction) error {
	if direction == ToNadra {
		return r.namespaces.assign(ctx, name)
	}
	f, err := r.reader.facts(ctx)
	if err != nil {
		return err
	}
	before, known := r.journal.state.Namespaces[name]
	if !known && f.Owners[name] != v1alpha1.OwnerNadra {
		return nil // an interrupted rollback has given it back
	}
	if f.DefaultOwner == v1alpha1.OwnerNadra {
		before.Owner = v1alpha1.OwnerMultus
	}
	return r.namespaces.giveBack(ctx, name, before.Owner)
}

// restart restarts the workloads of a namespace one after the other, and waits for each: all of its pods have the
// new owner, and as many are ready as before. It also waits for workloads that an interrupted run has restarted.
func (r *rollouts) restart(ctx context.Context, name string, state *Move) error {
	f, err := r.reader.facts(ctx)
	if err != nil {
		return err
	}
	share := f.Rollouts(name, state.Direction, r.plan.Staying())
	for _, w := range state.Ready { // one whose pods have all changed may not be ready yet
		if slices.Contains(state.Restarted, w.Workload) && !slices.ContainsFunc(share.Restarts, func(s WorkloadPods) bool { return s.Workload == w.Workload }) {
			share.Restarts = append(share.Restarts, w)
		}
	}
	for _, w := range share.Restarts {
		if !slices.Contains(state.Restarted, w.Workload) {
			if err := r.journal.mayContinue(ctx); err != nil {
				return err
			}
			if err := r.rollout(ctx, w.Workload); err != nil {
				return err
			}
			r.say("%s: restarted", w.Workload)
			state.Restarted = append(state.Restarted, w.Workload)
			if err := r.journal.save(ctx); err != nil {
				return err
			}
		}
		if err := r.awaitRollout(ctx, w.Workload, state); err != nil {
			return err
		}
	}
	return nil
}

// rollout restarts a workload as kubectl rollout restart does.
func (r *rollouts) rollout(ctx context.Context, w Workload) error {
	err := r.patchTemplate(ctx, w, fmt.Sprintf(`{"annotations":{"kubectl.kubernetes.io/restartedAt":%q}}`, time.Now().Format(time.RFC3339)))
	if err != nil {
		return fmt.Errorf("restarting %s: %w", w, err)
	}
	return nil
}

// awaitRollout waits until no pod of a workload has its former owner, and as many are ready as before.
func (r *rollouts) awaitRollout(ctx context.Context, w Workload, state *Move) error {
	before := 0
	for _, b := range state.Ready {
		if b.Workload == w {
			before = b.Pods
		}
	}
	owner := map[Direction]string{ToNadra: "Multus", ToMultus: "nadra"}[state.Direction]
	return r.await(ctx, r.gate, reason.PodsNotReady, func(ctx context.Context) (string, error) {
		f, err := r.reader.facts(ctx)
		if err != nil {
			return "", err
		}
		if p, found := f.Unchanged(w, state.Direction); found {
			return fmt.Sprintf("%s still serves pod %s of %s", owner, p, w), nil
		}
		if now := f.Ready(w); now < before {
			return tooFewReady(w, now, before), nil
		}
		return "", nil
	})
}

// compare checks that no pod has lost a network.
func (r *rollouts) compare(ctx context.Context, name string, state *Move) error {
	if r.snapshots.Take == nil || r.dry != "" || len(state.Before) == 0 {
		return nil
	}
	before, err := uncompressed(state.Before)
	if err != nil {
		return err
	}
	now, err := r.snapshots.Take(ctx, name)
	if err != nil {
		return err
	}
	return reason.Wrap(reason.NetworksLost, r.snapshots.Compare(before, now))
}

// compressed compresses a snapshot, because a ConfigMap has room for a megabyte.
func compressed(text []byte) ([]byte, error) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(text); err != nil {
		return nil, fmt.Errorf("compressing the snapshot: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("compressing the snapshot: %w", err)
	}
	return b.Bytes(), nil
}

func uncompressed(data []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("reading the snapshot before the move: %w", err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("reading the snapshot before the move: %w", err)
	}
	return text, nil
}
