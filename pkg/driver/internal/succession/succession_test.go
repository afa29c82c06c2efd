package succession

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// shortDir returns a folder whose name is short enough for a socket in it.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "nd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// TestOneAtATime checks that a directory has one driver until it is released.
func TestOneAtATime(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	first, err := TryLock(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := TryLock(dir); !errors.Is(err, ErrHeld) {
		t.Errorf("a second lock: %v", err)
	}
	first.Release()
	second, err := TryLock(dir)
	if err != nil {
		t.Fatal(err)
	}
	second.Release()
}

func TestTakenBy(t *testing.T) {
	at := time.Unix(1700000000, 0).UTC()
	a, b := Driver{PodUID: "a", Program: "v1"}, Driver{PodUID: "b", Program: "v2"}
	held := Record{Version: 1, Holder: a, Since: at}
	replaced := Record{Version: 1, Holder: b, Since: at, Superseded: []Superseded{{Driver: a, By: b, At: at, Times: 1}}}
	back := Record{Version: 1, Holder: a, Superseded: replaced.Superseded}
	again := Record{Version: 1, Holder: b, Since: at, Superseded: []Superseded{{Driver: a, By: b, At: at, Times: 2}}}
	third := Driver{PodUID: "c"}
	for _, c := range []struct {
		name   string
		before Record
		by     Driver
		asked  bool
		want   Record
	}{
		{"the first driver", Record{}, a, false, held},
		{"its container is started again", held, a, false, held},
		{"another asks for it", held, b, true, replaced},
		{"another takes it after the end of the first", held, b, false, Record{Version: 1, Holder: b, Since: at}},
		{"the first takes it back after the end of the other", replaced, a, false, Record{Version: 1, Holder: a, Since: at, Superseded: replaced.Superseded}},
		{"the other asks for it again", back, b, true, again},
		{"a third asks for it", back, third, true, Record{Version: 1, Holder: third, Since: at, Superseded: []Superseded{{Driver: a, By: third, At: at, Times: 1}}}},
		{"a driver without a pod", Record{Version: 1, Holder: Driver{Program: "v1"}}, b, true, Record{Version: 1, Holder: b, Since: at}},
	} {
		if diff := cmp.Diff(c.want, c.before.TakenBy(c.by, c.asked, at)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
	if !replaced.IsSuperseded(a) || replaced.IsSuperseded(b) || replaced.IsSuperseded(Driver{}) {
		t.Error("not exactly the first driver is superseded")
	}
	for _, c := range []struct {
		record Record
		by     Driver
		want   int
	}{{held, b, 0}, {replaced, b, 0}, {back, b, 1}, {back, third, 0}, {back, Driver{}, 0}, {again, b, 0}} {
		if n := c.record.LostBy(c.by); n != c.want {
			t.Errorf("%+v has lost %+v %d times, want %d", c.by, c.record, n, c.want)
		}
	}
	many := held
	for i := range 2 * supersededKept {
		many = many.TakenBy(Driver{PodUID: strings.Repeat("x", i+1)}, true, at)
	}
	if len(many.Superseded) != supersededKept {
		t.Errorf("%d superseded drivers are kept", len(many.Superseded))
	}
}

// TestRecordOnDisk checks that a later format is refused by name and version, and kept; and
// that a torn file is an empty record.
func TestRecordOnDisk(t *testing.T) {
	dir := t.TempDir()
	want := Record{Version: 1, Holder: Driver{PodUID: "a", Program: "v1"}, Since: time.Unix(1700000000, 0).UTC()}
	if err := want.Write(dir); err != nil {
		t.Fatal(err)
	}
	got, err := ReadRecord(dir)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	path := filepath.Join(dir, recordFile)
	for content, wants := range map[string][]string{
		`{"version":1,"hol`: nil,
		`{"version":7}`:     {path, "version 7", "nadra-node"},
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := ReadRecord(dir)
		if (err != nil) != (wants != nil) {
			t.Errorf("%s: %v", content, err)
		}
		for _, w := range wants {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %v lacks %q", content, err, w)
			}
		}
		if now, _ := os.ReadFile(path); string(now) != content {
			t.Errorf("the file was changed to %s", now)
		}
	}
}

// TestAskAndAnswer asks a driver over its socket: one that answers, none, one that has died, and one
// that does not answer.
func TestAskAndAnswer(t *testing.T) {
	dir := shortDir(t)
	self := Driver{PodUID: "b", Program: "v2"}
	if _, err := Ask(t.Context(), dir, Request{By: self, Manner: Hello}); !errors.Is(err, ErrNoSocket) {
		t.Errorf("without a socket: %v", err)
	}
	ctx, end := context.WithCancel(t.Context())
	var got Request
	served := make(chan error, 1)
	go func() {
		served <- Serve(ctx, dir, Driver{PodUID: "a"}, func(_ context.Context, r Request) Answer {
			got = r
			end() // the driver ends after its answer, which must arrive all the same
			return Answer{HandsOver: true}
		})
	}()
	var answer Answer
	var err error
	for deadline := time.Now().Add(time.Minute); ; {
		if answer, err = Ask(t.Context(), dir, Request{By: self, Manner: WhenQuiet, Within: time.Second}); !errors.Is(err, ErrNoSocket) || time.Now().After(deadline) {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if err := errors.Join(err, <-served); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Answer{Version: 1, Holder: Driver{PodUID: "a"}, HandsOver: true}, answer); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(Request{Version: 1, By: self, Manner: WhenQuiet, Within: time.Second}, got); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
	silent, err := net.Listen("unix", filepath.Join(dir, socketFile))
	if err != nil {
		t.Fatal(err)
	}
	short, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	if _, err := Ask(short, dir, Request{By: self, Manner: Hello}); err == nil || errors.Is(err, ErrNoSocket) {
		t.Errorf("a driver that does not answer: %v", err)
	}
	silent.(*net.UnixListener).SetUnlinkOnClose(false)
	silent.Close()
	if _, err := Ask(t.Context(), dir, Request{By: self, Manner: Hello}); !errors.Is(err, ErrNoSocket) {
		t.Errorf("a driver that has died: %v", err)
	}
}
