package cniexec

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// TestCodes checks the codes of errors whose cause this package knows best, and that an
// error of a plugin leaves the code to the caller.
func TestCodes(t *testing.T) {
	const hang = `touch $DIR/begun; sleep 600`
	for name, tt := range map[string]struct {
		script string // "" for no plugin
		run    func(t *testing.T, w *world) error
		want   reason.Code
	}{
		"a missing plugin":       {want: reason.PluginMissing, run: add(conflist("p"))},
		"an unreadable conflist": {want: reason.NetworkInvalid, run: add(attachment.Attachment{Conflist: json.RawMessage(`{`)})},
		"DEL with an unreadable conflist": {want: reason.NetworkInvalid, run: func(t *testing.T, w *world) error {
			return w.Del(t.Context(), sandbox, attachment.Attachment{Conflist: json.RawMessage(`{`)}, nil)
		}},
		"the host's network namespace": {want: reason.HostNetwork, run: func(t *testing.T, w *world) error {
			w.isHost = func(string) bool { return true }
			return add(conflist("p"))(t, w)
		}},
		"device information that cannot be written": {want: reason.StateNotWritten, run: func(t *testing.T, w *world) error {
			w.infoDir = filepath.Join(w.dir, "file", "devinfo")
			if err := os.WriteFile(filepath.Join(w.dir, "file"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			a := conflist("p")
			a.Conflist = json.RawMessage(strings.Replace(string(a.Conflist), `"ips"`, `"CNIDeviceInfoFile"`, 1))
			return add(a)(t, w)
		}},
		"a time limit without a cause": {script: hang, want: reason.PluginTimeout, run: func(t *testing.T, w *world) error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			_, err := w.Add(ctx, sandbox, conflist("p"), nil)
			return err
		}},
		"a caller's cause with a code": {script: hang, want: reason.AttachCancelled, run: func(t *testing.T, w *world) error {
			_, err := w.Add(w.endOnceBegun(t, reason.Errorf(reason.AttachCancelled, "the pod is gone")), sandbox, conflist("p"), nil)
			return err
		}},
		"a caller's cause without a code": {script: hang, run: func(t *testing.T, w *world) error {
			_, err := w.Add(w.endOnceBegun(t, errors.New("the pod is gone")), sandbox, conflist("p"), nil)
			return err
		}},
		"a plugin's error": {script: `echo '{"code":100,"msg":"no"}'; exit 1`, run: add(conflist("p"))},
		"work before the first plugin": {script: `cat`, want: reason.StateNotWritten, run: func(t *testing.T, w *world) error {
			_, err := w.Add(t.Context(), sandbox, conflist("p"), func() error { return reason.Errorf(reason.StateNotWritten, "disk full") })
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if tt.script != "" {
				w.plugin(t, "p", tt.script)
			}
			err := tt.run(t, w)
			if err == nil || reason.Of(err) != tt.want {
				t.Errorf("code %q, want %q: %v", reason.Of(err), tt.want, err)
			}
			if tt.want != "" && reason.In(err.Error()) != tt.want {
				t.Errorf("the text lacks %q: %v", tt.want, err)
			}
		})
	}
}

// add returns a run of ADD.
func add(a attachment.Attachment) func(t *testing.T, w *world) error {
	return func(t *testing.T, w *world) error {
		_, err := w.Add(t.Context(), sandbox, a, nil)
		return err
	}
}
