package upgrade

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nadra-dev/nadra/internal/desk/nodepod"
)

// savingTime limits the last saving of the state, after an interruption.
const savingTime = 10 * time.Second

// ErrNotSaved means that the end of a run is not in the state. The next run repeats the last step.
var ErrNotSaved = errors.New("the state is not saved")

// save writes plan and state, unless it is a dry run. It waits for an API server that is not available.
func (r *run) save(ctx context.Context) error {
	if r.DryRun != "" {
		return nil
	}
	return r.persist(ctx, r.GateTimeout, "state", func(ctx context.Context) error { return r.Store.Save(ctx, r.plan, r.state) })
}

// mayContinue returns ErrPaused if a pause was requested.
func (r *run) mayContinue(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if r.DryRun != "" {
		return nil
	}
	return r.persist(ctx, r.GateTimeout, "state", func(ctx context.Context) error {
		_, _, paused, err := r.Store.Load(ctx)
		if err == nil && paused {
			err = ErrPaused
		}
		return err
	})
}

// record calls do in a phase, and saves the phase in which do ends. It first withdraws the request for a pause that
// ended an earlier run. It saves also if ctx has ended, unless the Lease is lost: then the state is another process'.
func (r *run) record(ctx context.Context, phase Phase, do func(context.Context) (Phase, error)) error {
	r.state.Phase, r.state.Reason = phase, ""
	if err := r.save(ctx); err != nil {
		return err
	}
	if r.DryRun == "" {
		if err := r.Store.Pause(ctx, false); err != nil {
			return err
		}
		_ = r.Nodes.Sweep(ctx, nodepod.Abandoned) // leftovers are harmless, and the next run retries
	}
	end, err := do(ctx)
	if errors.Is(context.Cause(ctx), errLost) {
		return err
	}
	var gate *GateError
	switch {
	case err == nil:
		r.state.Phase = end
	case ctx.Err() != nil: // the phase stays, for resume
		r.state.Reason = "it was interrupted"
	case errors.Is(err, ErrPaused):
		r.state.Phase, r.state.Reason = Paused, "a pause was requested"
	case errors.As(err, &gate):
		r.state.Phase, r.state.Reason = Stopped, err.Error()
	}
	saving, cancel := context.WithTimeout(context.WithoutCancel(ctx), savingTime)
	defer cancel()
	if notSaved := r.save(saving); notSaved != nil {
		err = errors.Join(err, fmt.Errorf("%w: %w", ErrNotSaved, notSaved))
	}
	return err
}
