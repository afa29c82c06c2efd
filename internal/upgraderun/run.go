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
}

// newRun makes the parts of a run.
func newRun(r *Runner, plan *upgrade.Plan, state *upgrade.State) *run {
	e := env{kube: r.Kube, dry: dryRun(r.DryRun), poll: r.Poll, say: r.Say}
	reader := &factReader{kube: r.Kube, plan: plan}
	j := &journal{dry: e.dry, store: r.Store, nodes: r.Nodes, plan: plan, state: state}
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
		handover: &handover{env: e, pods: r.Nodes, confDir: r.ConfDir, kept: r.Kept},
		gate:     r.GateTimeout, canaries: r.Verify,
	}
	return out
}

// waves carries out the waves of the plan, up to and including upTo.
func (r *run) waves(ctx context.Context, upTo string) (upgrade.Phase, error) {
	if err := r.daemonSets.keepOff(ctx); err != nil {
		return "", err
	}
	if err := r.namespaces.assignAll(ctx, r.plan.Overdue(r.state, upTo)); err != nil {
		return "", err
	}
	for i, w := range r.plan.Waves {
		r.say("%s: %d of %d", w.Name, i+1, len(r.plan.Waves))
		if err := r.wave(ctx, w); err != nil {
			return "", err
		}
		if w.Name == upTo && i < len(r.plan.Waves)-1 {
			r.state.Reason = "it ran up to " + upTo + ", as --wave asks"
			return upgrade.Paused, nil
		}
	}
	return upgrade.Done, nil
}

// wave moves the namespaces of a wave to nadra, and then its nodes, all of them one
// step at a time.
func (r *run) wave(ctx context.Context, w upgrade.Wave) error {
	if err := r.namespaces.assignAll(ctx, w.Namespaces); err != nil {
		return err
	}
	var names []string
	for _, n := range w.Nodes {
		if !r.state.Nodes[n.Name].AtNadra() {
			names = append(names, n.Name)
		}
	}
	if err := r.capacity.check(ctx, upgrade.ToNadra, names...); err != nil {
		return &GateError{w.Name, err}
	}
	return r.walk(ctx, names, upgrade.ToNadra)
}

// walk takes nodes through the steps of a direction, side by side: none is more than one
// step ahead of the others. It skips nodes that have left the cluster.
func (r *run) walk(ctx context.Context, names []string, direction upgrade.Direction) error {
	names, err := r.nodes.present(ctx, names)
	if err != nil {
		return err
	}
	for _, step := range upgrade.StepsOf(direction) {
		for _, name := range names {
			if !slices.Contains(r.state.Nodes[name].Next(direction), step) {
				continue
			}
			if err := r.step(ctx, name, direction, step); err != nil {
				return err
			}
		}
	}
	return nil
}

// step takes one step with one node, and saves it in the state.
func (r *run) step(ctx context.Context, name string, direction upgrade.Direction, step upgrade.Step) error {
	if err := r.journal.mayContinue(ctx); err != nil {
		return err
	}
	n := r.state.Nodes[name]
	if n == nil || n.Direction != direction {
		started := &upgrade.NodeState{Direction: direction}
		if n != nil && !n.Finished() {
			started.WasCordoned, started.Ready = n.WasCordoned, n.Ready // before the interrupted move
		}
		n = started
		r.state.Nodes[name] = n
	}
	began := time.Now()
	if err := r.steps.take(ctx, step, name, n); err != nil {
		return &GateError{fmt.Sprintf("node %s: %s", name, step), err}
	}
	n.Step = step
	r.say("node %s: %s (%s)", name, step, time.Since(began).Round(100*time.Millisecond))
	return r.journal.save(ctx)
}
