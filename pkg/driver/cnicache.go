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
	"github.com/nadra-dev/nadra/pkg/driver/internal/background"
	"github.com/nadra-dev/nadra/pkg/driver/internal/operations"
)

// gcTime limits the garbage collection at start: Prepare waits for it.
const gcTime = 5 * time.Second

// cniCacheCleaner cleans up what the CNI cache, or plugins, have and no record has.
type cniCacheCleaner struct {
	store      *checkpoint.Store
	operations *operations.Group
	limits     operations.Limits
	// withoutMultus reports whether the container runtime certainly does not call Multus.
	withoutMultus func() (bool, error)
}

// clean begins the DELs of attachments that are in the CNI cache and in no record: the record was
// damaged, or removed by hand.
func (c *cniCacheCleaner) clean(ctx context.Context, tasks *background.Tasks) error {
	orphans, err := c.orphans()
	for _, o := range orphans {
		tasks.Start("cached "+o.Network+" "+o.ContainerID+" "+o.Interface, func() {
			if err := c.delOrphan(ctx, o); err != nil && !errors.Is(err, operations.ErrGoesFirst) {
				klog.FromContext(ctx).Error(err, "Deleting an attachment without a record failed; the next sweep tries again", "network", o.Network, "sandbox", o.ContainerID)
			}
		})
	}
	return err
}

// count counts the attachments that are in the CNI cache and in no record.
func (c *cniCacheCleaner) count() (int, error) {
	orphans, err := c.orphans()
	return len(orphans), err
}

func (c *cniCacheCleaner) orphans() ([]cniexec.Orphan, error) {
	known := map[types.GCAttachment]bool{}
	for _, a := range c.validAttachments() {
		known[a] = true
	}
	return c.operations.Orphans(func(containerID, ifName string) bool {
		return known[types.GCAttachment{ContainerID: containerID, IfName: ifName}]
	})
}

// delOrphan runs the DEL of an attachment in a sandbox that is gone, unless it has a record by now.
func (c *cniCacheCleaner) delOrphan(ctx context.Context, o cniexec.Orphan) error {
	var r checkpoint.Record
	r.Attachment.Conflist = o.Config
	op := operations.Operation{
		Pod: o.PodRef(), Sandbox: o.ContainerID, Manner: operations.Yielding, Detaching: true,
		Limit: c.limits.Detaching([]checkpoint.Record{r}), Over: reason.Errorf(reason.DELUnfinished, "the time for the DEL is over"),
	}
	return c.operations.Run(ctx, op, func(ctx context.Context) error {
		if slices.Contains(c.validAttachments(), types.GCAttachment{ContainerID: o.ContainerID, IfName: o.Interface}) {
			return nil
		}
		return c.operations.DelOrphan(ctx, o)
	})
}

// collectGarbage gives the plugins of nadra's attachments the list of valid attachments, so
// that they release the rest (CNI specification 1.1.0, § "GC"). It runs when the driver is
// started, before anything else runs. It leaves networks alone that another runtime serves on
// this node, too, and all networks while the runtime may call Multus, whose ADD may be running. After
// plugins that have hung, other networks with the same ones have to wait for the next start.
func (c *cniCacheCleaner) collectGarbage(ctx context.Context) {
	if without, err := c.withoutMultus(); err != nil || !without {
		klog.FromContext(ctx).Info("No garbage collection: Multus may attach networks on this node", "err", err)
		return
	}
	ctx, cancel := context.WithTimeoutCause(ctx, gcTime, fmt.Errorf("garbage collection may take %s", gcTime))
	defer cancel()
	valid := c.validAttachments()
	done, hung := map[string]bool{}, map[string]bool{}
	for _, r := range append(c.store.All(), c.needingDEL()...) {
		plugins := operations.PluginsOf(r.Attachment.Conflist)
		if done[r.Attachment.CNIName] || hung[plugins] {
			continue
		}
		done[r.Attachment.CNIName] = true
		if err := c.operations.GC(ctx, r.Attachment.Conflist, valid); err != nil {
			hung[plugins] = reason.Of(err) == reason.PluginTimeout
			klog.FromContext(ctx).Info("No garbage collection for a network", "network", r.Attachment.Network, "err", err)
		}
	}
}

// validAttachments returns the attachments of all networks that need a DEL.
func (c *cniCacheCleaner) validAttachments() []types.GCAttachment {
	var out []types.GCAttachment
	for _, r := range c.needingDEL() {
		out = append(out, types.GCAttachment{ContainerID: r.Sandbox.ID, IfName: r.Attachment.Interface})
	}
	return out
}

// needingDEL returns all records that need a DEL, and those of pending DELs.
func (c *cniCacheCleaner) needingDEL() []checkpoint.Record {
	var out []checkpoint.Record
	for _, r := range c.store.All() {
		if r.NeedsDEL() {
			out = append(out, r)
		}
	}
	for _, del := range c.store.PendingDELs() {
		out = append(out, del.Record)
	}
	return out
}
