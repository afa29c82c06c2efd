package upgrade

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// run is one run of a plan, or one rollback.
type run struct {
	*Runner
	plan  *Plan
	state *State
}

// nodeMoves returns the moves of nodes.
func (r *run) nodeMoves() *moves {
	return &moves{run: r, kind: "node", steps: NodeSteps, moves: r.state.Nodes, take: steps{r}.take()}
}

// namespaceMoves returns the moves of namespaces beside Multus.
func (r *run) namespaceMoves() *moves {
	return &moves{run: r, kind: "namespace", steps: namespaceSteps, moves: r.state.Rollouts, take: rollouts{r}.take()}
}

// waves carries out the waves of the plan, up to and including upTo.
func (r *run) waves(ctx context.Context, upTo string) (Phase, error) {
	wave := r.rolloutWave
	if !r.plan.BesideMultus {
		wave = r.wave
		if err := r.beforeWaves(ctx, upTo); err != nil {
			return "", err
		}
	}
	for i, w := range r.plan.Waves {
		r.Say("%s: %d of %d", w.Name, i+1, len(r.plan.Waves))
		if err := wave(ctx, w); err != nil {
			return "", err
		}
		if r.endsWith(i, upTo) {
			return Paused, nil
		}
	}
	return Done, nil
}

// beforeWaves keeps Multus off nadra's nodes again, and gives namespaces back to nadra whose nodes have all moved.
func (r *run) beforeWaves(ctx context.Context, upTo string) error {
	if len(r.state.Multus) > 0 || r.DryRun != "" { // somebody may have reverted it since an earlier run
		if err := r.persist(ctx, r.GateTimeout, "DaemonSets of Multus", r.keepMultusOff); err != nil {
			return err
		}
	}
	for _, i := range r.plan.overdue(r.state, upTo) {
		if err := r.overdue(ctx, r.plan.Waves[i]); err != nil {
			return err
		}
	}
	return nil
}

// endsWith says what comes next after the wave of --wave and after the last one, and reports whether the run ends
// before the others.
func (r *run) endsWith(wave int, upTo string) bool {
	switch last := wave == len(r.plan.Waves)-1; {
	case last && r.plan.BesideMultus:
		r.Say("all waves have moved. Next: kubectl nadra verify --against compares with a snapshot")
	case last:
		r.Say("all waves have moved. Next: kubectl nadra verify --against compares with a snapshot, and kubectl nadra upgrade finish checks whether anything needs Multus")
	case r.plan.Waves[wave].Name == upTo:
		r.state.Reason = "it ran up to " + upTo + ", as --wave asks"
		r.Say("%s has moved. Next: kubectl nadra upgrade status shows the progress, and kubectl nadra upgrade resume moves the others", upTo)
		return true
	}
	return false
}

// rolloutWave moves the namespaces of a wave beside Multus, one after the other.
func (r *run) rolloutWave(ctx context.Context, w Wave) error {
	remaining, err := r.remaining(ctx, w.Namespaces)
	if err != nil {
		return err
	}
	for _, ns := range remaining {
		if err := r.namespaceMoves().walk(ctx, ToNadra, ns); err != nil {
			return err
		}
	}
	return nil
}

// remaining returns the namespaces that have not moved to nadra, or have lost its label since. It leaves out namespaces that
// are gone.
func (r *run) remaining(ctx context.Context, names []string) ([]string, error) {
	var out []string
	for _, name := range names {
		ns, err := r.Kube.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			r.Say("namespace %s is gone", name)
		case err != nil:
			return nil, &GateError{"namespace " + name, readError(err)}
		case ns.Labels[v1alpha1.OwnerLabel] != v1alpha1.OwnerNadra:
			r.state.Rollouts[name].relabel(namespaceSteps, Verify, Label)
			fallthrough
		case !r.state.Rollouts[name].atNadra():
			out = append(out, name)
		}
	}
	return out, nil
}

