package upgrade

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// run is one run of a plan, or one rollback.
type run struct {
	env
	plan       *Plan
	state      *State
	reader     *factReader
	journal    *journal
	evictor    *evictor
	daemonSets *daemonSets
	namespaces *namespaces
	capacity   *capacity
	nodes      *nodes
	steps      *steps
	gate       time.Duration
	rollouts   *rollouts
	// nodeMoves and namespaceMoves are the moves of the state.
	nodeMoves, namespaceMoves *moves
}

// newRun makes the parts of a run.
func newRun(r *Runner, plan *Plan, state *State) *run {
	e := env{kube: r.Kube, dry: dryRun(r.DryRun), poll: r.Poll, say: r.Say}
	reader := &factReader{kube: r.Kube, plan: plan}
	j := &journal{env: e, gate: r.GateTimeout, store: r.Store, nodes: r.Nodes, plan: plan, state: state}
	out := &run{
		env: e, plan: plan, state: state, gate: r.GateTimeout, reader: reader, journal: j,
		evictor:    &evictor{env: e, reader: reader, timeout: r.DrainTimeout, force: r.Force},
		daemonSets: &daemonSets{env: e, plan: plan, journal: j},
		namespaces: &namespaces{env: e, journal: j},
		capacity:   &capacity{dry: e.dry, reader: reader, state: state},
		nodes:      &nodes{env: e},
	}
	out.steps = &steps{
		env: e, reader: reader, journal: j, evictor: out.evictor, daemonSets: out.daemonSets, nodes: out.nodes,
		handover: &handover{env: e, pods: r.Nodes, confDir: r.ConfDir, kept: r.Kept, multusDir: r.MultusDir},
		gate:     r.GateTimeout, canaries: r.Verify,
	}
	out.rollouts = &rollouts{
		env: e, plan: plan, reader: reader, journal: j, namespaces: out.namespaces, gate: r.GateTimeout,
		canaries: r.VerifyNamespace, snapshots: r.Snapshots,
	}
	out.nodeMoves = &moves{journal: j, kind: "node", steps: NodeSteps, state: state.Nodes, take: out.steps.take}
	out.namespaceMoves = &moves{journal: j, kind: "namespace", steps: namespaceSteps, state: state.Rollouts, take: out.rollouts.take}
	return out
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
		r.say("%s: %d of %d", w.Name, i+1, len(r.plan.Waves))
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
	if len(r.state.Multus) > 0 || r.dry != "" { // somebody may have reverted it since an earlier run
		if err := r.persist(ctx, r.gate, "DaemonSets of Multus", r.daemonSets.keepOff); err != nil {
			return err
		}
	}
	for _, i := range r.plan.Overdue(r.state, upTo) {
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
		r.say("all waves have moved. Next: kubectl nadra verify --against compares with a snapshot")
	case last:
		r.say("all waves have moved. Next: kubectl nadra verify --against compares with a snapshot, and kubectl nadra upgrade finish checks whether anything needs Multus")
	case r.plan.Waves[wave].Name == upTo:
		r.state.Reason = "it ran up to " + upTo + ", as --wave asks"
		r.say("%s has moved. Next: kubectl nadra upgrade status shows the progress, and kubectl nadra upgrade resume moves the others", upTo)
		return true
	}
	return false
}

// rolloutWave moves the namespaces of a wave beside Multus, one after the other.
func (r *run) rolloutWave(ctx context.Context, w Wave) error {
	remaining, err := r.rollouts.remaining(ctx, w.Namespaces)
	if err != nil {
		return err
	}
	for _, ns := range remaining {
		if err := r.namespaceMoves.walk(ctx, ToNadra, ns); err != nil {
			return err
		}
	}
	return nil
}

// overdue gives a namespace back to nadra that was rolled back, while the nodes of its wave
// were not.
func (r *run) overdue(ctx context.Context, w Wave) error {
	if remain, err := r.namespaces.remain(ctx, w.Namespaces); err != nil || !remain {
		return err
	}
	if err := r.prepare(ctx, w.Name); err != nil {
		return err
	}
	return r.namespaces.assignAll(ctx, w.Namespaces)
}

// wave moves the namespaces of a wave to nadra, and then its nodes. It does nothing for a wave
// that has moved, and skips nodes that have left the cluster.
func (r *run) wave(ctx context.Context, w Wave) error {
	var names []string
	var remain bool
	err := r.persist(ctx, r.gate, w.Name, func(ctx context.Context) (err error) {
		if names, err = r.nodes.present(ctx, r.state.Remaining(w)); err == nil {
			remain, err = r.namespaces.remain(ctx, w.Namespaces)
		}
		return err
	})
	if err != nil || len(names) == 0 && !remain {
		return err
	}
	if err := r.prepare(ctx, w.Name); err != nil {
		return err
	}
	if err := r.namespaces.assignAll(ctx, w.Namespaces); err != nil {
		return err
	}
	err = r.persist(ctx, r.gate, w.Name, func(ctx context.Context) error { return r.capacity.check(ctx, ToNadra, names...) })
	if err != nil {
		return &GateError{w.Name, err}
	}
	return r.nodeMoves.walk(ctx, ToNadra, names...)
}

// prepare keeps Multus' DaemonSets off nadra's nodes before a wave moves.
func (r *run) prepare(ctx context.Context, wave string) error {
	if r.dry != "" { // a dry run has checked them already
		return nil
	}
	return r.persist(ctx, r.gate, wave, r.daemonSets.keepOff)
}

// moves takes nodes, or beside Multus namespaces, through the steps of their moves.
type moves struct {
	journal *journal
	// kind is "node" or "namespace".
	kind  string
	steps map[Direction][]Step
	state map[string]*Move
	take  func(ctx context.Context, step Step, name string, m *Move) error
}

// walk takes nodes or namespaces through the steps of a direction, side by side: none is more
// than one step ahead of the others.
func (m *moves) walk(ctx context.Context, direction Direction, names ...string) error {
	for _, step := range m.steps[direction] {
		for _, name := range names {
			if !slices.Contains(m.state[name].next(m.steps, direction), step) {
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
	j := m.journal
	if err := j.mayContinue(ctx); err != nil {
		return err
	}
	move := m.state[name].begin(direction)
	m.state[name] = move
	began, where := time.Now(), fmt.Sprintf("%s %s: %s", m.kind, name, step)
	if err := j.persist(ctx, j.gate, where, func(ctx context.Context) error { return m.take(ctx, step, name, move) }); err != nil {
		return &GateError{where, err}
	}
	if move.Step = step; move.Finished() {
		*move = Move{Direction: direction, Step: step}
	}
	j.say("%s (%s)", where, time.Since(began).Round(100*time.Millisecond))
	return j.save(ctx)
}
