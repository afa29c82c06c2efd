package upgraderun

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nadra-dev/nadra/internal/upgrade"
)

// run is one run of a plan, or one rollback.
type run struct {
	env
	plan       *upgrade.Plan
	state      *upgrade.State
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
	// maintenance and hooks are those of runs; rollbacks have neither.
	maintenance *maintenance
	hooks       *hooks
}

// newRun makes the parts of a run.
func newRun(r *Runner, plan *upgrade.Plan, state *upgrade.State, window upgrade.Window) *run {
	e := env{kube: r.Kube, dry: dryRun(r.DryRun), poll: r.Poll, say: r.Say}
	reader := &factReader{kube: r.Kube, plan: plan}
	j := &journal{env: e, gate: r.GateTimeout, store: r.Store, nodes: r.Nodes, plan: plan, state: state}
	m := &maintenance{env: e, journal: j, window: window, noWait: r.NoWait}
	out := &run{
		env: e, plan: plan, state: state, gate: r.GateTimeout, reader: reader, journal: j, maintenance: m,
		evictor:    &evictor{env: e, reader: reader, timeout: r.DrainTimeout, force: r.Force},
		daemonSets: &daemonSets{env: e, plan: plan, journal: j},
		namespaces: &namespaces{env: e, journal: j, maintenance: m},
		capacity:   &capacity{dry: e.dry, reader: reader, state: state},
		nodes:      &nodes{env: e},
		hooks: &hooks{
			env: e, journal: j, plan: plan, settings: r.Settings, command: r.Command, configMap: r.Store.Namespace + "/" + stateName,
			jobs: &hookJobs{env: e, limit: r.Settings.HookLimit()},
		},
	}
	out.steps = &steps{
		env: e, reader: reader, journal: j, evictor: out.evictor, daemonSets: out.daemonSets, nodes: out.nodes,
		handover: &handover{env: e, pods: r.Nodes, confDir: r.ConfDir, kept: r.Kept, multusDir: r.MultusDir},
		gate:     r.GateTimeout, canaries: r.Verify,
	}
	out.rollouts = &rollouts{
		env: e, plan: plan, reader: reader, journal: j, namespaces: out.namespaces, maintenance: m, gate: r.GateTimeout,
		canaries: r.VerifyNamespace, snapshots: r.Snapshots,
	}
	return out
}

// waves carries out the waves of the plan, up to and including upTo.
func (r *run) waves(ctx context.Context, upTo string) (upgrade.Phase, error) {
	if r.plan.BesideMultus {
		return r.rolloutWaves(ctx, upTo)
	}
	if len(r.state.Multus) > 0 || r.dry != "" { // somebody may have reverted it since an earlier run
		if err := r.persist(ctx, r.gate, "DaemonSets of Multus", r.daemonSets.keepOff); err != nil {
			return "", err
		}
	}
	if err := r.finishBegun(ctx, upTo); err != nil {
		return "", err
	}
	for _, i := range r.plan.Overdue(r.state, upTo) {
		if err := r.overdue(ctx, i); err != nil {
			return "", err
		}
	}
	for i, w := range r.plan.Waves {
		r.say("%s: %d of %d", w.Name, i+1, len(r.plan.Waves))
		if err := r.wave(ctx, i); err != nil {
			return "", err
		}
		if w.Name == upTo && i < len(r.plan.Waves)-1 {
			r.state.Reason = "it ran up to " + upTo + ", as --wave asks"
			return upgrade.Paused, nil
		}
	}
	return upgrade.Done, nil
}

// rolloutWaves moves the namespaces of each wave, one after the other, between the wave's hooks.
func (r *run) rolloutWaves(ctx context.Context, upTo string) (upgrade.Phase, error) {
	for i, w := range r.plan.Waves {
		r.say("%s: %d of %d", w.Name, i+1, len(r.plan.Waves))
		remaining, err := r.rollouts.remaining(ctx, w.Namespaces)
		if err != nil {
			return "", err
		}
		if len(remaining) > 0 || r.state.Underway(w.Name) != "" {
			if err := r.rolloutWave(ctx, i, remaining); err != nil {
				return "", err
			}
		}
		if w.Name == upTo && i < len(r.plan.Waves)-1 {
			r.state.Reason = "it ran up to " + upTo + ", as --wave asks"
			return upgrade.Paused, nil
		}
	}
	return upgrade.Done, nil
}

// rolloutWave moves namespaces of a wave.
func (r *run) rolloutWave(ctx context.Context, index int, namespaces []string) error {
	name := r.plan.Waves[index].Name
	if err := r.prepare(ctx, index); err != nil {
		return err
	}
	for _, ns := range namespaces {
		if err := r.rollouts.move(ctx, ns, upgrade.ToNadra); err != nil {
			return err
		}
	}
	if err := r.complete(ctx, name, upgrade.WaveMoved); err != nil {
		return err
	}
	if err := r.hooks.run(ctx, upgrade.AfterWave, index); err != nil {
		return err
	}
	return r.complete(ctx, name, upgrade.WaveDone)
}

// finishBegun finishes, outside the window, the nodes whose move has begun: a node halfway
// serves no pods.
func (r *run) finishBegun(ctx context.Context, upTo string) error {
	begun := r.state.BegunNodes(r.plan, upTo)
	if len(begun) == 0 || !r.maintenance.closed() {
		return nil
	}
	r.say("the window is closed: finishing nodes that have begun")
	return r.move(ctx, "nodes that have begun", begun)
}

