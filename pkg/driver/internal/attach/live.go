package attach

import (
	"context"
	"errors"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
)

// AddLive attaches one record in a sandbox whose containers may run. If that fails, it deletes
// what it has begun for this record, and leaves the sandbox's other attachments alone. A DEL
// that fails then stays in the record.
func (a *Attacher) AddLive(ctx context.Context, sandbox attachment.Sandbox, r checkpoint.Record) error {
	sandbox, err := a.mayAdd(sandbox, []checkpoint.Record{r})
	if err != nil {
		return err
	}
	if err := a.addAll(ctx, sandbox, []checkpoint.Record{r}); err != nil {
		return errors.Join(err, a.undo(ctx, sandbox.Pod.UID, func(other checkpoint.Record) bool { return other.Key() == r.Key() }))
	}
	return nil
}