// unmoved returns the nodes of a wave that have not moved to nadra, or have lost its label since. It leaves out nodes that
// have left the cluster.
func (r *run) unmoved(ctx context.Context, w Wave) ([]string, error) {
	nodes, err := r.present(ctx, r.plan.Movers(w)...)
	var out []string
	for _, n := range nodes {
		switch m := r.state.Nodes[n.Name]; {
		case n.Labels[v1alpha1.OwnerLabel] != v1alpha1.OwnerNadra:
			m.relabel(NodeSteps, "", Assign)
			fallthrough
		case !m.atNadra():
			out = append(out, n.Name)
		}
	}
	return out, err
}

// overdue gives a namespace back to nadra that was rolled back, while the nodes of its wave
// were not.
func (r *run) overdue(ctx context.Context, w Wave) error {
	if remain, err := r.remain(ctx, w.Namespaces); err != nil || !remain {
		return err
	}
	if err := r.prepare(ctx, w.Name); err != nil {
		return err
	}
	return r.assignAll(ctx, w.Namespaces)
}

// wave moves the namespaces of a wave to nadra, and then its nodes. It does nothing for a wave
// that has moved, and skips nodes that have left the cluster.
func (r *run) wave(ctx context.Context, w Wave) error {
	var names []string
	var remain bool
	err := r.persist(ctx, r.GateTimeout, w.Name, func(ctx context.Context) (err error) {
		if names, err = r.unmoved(ctx, w); err == nil {
			remain, err = r.remain(ctx, w.Namespaces)
		}
		return err
	})
	if err != nil || len(names) == 0 && !remain {
		return err
	}
	if err := r.prepare(ctx, w.Name); err != nil {
		return err
	}
	if err := r.assignAll(ctx, w.Namespaces); err != nil {
		return err
	}
	err = r.persist(ctx, r.GateTimeout, w.Name, func(ctx context.Context) error { return r.checkCapacity(ctx, ToNadra, names...) })
	if err != nil {
		return &GateError{w.Name, err}
	}
	return r.nodeMoves().walk(ctx, ToNadra, names...)
}

// prepare keeps Multus' DaemonSets off nadra's nodes before a wave moves.
func (r *run) prepare(ctx context.Context, wave string) error {
	if r.DryRun != "" { // a dry run has checked them already
		return nil
	}
	return r.persist(ctx, r.GateTimeout, wave, r.keepMultusOff)
}

// take takes one step of the move of a node or namespace.
type take func(ctx context.Context, name string, m *Move) error

// moves takes nodes, or beside Multus namespaces, through the steps of their moves.
type moves struct {
	*run
	// kind is "node" or "namespace".
	kind  string
	steps map[Direction][]Step
	moves map[string]*Move
	take  map[Step]take
}

// walk takes nodes or namespaces through the steps of a direction, side by side: none is more
// than one step ahead of the others.
func (m *moves) walk(ctx context.Context, direction Direction, names ...string) error {
	for _, step := range m.steps[direction] {
		for _, name := range names {
			if !slices.Contains(m.moves[name].next(m.steps, direction), step) {
				continue
			}
			if err := m.step(ctx, name, direction, step); err != nil {
				return err
			}
		}
	}
	return nil
}

// step takes one step, and saves it in the state. The last step leaves nothing in it that only the move needs.
func (m *moves) step(ctx context.Context, name string, direction Direction, step Step) error {
	if err := m.mayContinue(ctx); err != nil {
		return err
	}
	move := m.moves[name].begin(direction)
	m.moves[name] = move
	began, where := time.Now(), fmt.Sprintf("%s %s: %s", m.kind, name, step)
	if err := m.persist(ctx, m.GateTimeout, where, func(ctx context.Context) error { return m.take[step](ctx, name, move) }); err != nil {
		return &GateError{where, err}
	}
	if move.Step = step; move.finished() {
		*move = Move{Direction: direction, Step: step, UID: move.UID}
	}
	m.Say("%s (%s)", where, time.Since(began).Round(100*time.Millisecond))
	return m.save(ctx)
}
