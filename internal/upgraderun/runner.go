package upgraderun

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/nadra-dev/nadra/internal/nodepod"
	"github.com/nadra-dev/nadra/internal/upgrade"
)

// Runner carries a plan out, and takes it back.
type Runner struct {
	Kube  kubernetes.Interface
	Store Store
	// Nodes runs the pods that take Multus' configuration away on a node. Its
	// namespace is the driver's.
	Nodes nodepod.Runner
	// ConfDir is where the nodes' runtimes look for CNI configurations.
	ConfDir string
	// Verify runs canaries on a node; nil leaves them out.
	Verify func(ctx context.Context, node string) error
	// Force deletes pods that nobody makes again.
	Force bool
	// DrainTimeout is how long the pods of a node may take to go, and GateTimeout
	// how long anything else that is waited for.
	DrainTimeout, GateTimeout time.Duration
	// Poll is how often what is waited for is looked at.
	Poll time.Duration
	// DryRun is "server" to have the API server check all that would be written,
	// and "client" to only say it. Nothing is waited for then, and no state kept.
	DryRun string
	// Say tells what is done.
	Say func(format string, args ...any)

	plan  *upgrade.Plan
	state *upgrade.State
}

// GateError says that the upgrade has stopped because something was not as it
// must be to go on.
type GateError struct {
	Where string
	Err   error
}

func (e *GateError) Error() string { return e.Where + ": " + e.Err.Error() }
func (e *GateError) Unwrap() error { return e.Err }

// ErrPaused says that somebody has asked for a pause.
var ErrPaused = errors.New("somebody has asked for a pause: kubectl nadra upgrade resume goes on")

// Run carries a plan out from where the state says that it is, up to and with a
// wave, if one is named.
func (r *Runner) Run(ctx context.Context, plan *upgrade.Plan, state *upgrade.State, upTo string) error {
	r.plan, r.state = plan, state
	return r.record(ctx, upgrade.Running, r.waves, upTo)
}

func (r *Runner) waves(ctx context.Context, upTo string) (upgrade.Phase, error) {
	if err := r.keepMultusOff(ctx); err != nil {
		return "", err
	}
	if err := r.takeNamespaces(ctx, r.plan.Overdue(r.state, upTo)); err != nil {
		return "", err
	}
	for i, w := range r.plan.Waves {
		r.Say("%s: %d of %d", w.Name, i+1, len(r.plan.Waves))
		if err := r.wave(ctx, w); err != nil {
			return "", err
		}
		if w.Name == upTo && i < len(r.plan.Waves)-1 {
			r.state.Reason = "it was to go up to " + upTo
			return upgrade.Paused, nil
		}
	}
	return upgrade.Done, nil
}

// wave gives nadra the namespaces of a wave and then its nodes, all of them one
// step at a time.
func (r *Runner) wave(ctx context.Context, w upgrade.Wave) error {
	if err := r.takeNamespaces(ctx, w.Namespaces); err != nil {
		return err
	}
	var names []string
	for _, n := range w.Nodes {
		if !r.state.Nodes[n.Name].Finished() || r.state.Nodes[n.Name].Way != upgrade.Forth {
			names = append(names, n.Name)
		}
	}
	if err := r.notStranded(ctx, upgrade.Forth, names...); err != nil {
		return &GateError{w.Name, err}
	}
	return r.walk(ctx, names, upgrade.Forth)
}

// walk takes nodes through the steps of a way, side by side: none is ahead of
// the others by more than one step. Those that have left the cluster are left out.
func (r *Runner) walk(ctx context.Context, names []string, way upgrade.Way) error {
	names, err := r.present(ctx, names)
	if err != nil {
		return err
	}
	for _, step := range upgrade.StepsOf(way) {
		for _, name := range names {
			if !slices.Contains(r.state.Nodes[name].Next(way), step) {
				continue
			}
			if err := r.step(ctx, name, way, step); err != nil {
				return err
			}
		}
	}
	return nil
}

// step does one step with one node, and remembers it.
func (r *Runner) step(ctx context.Context, name string, way upgrade.Way, step upgrade.Step) error {
	if err := r.mayGoOn(ctx); err != nil {
		return err
	}
	n := r.state.Nodes[name]
	if n == nil || n.Way != way {
		begun := &upgrade.NodeState{Way: way}
		if n != nil && !n.Finished() {
			begun.WasCordoned, begun.Ready = n.WasCordoned, n.Ready // what was so before all this
		}
		n = begun
		r.state.Nodes[name] = n
	}
	began := time.Now()
	if err := r.steps()[step](ctx, name, n); err != nil {
		return &GateError{fmt.Sprintf("node %s: %s", name, step), err}
	}
	n.Step = step
	r.Say("node %s: %s (%s)", name, step, time.Since(began).Round(100*time.Millisecond))
	return r.save(ctx)
}

func (r *Runner) steps() map[upgrade.Step]func(context.Context, string, *upgrade.NodeState) error {
	return map[upgrade.Step]func(context.Context, string, *upgrade.NodeState) error{
		upgrade.Cordon: r.cordon, upgrade.Drain: r.drain, upgrade.Release: r.release, upgrade.Unconfigure: r.unconfigure,
		upgrade.Serve: r.serve, upgrade.Verify: r.verify, upgrade.Configure: r.configure, upgrade.Return: r.giveBack,
		upgrade.Uncordon: r.uncordon, upgrade.Settle: r.settle,
	}
}

// mayGoOn asks whether somebody wants a pause.
func (r *Runner) mayGoOn(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if r.DryRun != "" {
		return nil
	}
	_, _, paused, err := r.Store.Load(ctx)
	if err == nil && paused {
		err = ErrPaused
	}
	return err
}

// record does something in a phase, and keeps what came of it. The state is
// saved also when ctx has ended.
func (r *Runner) record(ctx context.Context, phase upgrade.Phase, do func(context.Context, string) (upgrade.Phase, error), what string) error {
	r.state.Phase, r.state.Reason = phase, ""
	if err := r.save(ctx); err != nil {
		return err
	}
	if r.DryRun == "" {
		_ = r.Nodes.Sweep(ctx, nodepod.Abandoned) // they harm nobody, and the next one tries again
	}
	end, err := do(ctx, what)
	var gate *GateError
	switch {
	case err == nil:
		r.state.Phase = end
	case ctx.Err() != nil: // the phase stays: whoever resumes goes on with it
		r.state.Reason = "it was interrupted"
	case errors.Is(err, ErrPaused):
		r.state.Phase, r.state.Reason = upgrade.Paused, "somebody has asked for it"
	case errors.As(err, &gate):
		r.state.Phase, r.state.Reason = upgrade.Stopped, err.Error()
	}
	saving, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return errors.Join(err, r.save(saving))
}

func (r *Runner) save(ctx context.Context) error {
	if r.DryRun != "" {
		return nil
	}
	return r.Store.Save(ctx, r.plan, r.state)
}

// dryRun is the option of all writes.
func (r *Runner) dryRun() []string {
	if r.DryRun == "server" {
		return []string{metav1.DryRunAll}
	}
	return nil
}

// write does a write, unless only a client's dry run is asked for.
func (r *Runner) write(do func() error) error {
	if r.DryRun == "client" {
		return nil
	}
	return do()
}
