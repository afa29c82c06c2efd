package driver

import (
	"testing"
	"time"

	"github.com/nadra-dev/nadra/internal/metrics"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/attach"
	"github.com/nadra-dev/nadra/pkg/driver/internal/drivertest"
)

// newAttacher returns an attacher with an empty store, and its plugins.
func newAttacher(t *testing.T) (*attach.Attacher, *drivertest.Kernel) {
	t.Helper()
	store, _, err := checkpoint.Open(t.TempDir(), "boot-1")
	if err != nil {
		t.Fatal(err)
	}
	k := drivertest.NewKernel()
	return attach.New(attach.Options{
		Store: store, Plugins: k, Netns: k, RestoreDevice: func(attachment.Hardware) error { return nil },
		Limits: attach.Limits{Add: 30 * time.Second, Del: 10 * time.Second}, Metrics: metrics.NewNode(),
		Deferred: func(r checkpoint.Record, _ error) { _ = k.Record("DEFERRED", *r.Sandbox, r.Attachment) },
	}), k
}

// attachOnce attaches, and fails the test if a try is repeated.
func attachOnce(t *testing.T, a *attach.Attacher, s attachment.Sandbox) error {
	t.Helper()
	return a.Attach(t.Context(), s, func(err error) { t.Errorf("tried again after: %v", err) })
}