// overdue gives a namespace back to nadra that was rolled back, while the nodes of its wave
// were not.
func (r *run) overdue(ctx context.Context, index int) error {
	w := r.plan.Waves[index]
	if remain, err := r.namespaces.remain(ctx, w.Namespaces); err != nil || !remain {
		return err
	}
	if err := r.prepare(ctx, index); err != nil {
		return err
	}
	return r.namespaces.assignAll(ctx, w.Namespaces)
}

// wave moves the namespaces of a wave to nadra, and then its nodes, between the wave's
// hooks. It does nothing for a wave that has moved, unless its last hook has not run.
func (r *run) wave(ctx context.Context, index int) error {
	w := r.plan.Waves[index]
	var names []string
	var remain bool
	err := r.persist(ctx, r.gate, w.Name, func(ctx context.Context) (err error) {
		if names, err = r.nodes.present(ctx, r.state.Remaining(w)); err == nil {
			remain, err = r.namespaces.remain(ctx, w.Namespaces)
		}
		return err
	})
	if err != nil {
		return err
	}
	if r.state.Underway(w.Name) == "" && len(names) == 0 && !remain {
		return nil
	}
	if err := r.prepare(ctx, index); err != nil {
		return err
	}
	if err := r.namespaces.assignAll(ctx, w.Namespaces); err != nil {
		return err
	}
	if err := r.move(ctx, w.Name, names); err != nil {
		return err
	}
	if err := r.complete(ctx, w.Name, upgrade.WaveMoved); err != nil {
		return err
	}
	if err := r.hooks.run(ctx, upgrade.AfterWave, index); err != nil {
		return err
	}
	return r.complete(ctx, w.Name, upgrade.WaveDone)
}

// prepare runs the hook before a wave, unless the wave has begun, and keeps Multus'
// DaemonSets off nadra's nodes.
func (r *run) prepare(ctx context.Context, index int) error {
	w := r.plan.Waves[index]
	if r.state.Underway(w.Name) == "" {
		if err := r.maintenance.await(ctx, w.Name); err != nil {
			return err
		}
		if err := r.hooks.run(ctx, upgrade.BeforeWave, index); err != nil {
			return err
		}
		if err := r.complete(ctx, w.Name, upgrade.WavePrepared); err != nil {
			return err
		}
	}
	if r.dry != "" || r.plan.BesideMultus { // a dry run has checked them already
		return nil
	}
	return r.persist(ctx, r.gate, w.Name, r.daemonSets.keepOff)
}

// complete records that a wave has completed a step.
func (r *run) complete(ctx context.Context, wave string, step upgrade.WaveStep) error {
	r.state.Complete(wave, step)
	return r.journal.save(ctx)
}

// move moves nodes to nadra. While the window is closed, it finishes nodes that have begun,
// and then waits with the rest. It skips nodes that have left the cluster, also while it
// waited. where is for the error if pods would have no node.
func (r *run) move(ctx context.Context, where string, names []string) error {
	for {
		var there []string
		err := r.persist(ctx, r.gate, where, func(ctx context.Context) (err error) {
			if there, err = r.nodes.present(ctx, names); err == nil {
				err = r.capacity.check(ctx, upgrade.ToNadra, there...)
			}
			return err
		})
		if err != nil {
			return &GateError{where, err}
		}
		later, err := r.walk(ctx, there, upgrade.ToNadra)
		if err != nil || len(later) == 0 {
			return err
		}
		if err := r.maintenance.await(ctx, "node "+later[0]); err != nil {
			return err
		}
		names = later
	}
}

// moveBack moves a node to Multus at any time. It skips a node that has left the cluster.
func (r *run) moveBack(ctx context.Context, name string) error {
	names, err := r.nodes.present(ctx, []string{name})
	if err != nil {
		return err
	}
	_, err = r.walk(ctx, names, upgrade.ToMultus)
	return err
}

// walk takes nodes through the steps of a direction, side by side: none is more than one
// step ahead of the others. It returns the nodes that may not begin to move to nadra yet,
// because the window is closed.
func (r *run) walk(ctx context.Context, names []string, direction upgrade.Direction) (later []string, err error) {
	for _, step := range upgrade.StepsOf(direction, r.plan.Drain) {
		for _, name := range names {
			if slices.Contains(later, name) || !slices.Contains(r.state.Nodes[name].Next(direction, r.plan.Drain), step) {
				continue
			}
			if direction == upgrade.ToNadra && !r.state.Begun(name) && r.maintenance.closed() {
				later = append(later, name)
				continue
			}
			if err := r.step(ctx, name, direction, step); err != nil {
				return nil, err
			}
		}
	}
	return later, nil
}

// step takes one step with one node, and saves it in the state.
func (r *run) step(ctx context.Context, name string, direction upgrade.Direction, step upgrade.Step) error {
	if err := r.journal.mayContinue(ctx); err != nil {
		return err
	}
	n := r.state.Nodes[name].Begin(direction, r.plan.Drain)
	r.state.Nodes[name] = n
	began := time.Now()
	where := fmt.Sprintf("node %s: %s", name, step)
	if err := r.persist(ctx, r.gate, where, func(ctx context.Context) error { return r.steps.take(ctx, step, name, n) }); err != nil {
		return &GateError{where, err}
	}
	n.Step = step
	r.say("node %s: %s (%s)", name, step, time.Since(began).Round(100*time.Millisecond))
	return r.journal.save(ctx)
}
