package attach

import (
	"context"
	"errors"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
)

// AddLive attaches one record in a sandbox whose containers may run. If that fails, it deletes
// what it has begun for this record, and leaves the sandbox's other attachments alone. A DEL
// that fails then stays in the record.
func (a *Attacher) AddLive(ctx context.Context, sandbox attachment.Sandbox, r checkpoint.Record) error {
	if sandbox.NetNS == "" {
		return NoNamespaceError(sandbox, []checkpoint.Record{r})
	}
	ns, err := a.Netns.Inspect(sandbox.NetNS)
	if err == nil {
		err = a.checkNames(ns.Links, []checkpoint.Record{r}, sandbox.ID)
	}
	if err != nil {
		return err
	}
	sandbox.Cookie = ns.Cookie
	err = a.addAll(ctx, sandbox, []checkpoint.Record{r})
	if err == nil {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), RollbackTime, reason.Errorf(reason.DELUnfinished, "the time for the rollback is over"))
	defer cancel()
	return errors.Join(err, a.Detach(ctx, sandbox.Pod.UID, func(other checkpoint.Record) bool { return other.Key() == r.Key() }))
}
