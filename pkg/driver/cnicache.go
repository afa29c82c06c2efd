package driver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/cniexec"
	"github.com/nadra-dev/nadra/pkg/driver/internal/operations"
)

// gcTime limits the garbage collection at start: Prepare waits for it.
const gcTime = 5 * time.Second

// cleanCache begins the DELs of attachments that are in the CNI cache and in no record: the record was
// damaged, or removed by hand.
func (s *sweeper) cleanCache(ctx context.Context) error {
	orphans, err := s.orphans()
	for _, o := range orphans {
		s.tasks.Start("cached "+o.Network+" "+o.ContainerID+" "+o.IfName, func() {
			if err := s.delOrphan(ctx, o); err != nil && !errors.Is(err, operations.ErrGoesFirst) {
				klog.FromContext(ctx).Error(err, "Deleting an attachment without a record failed; the next sweep tries again", "network", o.Network, "sandbox", o.ContainerID)
			}
		})
	}
	return err
}

// orphans returns the attachments that are in the CNI cache and in no record.
func (s *sweeper) orphans() ([]cniexec.Cached, error) {
	known := map[types.GCAttachment]bool{}
	for _, a := range s.validAttachments() {
		known[a] = true
	}
	return s.operations.Orphans(func(containerID, ifName string) bool {
		return known[types.GCAttachment{ContainerID: containerID, IfName: ifName}]
	})
}

// delOrphan runs the DEL of an attachment in a sandbox that is gone, unless it has a record by now.
func (s *sweeper) delOrphan(ctx context.Context, o cniexec.Cached) error {
	var r checkpoint.Record
	r.Attachment.Conflist = o.Config
	op := operations.Operation{
		Pod: o.Pod(), Sandbox: o.ContainerID, Manner: operations.Yielding, Detaching: true,
		Limit: s.attacher.Limits.Detaching([]checkpoint.Record{r}), Over: reason.Errorf(reason.DELUnfinished, "the time for the DEL is over"),
	}
	return s.operations.Run(ctx, op, func(ctx context.Context) error {
		if slices.Contains(s.validAttachments(), types.GCAttachment{ContainerID: o.ContainerID, IfName: o.IfName}) {
			return nil
		}
		return s.operations.DelOrphan(ctx, o)
	})
}

// collectGarbage gives the plugins of nadra's attachments the list of valid attachments, so
// that they release the rest (CNI specification 1.1.0, § "GC"). It runs when the driver is
// started, before anything else runs. It leaves networks alone that another runtime serves on
// this node, too, and all networks while the runtime may call Multus, whose ADD may be running. After
// plugins that have hung, other networks with the same ones have to wait for the next start.
func (s *sweeper) collectGarbage(ctx context.Context) {
	if without, err := s.custody.without(); err != nil || !without {
		klog.FromContext(ctx).Info("No garbage collection: Multus may attach networks on this node", "err", err)
		return
	}
	ctx, cancel := context.WithTimeoutCause(ctx, gcTime, fmt.Errorf("garbage collection may take %s", gcTime))
	defer cancel()
	valid := s.validAttachments()
	done, hung := map[string]bool{}, map[string]bool{}
	for _, r := range append(s.store.All(), s.needingDEL()...) {
		plugins := operations.PluginsOf(r.Attachment.Conflist)
		if done[r.Attachment.CNIName] || hung[plugins] {
			continue
		}
		done[r.Attachment.CNIName] = true
		if err := s.operations.GC(ctx, r.Attachment.Conflist, valid); err != nil {
			hung[plugins] = reason.Of(err) == reason.PluginTimeout
			klog.FromContext(ctx).Info("No garbage collection for a network", "network", r.Attachment.Network, "err", err)
		}
	}
}

// validAttachments returns the attachments of all networks that need a DEL.
func (s *sweeper) validAttachments() []types.GCAttachment {
	var out []types.GCAttachment
	for _, r := range s.needingDEL() {
		out = append(out, types.GCAttachment{ContainerID: r.Sandbox.ID, IfName: r.Attachment.Interface})
	}
	return out
}

// needingDEL returns all records that need a DEL, and those of pending DELs.
func (s *sweeper) needingDEL() []checkpoint.Record {
	var out []checkpoint.Record
	for _, r := range s.store.All() {
		if r.NeedsDEL() {
			out = append(out, r)
		}
	}
	for _, del := range s.store.PendingDELs() {
		out = append(out, del.Record)
	}
	return out
}
