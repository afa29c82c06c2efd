package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/cniexec"
	"github.com/nadra-dev/nadra/pkg/driver/internal/attach"
)

// gcTime limits the garbage collection at start: Prepare waits for it.
const gcTime = 5 * time.Second

// cniCache has the operations of a cniexec.Runner that concern more than one sandbox.
type cniCache interface {
	Orphans(valid func(containerID, ifName string) bool) ([]cniexec.Orphan, error)
	DelOrphan(ctx context.Context, o cniexec.Orphan) error
	GC(ctx context.Context, conflist json.RawMessage, valid []types.GCAttachment) error
}

// cniCacheCleaner cleans up what the CNI cache, or plugins, have and no record has.
type cniCacheCleaner struct {
	store  *checkpoint.Store
	cache  cniCache
	limits attach.Limits
}

// clean runs DEL for attachments that are in the CNI cache and in no record: the record was
// damaged, or removed by hand. It calls progress before each DEL, and returns how many are
// left.
func (c *cniCacheCleaner) clean(ctx context.Context, progress func()) (left int, err error) {
	known := map[types.GCAttachment]bool{}
	for _, a := range c.validAttachments() {
		known[a] = true
	}
	orphans, err := c.cache.Orphans(func(containerID, ifName string) bool {
		return known[types.GCAttachment{ContainerID: containerID, IfName: ifName}]
	})
	errs := []error{err}
	for _, o := range orphans {
		progress()
		limit := c.limits.Of(attachment.Attachment{Conflist: o.Config}).Del
		ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("one DEL may take %s", limit))
		if err := c.cache.DelOrphan(ctx, o); err != nil {
			errs = append(errs, err)
			left++
		}
		cancel()
	}
	return left, errors.Join(errs...)
}

// collectGarbage gives the plugins of nadra's attachments the list of valid attachments, so
// that they release the rest (CNI specification 1.1.0, § "GC"). It runs when the driver is
// started, before anything else runs. It leaves networks alone that another runtime serves on
// this node, too.
func (c *cniCacheCleaner) collectGarbage(ctx context.Context) {
	ctx, cancel := context.WithTimeoutCause(ctx, gcTime, fmt.Errorf("garbage collection may take %s", gcTime))
	defer cancel()
	valid := c.validAttachments()
	done := map[string]bool{}
	for _, r := range append(c.store.All(), c.needingDEL()...) {
		if done[r.Attachment.CNIName] {
			continue
		}
		done[r.Attachment.CNIName] = true
		if err := c.cache.GC(ctx, r.Attachment.Conflist, valid); err != nil {
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
