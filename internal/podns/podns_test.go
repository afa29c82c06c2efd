package podns

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/vishvananda/netns"
)

// init keeps the tests off the process' first thread, where only TestMain runs: a
// thread that enters a namespace is never used again, but the first one cannot
// end, and /proc/self would show its namespace from then on.
func init() { runtime.LockOSThread() }

// Open returns ErrGone only for a namespace that is certainly gone, because its DEL frees
// addresses.
func TestOpenRefusesMissingNamespaces(t *testing.T) {
	root := t.TempDir()
	// A file on which a namespace was mounted stays when it is unmounted.
	if err := os.WriteFile(filepath.Join(root, "leftover"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := New(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/absent", "/leftover"} {
		if _, err := o.Open(path); !errors.Is(err, ErrGone) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// The host's namespace is refused by whatever path it is reached: a file of
// /proc, or a mount or link of it, as CRI-O reports one.
func TestOpenRefusesTheHost(t *testing.T) {
	o, err := New("/")
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "pinned")
	if err := os.Symlink("/proc/self/ns/net", link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/proc/self/ns/net", "/proc/thread-self/ns/net", link} {
		if _, err := o.Open(path); !errors.Is(err, ErrHost) {
			t.Errorf("%s: %v", path, err)
		}
		if !o.IsHost(path) {
			t.Errorf("%s is not the host's", path)
		}
	}
	if o.IsHost("/absent") {
		t.Error("a path that is not there is the host's")
	}
}

func TestOpenAcceptsAPod(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("making a network namespace needs root")
	}
	o, err := New("/")
	if err != nil {
		t.Fatal(err)
	}
	// The thread is not reused: it ends with the goroutine.
	created := make(chan string)
	done := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		if _, err := netns.New(); err != nil {
			t.Error(err)
		}
		created <- "/proc/" + threadDir() + "/ns/net"
		<-done
	}()
	path := <-created
	defer close(done)
	ns, err := o.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	if o.IsHost(path) {
		t.Error("a namespace of its own is taken for the host's")
	}
}

// threadDir returns the calling thread's directory below /proc.
func threadDir() string {
	dir, err := os.Readlink("/proc/thread-self")
	if err != nil {
		return "thread-self"
	}
	return dir
}
