package upgraderun

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/nadra-dev/nadra/internal/kube"
	"github.com/nadra-dev/nadra/internal/upgrade"
	"github.com/nadra-dev/nadra/pkg/api/reason"
)

// windowPoll is the time between two looks at the clock while a run waits for its window.
// A single timer would be late after the machine was suspended, and would miss a pause.
const windowPoll = 30 * time.Second

// maintenance lets a run begin something in its window only.
type maintenance struct {
	env
	journal *journal
	window  upgrade.Window
	// noWait ends the run outside the window.
	noWait bool
}

// closed reports whether nothing may begin now. A dry run may begin anything.
func (m *maintenance) closed() bool {
	open, _ := m.window.At(time.Now())
	return !open && m.dry == ""
}

// await waits until the window is open. next names what would begin. Without waiting, it
// returns an error with the code OutsideWindow if the window is closed.
func (m *maintenance) await(ctx context.Context, next string) error {
	if !m.closed() {
		return nil
	}
	_, opens := m.window.At(time.Now())
	until := opens.Format(upgrade.OpensLayout)
	if m.noWait {
		return reason.Errorf(reason.OutsideWindow, "the window %s is closed until %s: run kubectl nadra upgrade resume then, which continues with %s",
			m.window, until, next)
	}
	m.say("%s: waiting until %s for the window %s", next, until, m.window)
	m.journal.state.Reason = "it waits until " + until + " for the window " + m.window.String()
	if err := m.journal.save(ctx); err != nil {
		return err
	}
	err := wait.PollUntilContextCancel(ctx, windowPoll, true, func(ctx context.Context) (bool, error) {
		if err := m.journal.mayContinue(ctx); err != nil && (ctx.Err() != nil || !kube.Transient(err)) {
			return false, err
		}
		return !m.closed(), nil
	})
	if err != nil {
		return err
	}
	m.journal.state.Reason = ""
	return m.journal.save(ctx)
}
