package checkpoint_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nadra-dev/nadra/pkg/checkpoint"
)

// TestPendingDEL checks that a pending DEL has everything that the DEL needs, outlives its
// claim and the driver, and ends when it is resolved.
func TestPendingDEL(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	put(t, s, prepared("a", "web", "net1", 0))
	key := s.All()[0].Key()
	if err := s.DeferDEL(key, errors.New("it needs no DEL")); err != nil || len(s.PendingDELs()) > 0 {
		t.Errorf("a record that needs no DEL: %v, %v", err, s.PendingDELs())
	}
	if err := s.MarkAttaching([]checkpoint.Key{key}, sandbox, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.MarkAttached(checkpoint.Added{Key: key, Result: []byte(`{"ips":[]}`)}); err != nil {
		t.Fatal(err)
	}
	before := s.All()[0]
	if err := s.DeferDEL(key, errors.New("daemon is down")); err != nil {
		t.Fatal(err)
	}
	if r := s.All()[0]; r.NeedsDEL() {
		t.Errorf("the record still needs a DEL: %+v", r)
	}
	if err := s.DeleteClaim(before.Claim.UID, before.Pod.UID); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir)
	dels := s.PendingDELs()
	if len(dels) != 1 || dels[0].Cause != "daemon is down" || dels[0].Since.IsZero() {
		t.Fatalf("dels %+v", dels)
	}
	if diff := cmp.Diff(before, dels[0].Record); diff != "" {
		t.Errorf("the pending DEL's record (-want +got):\n%s", diff)
	}
	if err := s.ResolveDEL(dels[0]); err != nil {
		t.Fatal(err)
	}
	if left := open(t, dir).PendingDELs(); len(left) > 0 {
		t.Errorf("after settling: %v", left)
	}
}

// TestHolders makes a record's DEL pending while the records are looked through: it is seen as one or the other.
func TestHolders(t *testing.T) {
	s := open(t, t.TempDir())
	put(t, s, prepared("a", "web", "net1", 0))
	key := s.All()[0].Key()
	if err := s.MarkAttaching([]checkpoint.Key{key}, sandbox, nil); err != nil {
		t.Fatal(err)
	}
	deferred := make(chan error, 1)
	var dels []*checkpoint.PendingDEL
	for _, del := range s.Holders {
		if del != nil {
			dels = append(dels, del)
			continue
		}
		go func() { deferred <- s.DeferDEL(key, errors.New("daemon is down")) }()
		for len(s.PendingDELs()) == 0 && len(deferred) == 0 { // it waits for the loop's lock when its DEL is pending
			runtime.Gosched()
		}
	}
	if err := <-deferred; err != nil {
		t.Fatal(err)
	}
	if len(dels) != 1 || dels[0].Cause != "daemon is down" {
		t.Errorf("the DEL that became pending meanwhile is not seen: %v", dels)
	}
	for range s.Holders { // may end early
		break
	}
}

func TestDamagedPendingDEL(t *testing.T) {
	dir := t.TempDir()
	open(t, dir)
	if err := os.WriteFile(filepath.Join(dir, "pending-dels", "x.json"), []byte(`{"version":1,"record":{"phase":"Prepared"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	s, damaged, err := checkpoint.Open(dir, "boot-1")
	if err != nil {
		t.Fatal(err)
	}
	if len(damaged) != 1 || damaged[0].Name != "x" || len(s.PendingDELs()) > 0 {
		t.Errorf("damaged %+v, dels %v", damaged, s.PendingDELs())
	}
}

// The gate refuses at once, until the next attempt.
func TestRefusal(t *testing.T) {
	s := open(t, t.TempDir())
	put(t, s, prepared("a", "web", "net1", 0))
	key := s.All()[0].Key()
	if err := s.MarkRefused([]checkpoint.Key{key}, "no such VLAN"); err != nil {
		t.Fatal(err)
	}
	if r := s.All()[0]; r.Refusal != "no such VLAN" || r.BootID != s.BootID() {
		t.Errorf("refusal %q of boot %q, which the next boot would not end", r.Refusal, r.BootID)
	}
	if err := s.MarkAttaching([]checkpoint.Key{key}, sandbox, nil); err != nil {
		t.Fatal(err)
	}
	if got := s.All()[0].Refusal; got != "" {
		t.Errorf("refusal while attaching: %q", got)
	}
	if err := errors.Join(s.MarkRefused([]checkpoint.Key{key}, "no such VLAN"), s.MarkDetached(key)); err != nil {
		t.Fatal(err)
	}
	if r := s.All()[0]; r.Refusal != "no such VLAN" || r.BootID != s.BootID() {
		t.Errorf("after the DEL, refusal %q of boot %q, which the next boot would not end", r.Refusal, r.BootID)
	}
}

// TestManyPendingDELs checks that a list of pending DELs costs no hash for each comparison: their number is a
// tenant's choice, and the probe of the driver's health, each retry and each Prepare list them.
func TestManyPendingDELs(t *testing.T) {
	s := open(t, t.TempDir())
	keys := put(t, s, prepared("a", "web", "net1", 0))
	for i := range 100 {
		in := sandbox
		in.ID = fmt.Sprint("s", i)
		if err := errors.Join(s.MarkAttaching(keys, in, nil), s.DeferDEL(keys[0], errors.New("busy"))); err != nil {
			t.Fatal(err)
		}
	}
	if n := testing.AllocsPerRun(1, func() { s.PendingDELs() }); n > 50 {
		t.Errorf("%v allocations for 100 pending DELs", n)
	}
	if !slices.IsSortedFunc(s.PendingDELs(), func(a, b checkpoint.PendingDEL) int { return a.Since.Compare(b.Since) }) {
		t.Error("the oldest is not the first")
	}
}
