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
)

// gcTime bounds the garbage collection at start: Prepare waits for it.
const gcTime = 5 * time.Second

// cniCache is what of cniexec.Runner is about attachments of no one sandbox.
type cniCache interface {
	Orphans(valid func(containerID, ifName string) bool) ([]cniexec.Orphan, error)
	DelOrphan(ctx context.Context, o cniexec.Orphan) error
	GC(ctx context.Context, conflist json.RawMessage, valid []types.GCAttachment) error
}

// sweepCache runs DEL for what is in the CNI cache and in no record: the
// record was damaged, or removed by hand. It returns how many are left.
func (d *Driver) sweepCache(ctx context.Context) (left int, err error) {
	known := map[types.GCAttachment]bool{}
	for _, a := range d.validAttachments() {
		known[a] = true
	}
	orphans, err := d.cache.Orphans(func(containerID, ifName string) bool {
		return known[types.GCAttachment{ContainerID: containerID, IfName: ifName}]
	})
	errs := []error{err}
	for _, o := range orphans {
		d.sweeper.pulse.beat()
		limit := d.attacher.Limits.Of(attachment.Attachment{Conflist: o.Config}).Del
		ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("one DEL may take %s", limit))
		if err := d.cache.DelOrphan(ctx, o); err != nil {
			errs = append(errs, err)
			left++
		}
		cancel()
	}
	return left, errors.Join(errs...)
}

// collectGarbage tells the plugins of nadra's attachments, at start and before
// anything runs, which of them there are, for them to release the rest (CNI
// specification 1.1.0, § "GC"; design D7). A network that another runtime
// serves on this node too is left alone.
func (d *Driver) collectGarbage(ctx context.Context) {
	ctx, cancel := context.WithTimeoutCause(ctx, gcTime, fmt.Errorf("garbage collection may take %s", gcTime))
	defer cancel()
	valid := d.validAttachments()
	done := map[string]bool{}
	for _, r := range append(d.store.All(), d.needingDEL()...) {
		if name := r.Attachment.CNIName; done[name] {
			continue
		}
		done[r.Attachment.CNIName] = true
		if err := d.cache.GC(ctx, r.Attachment.Conflist, valid); err != nil {
			klog.FromContext(ctx).Info("No garbage collection for a network", "network", r.Attachment.Network, "reason", err.Error())
		}
	}
}

// validAttachments returns the attachments of all networks that need a DEL.
func (d *Driver) validAttachments() []types.GCAttachment {
	var out []types.GCAttachment
	for _, r := range d.needingDEL() {
		out = append(out, types.GCAttachment{ContainerID: r.Sandbox.ID, IfName: r.Attachment.Interface})
	}
	return out
}

// needingDEL returns all records that need a DEL, and those of pending DELs.
func (d *Driver) needingDEL() []checkpoint.Record {
	var out []checkpoint.Record
	for _, r := range d.store.All() {
		if r.NeedsDEL() {
			out = append(out, r)
		}
	}
	for _, del := range d.store.PendingDELs() {
		out = append(out, del.Record)
	}
	return out
}
