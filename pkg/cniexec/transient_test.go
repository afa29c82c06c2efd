package cniexec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// The verdict on errors of real runs, each also as the driver passes it on:
// wrapped, and joined with that of a rollback.
func TestTransient(t *testing.T) {
	const answer = `echo '{"cniVersion":"1.0.0","code":%d,"msg":"no"}'; exit 1`
	tests := []struct {
		name, script string
		ends         bool // before the plugin does
		change       func(*testing.T, *world, *attachment.Sandbox, *attachment.Attachment)
		want         bool
	}{
		{name: "try again later", script: fmt.Sprintf(answer, types.ErrTryAgainLater), want: true},
		{name: "killed by a signal", script: `kill -KILL $$`, want: true},
		{name: "failed without a CNI error", script: `echo oops >&2; exit 3`, want: true},
		{name: "a result that is not JSON", script: `echo oops`, want: true},
		{name: "ended at the deadline", script: `touch $DIR/begun; sleep 600`, ends: true, want: true},
		{name: "not found", want: true},
		{name: "not executable by this machine", script: `x`, want: true, change: func(t *testing.T, w *world, _ *attachment.Sandbox, _ *attachment.Attachment) {
			if err := os.WriteFile(filepath.Join(w.bin, "p"), []byte("\x7fELF"), 0o755); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "the cache cannot be written", script: `echo '` + result + `'`, want: true, change: func(t *testing.T, w *world, _ *attachment.Sandbox, _ *attachment.Attachment) {
			if err := os.WriteFile(w.results(), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "refused without a code", script: fmt.Sprintf(answer, 0)},
		{name: "invalid configuration", script: fmt.Sprintf(answer, types.ErrInvalidNetworkConfig)},
		{name: "a plugin's own code", script: fmt.Sprintf(answer, 100)},
		{name: "internal error", script: fmt.Sprintf(answer, types.ErrInternal)},
		{name: "a result of an unknown version", script: `echo '{"cniVersion":"9.0.0"}'`},
		{name: "an unreadable conflist", change: func(_ *testing.T, _ *world, _ *attachment.Sandbox, a *attachment.Attachment) {
			a.Conflist = json.RawMessage(`{`)
		}},
		{name: "a plugin type that is a path", change: func(_ *testing.T, _ *world, _ *attachment.Sandbox, a *attachment.Attachment) {
			a.Conflist = conflist("../p").Conflist
		}},
		{name: "an interface name that libcni refuses", script: `echo '` + result + `'`, change: func(_ *testing.T, _ *world, _ *attachment.Sandbox, a *attachment.Attachment) {
			a.Interface = "a name that is too long"
		}},
		{name: "a container ID that libcni refuses", script: `echo '` + result + `'`, change: func(_ *testing.T, _ *world, s *attachment.Sandbox, _ *attachment.Attachment) {
			s.ID = "/"
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, s, a := newWorld(t), sandbox, conflist("p")
			if tt.script != "" {
				w.plugin(t, "p", tt.script)
			}
			if tt.change != nil {
				tt.change(t, w, &s, &a)
			}
			ctx := t.Context()
			if tt.ends {
				ctx = w.endOnceBegun(t, context.DeadlineExceeded)
			}
			_, err := w.Add(ctx, s, a, nil)
			if err == nil {
				t.Fatal("no error")
			}
			wrapped := fmt.Errorf("adding network: %w", err)
			for _, err := range []error{
				err, wrapped,
				errors.Join(wrapped, types.NewError(types.ErrTryAgainLater, "rollback", "")),
				errors.Join(wrapped, types.NewError(types.ErrInternal, "rollback", "")),
				errors.Join(wrapped, &noAnswer{errors.New("rollback")}),
			} {
				if got := Transient(err); got != tt.want {
					t.Errorf("%t for %v", got, err)
				}
			}
		})
	}
}

// noErrors is a joined error of nothing.
type noErrors struct{ error }

func (noErrors) Unwrap() []error { return nil }

func TestTransientOfWhatIsNotOurs(t *testing.T) {
	for name, err := range map[string]error{
		"nil": nil, "an unknown error": errors.New("x"), "a wrapped unknown error": fmt.Errorf("a: %w", errors.New("x")), "joined nothing": noErrors{},
	} {
		if Transient(err) {
			t.Errorf("%s is transient", name)
		}
	}
}
