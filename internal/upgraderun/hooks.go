package upgraderun

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nadra-dev/nadra/internal/upgrade"
	"github.com/nadra-dev/nadra/pkg/api/reason"
)

// Command runs a command line with additional environment variables within a time limit,
// and calls say with each line of its output. After the limit its error is
// context.DeadlineExceeded.
type Command func(ctx context.Context, line string, env []string, limit time.Duration, say func(line string)) error

// hooks runs what a person wants before and after each wave. It takes it from the Runner's
// settings and never from the cluster, where others may write.
type hooks struct {
	env
	journal   *journal
	plan      *upgrade.Plan
	settings  upgrade.Settings
	command   Command
	jobs      *hookJobs
	configMap string
}

// check has the API server check the Jobs of the hooks, before anything is changed.
func (h *hooks) check(ctx context.Context) error {
	for _, point := range []upgrade.HookPoint{upgrade.BeforeWave, upgrade.AfterWave} {
		hook := h.settings.Hook(point)
		if hook == nil || hook.Job == nil {
			continue
		}
		if err := h.jobs.check(ctx, hook.Job, h.runOf(point, 0)); err != nil {
			return &GateError{"hook " + string(point), err}
		}
	}
	return nil
}

// run runs the hook of a point for the wave with an index. A dry run does not.
func (h *hooks) run(ctx context.Context, point upgrade.HookPoint, index int) error {
	hook := h.settings.Hook(point)
	if hook == nil {
		return nil
	}
	where := h.plan.Waves[index].Name + ": hook " + string(point)
	if h.dry != "" {
		h.say("%s: not run in a dry run: %s", where, hook)
		return nil
	}
	if err := h.journal.mayContinue(ctx); err != nil {
		return err
	}
	h.say("%s: %s", where, hook)
	began := time.Now()
	if err := h.do(ctx, hook, where, h.runOf(point, index)); err != nil {
		return &GateError{where, err}
	}
	h.say("%s: done (%s)", where, time.Since(began).Round(100*time.Millisecond))
	return nil
}

// do runs a hook. If it fails, the error has a code.
func (h *hooks) do(ctx context.Context, hook *upgrade.Hook, where string, run upgrade.HookRun) error {
	if hook.Job != nil {
		return h.jobs.run(ctx, hook.Job, where, run)
	}
	err := h.command(ctx, hook.Exec, run.Env(), h.settings.HookLimit(), func(line string) { h.say("%s: %s", where, upgrade.Visible(line)) })
	switch {
	case err == nil:
		return nil
	case ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
		return reason.Wrap(reason.HookTimeout, err)
	}
	return reason.Wrap(reason.HookFailed, fmt.Errorf("running the command: %w", err))
}

// runOf describes the run of a hook.
func (h *hooks) runOf(point upgrade.HookPoint, index int) upgrade.HookRun {
	return upgrade.NewHookRun(point, h.plan, index, h.configMap)
}
