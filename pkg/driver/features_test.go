package driver

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nadra-dev/nadra/pkg/driver/internal/slicewriter"
)

// TestSliceFeatures checks that the driver knows the API server's features before it
// publishes, learns from what was dropped, and notices an upgrade.
func TestSliceFeatures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		answer, refuse := slicewriter.Features{Taints: true}, errors.New("not now")
		var used []slicewriter.Features
		s := &sliceFeatures{
			known: slicewriter.AllFeatures,
			ask:   func(context.Context) (slicewriter.Features, error) { return answer, refuse },
			use:   func(f slicewriter.Features) { used = append(used, f) },
		}
		s.start(ctx)
		if len(used) != 0 {
			t.Errorf("%v is used without an answer", used)
		}
		refuse = nil
		s.start(ctx)
		for range 2 { // each slice is reported
			if !s.dropped([]string{"DRADeviceTaints"}) {
				t.Error("dropped taints are ignored")
			}
		}
		if s.dropped([]string{"DRAPartitionableDevices"}) {
			t.Error("another publication does not help against a feature that is not used")
		}
		answer = slicewriter.AllFeatures
		go func() { _ = s.run(ctx) }()
		time.Sleep(featurePause + time.Second)
		synctest.Wait()
		want := []slicewriter.Features{{Taints: true}, {}, slicewriter.AllFeatures}
		if !slices.Equal(used, want) {
			t.Errorf("used %+v, want %+v", used, want)
		}
	})
}
