package checkpoint

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// TestEditsSurviveEveryPhase follows the record of a claim through an edit: what edits have made of
// it is kept in all phases and by the next process.
func TestEditsSurviveEveryPhase(t *testing.T) {
	dir := t.TempDir()
	s, _, err := Open(dir, "boot-1")
	if err != nil {
		t.Fatal(err)
	}
	pod := attachment.PodRef{Namespace: "ns", Name: "p", UID: "p-uid"}
	p := attachment.Prepared{
		Claim: attachment.ClaimRef{Namespace: "ns", Name: "c", UID: "c-uid"}, Pod: pod, Request: "r",
		Attachment: attachment.Attachment{Interface: "net1", Conflist: json.RawMessage(`{}`)},
	}
	if err := s.Put([]attachment.Prepared{p}); err != nil {
		t.Fatal(err)
	}
	first, later := "blue", "red"
	key := s.ForClaim("c-uid")[0].Key()
	attach := func(id string, networks *string) {
		t.Helper()
		if err := s.MarkAttaching([]Key{key}, attachment.Sandbox{ID: id, Networks: networks, Pod: pod}, nil); err != nil {
			t.Fatal(err)
		}
		if err := s.MarkAttached(Added{Key: key, Result: json.RawMessage(`{}`), StatusStored: true}); err != nil {
			t.Fatal(err)
		}
	}
	want := func(phase Phase, removed bool, liveIn string) {
		t.Helper()
		s.WaitSynced()
		again, _, err := Open(dir, "boot-1")
		if err != nil {
			t.Fatal(err)
		}
		for _, store := range []*Store{s, again} {
			r := store.ForClaim("c-uid")[0]
			if r.Phase != phase || r.Removed != removed || r.LiveIn != liveIn || r.Baseline == nil || *r.Baseline != first {
				t.Errorf("phase %s, edit %+v, want %s, %t, %q", r.Phase, r.Edit, phase, removed, liveIn)
			}
		}
	}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	attach("s1", &first)
	want(Attached, false, "")
	do(NewEdits(s).MarkRemoved(key))
	want(Attaching, true, "")
	do(s.MarkDetached(key))
	want(Prepared, true, "")
	do(NewEdits(s).MarkWanted("s1", key))
	attach("s1", &first)
	want(Attached, false, "s1")
	do(s.MarkDetached(key))
	attach("s2", &later)
	want(Attached, false, "s1")
	if r := s.ForClaim("c-uid")[0]; !r.Awaited("s2") || r.Awaited("s1") {
		t.Error("containers wait for it in the sandbox to which it was added, or do not wait in a new one")
	}
}

// TestAddedRecords adds records to a running sandbox, and forgets them.
func TestAddedRecords(t *testing.T) {
	s, _, err := Open(t.TempDir(), "boot-1")
	if err != nil {
		t.Fatal(err)
	}
	pod := attachment.PodRef{Namespace: "ns", Name: "p", UID: "p-uid"}
	sandbox := attachment.Sandbox{ID: "s", Pod: pod}
	one := attachment.Prepared{Pod: pod, Request: "net1", Attachment: attachment.Attachment{Interface: "net1", Conflist: json.RawMessage(`{}`)}}
	if err := s.PutUnclaimed([]attachment.Prepared{one}, sandbox); err != nil {
		t.Fatal(err)
	}
	added, err := NewEdits(s).AddLive(one, sandbox) // the first one may be removed, or not
	if err != nil {
		t.Fatal(err)
	}
	var dels []string
	for _, r := range s.ForClaim("p-uid") {
		r.Sandbox = &sandbox
		dels = append(dels, r.DELKey())
	}
	if dels[0] == dels[1] {
		t.Errorf("the pending DEL of one record is taken for that of the other: %s", dels[0])
	}
	if _, err := NewEdits(s).AddLive(one, sandbox); err == nil {
		t.Error("the same record was added twice")
	}
	if err := s.MarkAttaching([]Key{added.Key()}, sandbox, nil); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := NewEdits(s).ForgetAdded(Keys(s.ForClaim("p-uid"))...); err != nil {
			t.Fatal(err)
		}
		if n := len(s.ForClaim("p-uid")); n != 2 {
			t.Errorf("%d records: one needs a DEL, and one was not added by an edit", n)
		}
	}
	if err := NewEdits(s).MarkRemoved(added.Key()); err != nil {
		t.Fatal(err)
	}
	if err := s.MarkDetached(added.Key()); err != nil {
		t.Fatal(err)
	}
	if _, err := NewEdits(s).AddLive(one, sandbox); err != nil {
		t.Errorf("in place of a removed one: %v", err)
	}
	if err := NewEdits(s).ForgetAdded(added.Key()); err != nil || len(s.ForClaim("p-uid")) != 1 {
		t.Errorf("%v, %d records", err, len(s.ForClaim("p-uid")))
	}
}

// TestForgetAddedLeavesNoEmptyFile forgets the only record of a pod: the gate refuses the containers of a pod
// whose file has no record.
func TestForgetAddedLeavesNoEmptyFile(t *testing.T) {
	s, _, err := Open(t.TempDir(), "boot-1")
	if err != nil {
		t.Fatal(err)
	}
	pod := attachment.PodRef{Namespace: "ns", Name: "p", UID: "p-uid"}
	one := attachment.Prepared{Pod: pod, Request: "net1", Attachment: attachment.Attachment{Interface: "net1", Conflist: json.RawMessage(`{}`)}}
	added, err := NewEdits(s).AddLive(one, attachment.Sandbox{ID: "s", Pod: pod})
	if err != nil {
		t.Fatal(err)
	}
	if err := NewEdits(s).ForgetAdded(added.Key()); err != nil {
		t.Fatal(err)
	}
	s.WaitSynced()
	if _, err := os.Stat(filepath.Join(s.Dir(), "p-uid.json")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file of a pod without records: %v", err)
	}
}

// TestPodsThatAreGoneTakeNoMemory checks that the store forgets a pod with its last record.
func TestPodsThatAreGoneTakeNoMemory(t *testing.T) {
	s, _, err := Open(t.TempDir(), "boot-1")
	if err != nil {
		t.Fatal(err)
	}
	one := attachment.Prepared{Claim: attachment.ClaimRef{UID: "claim"}, Pod: attachment.PodRef{UID: "pod"}, Attachment: attachment.Attachment{Interface: "net1"}}
	if err := s.Put([]attachment.Prepared{one}); err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteClaim("claim", "pod"); err != nil {
		t.Fatal(err)
	}
	if len(s.byPod) > 0 || len(s.claims) > 0 {
		t.Errorf("pods %v, claims %v", s.byPod, s.claims)
	}
}
