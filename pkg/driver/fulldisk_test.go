package driver

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/test/drivertest"
)

// TestEventsOfAFullDisk fills the file system of the records, or makes it read-only, between the Prepare of one claim and
// that of another. Events on the pod must say why neither is attached.
func TestEventsOfAFullDisk(t *testing.T) {
	for what, tt := range map[string]struct {
		end  func(dir string) error
		want unix.Errno
	}{
		"full": {func(dir string) error {
			f, err := os.Create(filepath.Join(dir, "filler"))
			for err == nil {
				_, err = f.Write(make([]byte, os.Getpagesize()))
			}
			if errors.Is(err, unix.ENOSPC) {
				err = f.Close()
			}
			return err
		}, unix.ENOSPC},
		"read-only": {func(dir string) error { return unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, "") }, unix.EROFS},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			mountDisk(t, dir)
			store, _, err := drivertest.OpenStore(dir, "boot-1")
			if err != nil {
				t.Fatal(err)
			}
			onDisk := setup{env: func(e *environment) { e.store = store }}
			inWorldWith(t, onDisk, blueConf, func(t *testing.T, w *world) {
				if err := tt.end(dir); err != nil {
					t.Fatal(err)
				}
				if err := prepare(t, w.Driver, claim("b", "blue"))["b-uid"].Err; !errors.Is(err, tt.want) {
					t.Errorf("Prepare: %v, want %v", err, tt.want)
				}
				if err := w.RunPodSandbox(t.Context(), podNo(1)); err != nil {
					t.Error(err)
				}
				after(time.Second)
				events := eventsOf(t, w.Driver)
				for _, event := range []string{reason.EventFailedPrepareNetwork, reason.EventFailedAttachNetwork} {
					if !slices.ContainsFunc(events, func(e string) bool {
						return strings.HasPrefix(e, "Warning "+event+" ") && reason.In(e) == reason.StateNotWritten && strings.Contains(e, tt.want.Error())
					}) {
						t.Errorf("no %s with %q: %q", event, tt.want.Error(), events)
					}
				}
				drivertest.Same(t, "plugins", nil, w.k.Calls)
			})
		})
	}
}

// mountDisk mounts a small file system until the test ends.
func mountDisk(t *testing.T, dir string) {
	t.Helper()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("mounting needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
}
