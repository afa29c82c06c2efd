package hwdevices

import (
	"context"

	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/pkg/driver/internal/background"
	"github.com/nadra-dev/nadra/pkg/inventory"
)

// Watch calls changed after changes of the hardware whose sysfs is at sysRoot, until ctx
// ends. It renews a lost watch, and then calls missed, because changes may have been missed.
func Watch(ctx context.Context, sysRoot string, changed, missed func()) error {
	reader := inventory.Reader{Sys: sysRoot}
	for ctx.Err() == nil {
		if err := reader.Watch(ctx, changed); err != nil {
			klog.FromContext(ctx).Error(err, "Watching the hardware failed; reading it regularly instead", "retryAfter", recheck)
		}
		if !background.Sleep(ctx, recheck) {
			return nil
		}
		missed()
	}
	return nil
}
