package driver

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nadra-dev/nadra/test/drivertest"
)

// TestRemoveStaleSockets checks that the sockets of earlier drivers go, and no others.
func TestRemoveStaleSockets(t *testing.T) {
	d := newDriverWith(t, setup{cfg: func(cfg *Config) { cfg.KubeletRegistryDir = t.TempDir() }})
	earlierRegistrar, earlier := socketNames(time.Unix(1700000000, 0))
	registrar, service := socketNames(d.started)
	for dir, names := range map[string]struct{ stale, others []string }{
		d.cfg.KubeletRegistryDir: {[]string{earlierRegistrar, "net.nadra.dev-reg.sock"}, []string{"gpu-reg.sock", "net.nadra.dev-other-reg.sock", registrar, "net.nadra.dev.sock", "xnet.nadra.dev-reg.sock"}},
		d.cfg.pluginDir():        {[]string{earlier, "dra.sock"}, []string{service, "dra.sock.txt", "nadra-gate"}},
	} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			t.Fatal(err)
		}
		for _, name := range append(names.stale, names.others...) {
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := d.removeStaleSockets(); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string][]string{
		d.cfg.KubeletRegistryDir: {"gpu-reg.sock", registrar, "net.nadra.dev-other-reg.sock", "net.nadra.dev.sock", "xnet.nadra.dev-reg.sock"},
		d.cfg.pluginDir():        {service, "dra.sock.txt", "nadra-gate"},
	} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		var left []string
		for _, e := range entries {
			left = append(left, e.Name())
		}
		slices.Sort(want)
		drivertest.Same(t, "left in "+dir, want, left)
	}
}

// TestCallsWaitForLoad checks that the kubelet's calls wait until the driver has read the
// networks, and that a call which ends before makes the kubelet try its pod again.
func TestCallsWaitForLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriverWith(t, setup{loading: true}, nad("blue", blueConf))

		ctx, cancel := context.WithTimeout(t.Context(), 45*time.Second)
		defer cancel()
		_, err := d.plugin.PrepareResourceClaims(ctx, nil)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Prepare: %v, want the end of its time", err)
		}
		drivertest.Same(t, "triggered", 1, len(d.retrigger.registered.C()))
		if _, err := d.plugin.UnprepareResourceClaims(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Unprepare: %v, want the end of its time", err)
		}

		d.runtime.connected()
		answered := make(chan error, 1)
		go func() {
			_, err := d.plugin.PrepareResourceClaims(t.Context(), nil)
			answered <- err
		}()
		synctest.Wait()
		if len(answered) > 0 {
			t.Fatalf("an answer before the networks were read: %v", <-answered)
		}
		close(d.loaded)
		if err := <-answered; err != nil {
			t.Error(err)
		}
	})
}
