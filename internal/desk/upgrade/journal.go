package upgrade

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nadra-dev/nadra/internal/nodepod"
)

// savingTime limits the last saving of the state, after an interruption.
const savingTime = 10 * time.Second

// ErrNotSaved means that the end of a run is not in the state. The next run repeats the last step.
var ErrNotSaved = errors.New("the state is not saved")

// journal keeps the state of a run in the cluster.
type journal struct {
	env
	// gate limits the wait for an API server that is not available.
	gate  time.Duration
	store Store
	nodes nodepod.Runner
	plan  *Plan
	state *State
}

// save writes plan and state, unless it is a dry run. It waits for an API server that is not available.
func (j *journal) save(ctx context.Context) error {
	if j.dry != "" {
		return nil
	}
	return j.persist(ctx, j.gate, "state", func(ctx context.Context) error { return j.store.Save(ctx, j.plan, j.state) })
}

// mayContinue returns ErrPaused if a pause was requested.
func (j *journal) mayContinue(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if j.dry != "" {
		return nil
	}
	return j.persist(ctx, j.gate, "state", func(ctx context.Context) error {
		_, _, paused, err := j.store.Load(ctx)
		if err == nil && paused {
			err = ErrPaused
		}
		return err
	})
}

// record calls do in a phase, and saves the phase in which do ends. It saves also if
// ctx has ended, unless the Lease is lost: then the state is another process'.
func (j *journal) record(ctx context.Context, phase Phase, do func(context.Context) (Phase, error)) error {
	j.state.Phase, j.state.Reason = phase, ""
	if err := j.save(ctx); err != nil {
		return err
	}
	if j.dry == "" {
		_ = j.nodes.Sweep(ctx, nodepod.Abandoned) // leftovers are harmless, and the next run retries
	}
	end, err := do(ctx)
	if errors.Is(context.Cause(ctx), errLost) {
		return err
	}
	var gate *GateError
	switch {
	case err == nil:
		j.state.Phase = end
	case ctx.Err() != nil: // the phase stays, for resume
		j.state.Reason = "it was interrupted"
	case errors.Is(err, ErrPaused):
		j.state.Phase, j.state.Reason = Paused, "a pause was requested"
	case errors.As(err, &gate):
		j.state.Phase, j.state.Reason = Stopped, err.Error()
	}
	saving, cancel := context.WithTimeout(context.WithoutCancel(ctx), savingTime)
	defer cancel()
	if notSaved := j.save(saving); notSaved != nil {
		err = errors.Join(err, fmt.Errorf("%w: %w", ErrNotSaved, notSaved))
	}
	return err
}
