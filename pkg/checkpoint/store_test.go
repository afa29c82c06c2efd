package checkpoint_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
)

func open(t *testing.T, dir string) *checkpoint.Store {
	t.Helper()
	s, damaged, err := checkpoint.Open(dir, "boot-1")
	if err != nil {
		t.Fatal(err)
	}
	if len(damaged) > 0 {
		t.Fatalf("damaged files: %v", damaged)
	}
	return s
}

func prepared(claim, pod, request string, index int) attachment.Prepared {
	return attachment.Prepared{
		Claim:   attachment.ClaimRef{Namespace: "default", Name: claim, UID: claim + "-uid"},
		Pod:     attachment.PodRef{Namespace: "default", Name: pod, UID: pod + "-uid"},
		Request: request, Pool: "node-1/networks", Device: "default-blue-0123456789",
		ShareID: "6b0f3d62-6c1c-4f5b-9a59-0f8b8f2f6a10",
		Index:   index,
		Attachment: attachment.Attachment{
			Network: attachment.NetworkRef{Namespace: "default", Name: "blue"}, Interface: request, CNIName: "blue",
			Conflist: json.RawMessage(`{"name":"blue","cniVersion":"1.0.0","plugins":[{"type":"macvlan"}]}`),
		},
	}
}

var sandbox = attachment.Sandbox{
	ID: "sandbox-1", NetNS: "/var/run/netns/cni-1", Cookie: 4711,
	Pod: attachment.PodRef{Namespace: "default", Name: "web", UID: "web-uid"},
}

func put(t *testing.T, s *checkpoint.Store, ps ...attachment.Prepared) []checkpoint.Key {
	t.Helper()
	if err := s.Put(ps); err != nil {
		t.Fatal(err)
	}
	var keys []checkpoint.Key
	for _, p := range ps {
		keys = append(keys, checkpoint.Record{Prepared: p}.Key())
	}
	return keys
}

// every pair of a phase and a change
func TestPhases(t *testing.T) {
	attaching := func(s *checkpoint.Store, k checkpoint.Key) error {
		return s.MarkAttaching([]checkpoint.Key{k}, sandbox, nil)
	}
	attached := func(s *checkpoint.Store, k checkpoint.Key) error {
		return s.MarkAttached(checkpoint.Added{Key: k, Result: json.RawMessage(`{}`)})
	}
	detached := func(s *checkpoint.Store, k checkpoint.Key) error { return s.MarkDetached(k) }
	detaching := func(s *checkpoint.Store, k checkpoint.Key) error { return s.MarkDetaching(k) }
	displacing := func(s *checkpoint.Store, k checkpoint.Key) error {
		return s.MarkDisplaced(k, []checkpoint.Route{{}})
	}
	type step = func(*checkpoint.Store, checkpoint.Key) error
	tests := []struct {
		name   string
		before []step
		change step
		want   checkpoint.Phase
		fails  bool // with an error that names the phase
	}{
		{"Prepared to Attaching", nil, attaching, checkpoint.Attaching, false},
		{"Prepared to Attached", nil, attached, checkpoint.Prepared, true},
		{"Prepared to Prepared", nil, detached, checkpoint.Prepared, false},
		{"Attaching to Attaching", []step{attaching}, attaching, checkpoint.Attaching, true},
		{"Attaching to Attached", []step{attaching}, attached, checkpoint.Attached, false},
		{"Attaching to Prepared", []step{attaching}, detached, checkpoint.Prepared, false},
		{"Attached to Attaching", []step{attaching, attached}, attaching, checkpoint.Attached, true},
		{"Attached to Attached", []step{attaching, attached}, attached, checkpoint.Attached, true},
		{"Attached to Prepared", []step{attaching, attached}, detached, checkpoint.Prepared, false},
		{"Attached to Attaching, for a DEL", []step{attaching, attached}, detaching, checkpoint.Attaching, false},
		{"Prepared to Attaching, for a DEL", nil, detaching, checkpoint.Prepared, true},
		{"routes displaced while Attaching", []step{attaching}, displacing, checkpoint.Attaching, false},
		{"routes displaced while Prepared", nil, displacing, checkpoint.Prepared, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			k := put(t, s, prepared("a", "web", "net1", 0))[0]
			for _, b := range tt.before {
				if err := b(s, k); err != nil {
					t.Fatal(err)
				}
			}
			err := tt.change(s, k)
			if (err != nil) != tt.fails || err != nil && !strings.Contains(err.Error(), " is "+string(tt.want)) {
				t.Fatalf("error %v, want one: %t", err, tt.fails)
			}
			for _, store := range []*checkpoint.Store{s, open(t, dir)} {
				r := store.ForClaim("a-uid")[0]
				if r.Phase != tt.want {
					t.Errorf("phase %s, want %s", r.Phase, tt.want)
				}
				if r.NeedsDEL() != (r.Sandbox != nil) || r.NeedsDEL() != (r.BootID != "") {
					t.Errorf("phase %s with sandbox %v and boot ID %q", r.Phase, r.Sandbox, r.BootID)
				}
			}
		})
	}
}

func TestClaimsOfOnePodAreIndependent(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	keys := append(put(t, s, prepared("b", "web", "net3", 2)), put(t, s, prepared("a", "web", "net1", 0), prepared("a", "web", "net2", 1))...)
	put(t, s, prepared("c", "other", "net1", 0))
	if err := s.MarkAttaching(keys, sandbox, nil); err != nil {
		t.Fatal(err)
	}
	interfaces := func(rs []checkpoint.Record) (out []string) {
		for _, r := range rs {
			out = append(out, r.Attachment.Interface)
		}
		return out
	}
	if diff := cmp.Diff([]string{"net1", "net2", "net3"}, interfaces(s.ForPod("web-uid"))); diff != "" {
		t.Errorf("order of the pod's attachments (-want +got):\n%s", diff)
	}
	if err := s.DeleteClaim("a-uid", s.ForClaim("a-uid")[0].Pod.UID); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir)
	if diff := cmp.Diff([]string{"net3"}, interfaces(s.ForPod("web-uid"))); diff != "" {
		t.Errorf("after deleting claim a (-want +got):\n%s", diff)
	}
	if got := len(s.All()); got != 2 {
		t.Errorf("%d records in all, want 2", got)
	}
}

func TestPutTwiceKeepsTheFirst(t *testing.T) {
	s := open(t, t.TempDir())
	p := prepared("a", "web", "net1", 0)
	k := put(t, s, p)[0]
	if err := s.MarkAttaching([]checkpoint.Key{k}, sandbox, nil); err != nil {
		t.Fatal(err)
	}
	p.Attachment.Interface = "other"
	put(t, s, p)
	if r := s.ForClaim("a-uid")[0]; r.Phase != checkpoint.Attaching || r.Attachment.Interface != "net1" {
		t.Errorf("a repeated Put changed the record to %s %s", r.Phase, r.Attachment.Interface)
	}
}

func TestUnknownRecord(t *testing.T) {
	s := open(t, t.TempDir())
	if err := s.MarkDetached(checkpoint.Key{FileUID: "x"}); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Errorf("error %v, want ErrNotFound", err)
	}
	if err := s.DeleteClaim("x", "x"); err != nil {
		t.Errorf("deleting a claim that is not there: %v", err)
	}
}

func TestClaimUIDIsNoPath(t *testing.T) {
	p := prepared("a", "web", "net1", 0)
	p.Claim.UID = "../../etc/passwd"
	if err := open(t, t.TempDir()).Put([]attachment.Prepared{p}); err == nil {
		t.Error("a path was accepted as a claim UID")
	}
}

// A write that fails changes nothing, in memory or on disk.
func TestFailedWriteChangesNothing(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	k := put(t, s, prepared("a", "web", "net1", 0))[0]
	claims := filepath.Join(dir, "claims")
	if err := os.Rename(claims, claims+".away"); err != nil {
		t.Fatal(err)
	}
	for operation, err := range map[string]error{
		"Put": s.Put([]attachment.Prepared{prepared("b", "web", "net1", 0)}), "MarkAttaching": s.MarkAttaching([]checkpoint.Key{k}, sandbox, nil),
	} {
		if reason.Of(err) != reason.StateNotWritten || !strings.HasPrefix(err.Error(), "[StateNotWritten] writing the records of claim ") {
			t.Errorf("%s without a directory: %v", operation, err)
		}
	}
	if r := s.ForClaim("a-uid")[0]; r.Phase != checkpoint.Prepared {
		t.Errorf("in memory: phase %s", r.Phase)
	}
	if err := os.Rename(claims+".away", claims); err != nil {
		t.Fatal(err)
	}
	if r := open(t, dir).ForClaim("a-uid")[0]; r.Phase != checkpoint.Prepared {
		t.Errorf("on disk: phase %s", r.Phase)
	}
}

// TestUnreadableFileIsNotDamaged starts on a file that the disk does not give: it may be whole, so the start fails and
// leaves it where it is. The file is the kernel's, which refuses to be read at its beginning.
func TestUnreadableFileIsNotDamaged(t *testing.T) {
	dir := t.TempDir()
	put(t, open(t, dir), prepared("good", "web", "net1", 0))
	path := filepath.Join(dir, "claims", "good-uid.json")
	if err := unix.Mount("/proc/self/mem", path, "", unix.MS_BIND, ""); err != nil {
		t.Skipf("mounting needs root: %v", err)
	}
	_, damaged, err := checkpoint.Open(dir, "boot-1")
	if unmountErr := unix.Unmount(path, 0); unmountErr != nil {
		t.Fatal(unmountErr)
	}
	if !errors.Is(err, unix.EIO) || len(damaged) > 0 {
		t.Errorf("the start: %v, damaged files %v", err, damaged)
	}
	if got := open(t, dir).ForClaim("good-uid"); len(got) != 1 {
		t.Errorf("after the disk is back: %v", got)
	}
}

func TestDamagedFilesCostOneClaim(t *testing.T) {
	dir := t.TempDir()
	put(t, open(t, dir), prepared("good", "web", "net1", 0))
	bad := map[string]string{
		"empty":     ``,
		"cut":       `{"version":1,"records":[{"claim":`,
		"past":      `{"version":0,"records":[]}`,
		"none":      `{"version":1,"records":[]}`,
		"otheruid":  `{"version":1,"records":[{"claim":{"uid":"x"},"phase":"Prepared"}]}`,
		"phase":     `{"version":1,"records":[{"claim":{"uid":"phase"},"phase":"Half"}]}`,
		"nosandbox": `{"version":1,"records":[{"claim":{"uid":"nosandbox"},"phase":"Attached"}]}`,
		"twice":     `{"version":1,"records":[{"claim":{"uid":"twice"},"phase":"Prepared"},{"claim":{"uid":"twice"},"phase":"Prepared"}]}`,
	}
	for uid, content := range bad {
		if err := os.WriteFile(filepath.Join(dir, "claims", uid+".json"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "claims", ".tmp-123"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, damaged, err := checkpoint.Open(dir, "boot-1")
	if err != nil {
		t.Fatal(err)
	}
	if len(damaged) != len(bad) {
		t.Errorf("%d damaged files, want %d: %v", len(damaged), len(bad), damaged)
	}
	for _, d := range damaged {
		if content, err := os.ReadFile(d.Path); err != nil || string(content) != bad[d.Name] {
			t.Errorf("claim %s: put aside as %q (%v)", d.Name, content, err)
		}
	}
	if got := len(s.All()); got != 1 {
		t.Errorf("%d records survive, want the good one", got)
	}
	left, err := os.ReadDir(filepath.Join(dir, "claims"))
	if err != nil || len(left) != 1 {
		t.Errorf("files left: %v (%v)", left, err)
	}
	open(t, dir) // a second start finds nothing damaged
	if got := s.CountDamaged(); got != len(bad) {
		t.Errorf("%d files are put aside, want %d", got, len(bad))
	}
}

// The format is a promise to the next version.
func TestFormatV1(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	keys := put(t, s, prepared("a", "web", "net1", 0), prepared("a", "web", "net2", 1))
	if err := s.MarkAttaching(keys, sandbox, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.MarkAttached(checkpoint.Added{Key: keys[0], Result: json.RawMessage(`{"cniVersion":"1.1.0","interfaces":[{"name":"net1","sandbox":"/var/run/netns/cni-1"}]}`)}); err != nil {
		t.Fatal(err)
	}
	if err := s.MarkStatusStored(s.All()); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, "claims", "a-uid.json"))
	if err != nil {
		t.Fatal(err)
	}
	const golden = "../../testdata/checkpoint/v1.json"
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(indent(t, want), indent(t, got)); diff != "" {
		t.Errorf("format differs from %s (-want +got):\n%s", golden, diff)
	}
	// and the other way: what an earlier build wrote is read
	old := t.TempDir()
	open(t, old)
	if err := os.WriteFile(filepath.Join(old, "claims", "a-uid.json"), want, 0o600); err != nil {
		t.Fatal(err)
	}
	read, err := json.Marshal(open(t, old).All())
	if err != nil {
		t.Fatal(err)
	}
	wrote, err := json.Marshal(s.All())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(indent(t, wrote), indent(t, read)); diff != "" {
		t.Errorf("records read from the golden file (-want +got):\n%s", diff)
	}
}

// A stored status covers only the attachments that network-status lists, and not later ones:
// the gate opens only for the former.
func TestStatusStored(t *testing.T) {
	result := func(address string) json.RawMessage { return json.RawMessage(`{"ips":"` + address + `"}`) }
	stored := func(s *checkpoint.Store) (out []bool) {
		for _, r := range s.All() {
			out = append(out, r.StatusStored)
		}
		return out
	}
	for _, tt := range []struct {
		name string
		// since is done between reading the records and marking them.
		since func(*checkpoint.Store, []checkpoint.Key) error
		want  []bool
	}{
		{"nothing", func(*checkpoint.Store, []checkpoint.Key) error { return nil }, []bool{true, true}},
		{"attached again in the same sandbox, with another address", func(s *checkpoint.Store, keys []checkpoint.Key) error {
			return errors.Join(s.MarkDetached(keys[0]), s.MarkAttaching(keys[:1], sandbox, nil), s.MarkAttached(checkpoint.Added{Key: keys[0], Result: result("10.0.0.9")}))
		}, []bool{false, true}},
		{"attached in another sandbox", func(s *checkpoint.Store, keys []checkpoint.Key) error {
			other := sandbox
			other.ID = "sandbox-2"
			return errors.Join(s.MarkDetached(keys[0]), s.MarkAttaching(keys[:1], other, nil), s.MarkAttached(checkpoint.Added{Key: keys[0], Result: result("net1")}))
		}, []bool{false, true}},
		{"detached", func(s *checkpoint.Store, keys []checkpoint.Key) error { return s.MarkDetached(keys...) }, []bool{false, false}},
		{"forgotten", func(s *checkpoint.Store, _ []checkpoint.Key) error {
			return s.DeleteClaim("a-uid", s.ForClaim("a-uid")[0].Pod.UID)
		}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := open(t, t.TempDir())
			keys := put(t, s, prepared("a", "web", "net1", 0), prepared("a", "web", "net2", 1))
			if err := errors.Join(s.MarkAttaching(keys, sandbox, nil),
				s.MarkAttached(checkpoint.Added{Key: keys[0], Result: result("net1")}, checkpoint.Added{Key: keys[1], Result: result("net2")})); err != nil {
				t.Fatal(err)
			}
			listed := s.All()
			if err := errors.Join(tt.since(s, keys), s.MarkStatusStored(listed)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, stored(s)); diff != "" {
				t.Errorf("stored (-want +got):\n%s", diff)
			}
		})
	}
}

// An attachment that network-status lists meanwhile is not deleted by a caller that read it
// before: the gate may have let containers start.
func TestListedIsNotTakenDown(t *testing.T) {
	s := open(t, t.TempDir())
	keys := slices.Concat(put(t, s, prepared("a", "web", "net1", 0)), put(t, s, prepared("b", "web", "net2", 1)))
	if err := errors.Join(s.MarkAttaching(keys, sandbox, nil),
		s.MarkAttached(checkpoint.Added{Key: keys[0]}, checkpoint.Added{Key: keys[1]})); err != nil {
		t.Fatal(err)
	}
	if err := s.MarkStatusStored(s.ForClaim("a-uid")); err != nil {
		t.Fatal(err)
	}
	before := s.All()
	if err := s.MarkUnlistedDetaching(keys...); !errors.Is(err, checkpoint.ErrStatusStored) {
		t.Errorf("one of two is listed: %v, want %v", err, checkpoint.ErrStatusStored)
	}
	if diff := cmp.Diff(before, s.All()); diff != "" {
		t.Errorf("records have changed (-before +after):\n%s", diff)
	}
	if err := s.MarkUnlistedDetaching(keys[1]); err != nil {
		t.Errorf("the other one is not listed: %v", err)
	}
	if r := s.ForClaim("b-uid")[0]; r.Phase != checkpoint.Attaching {
		t.Errorf("it is %s, want %s", r.Phase, checkpoint.Attaching)
	}
}

func indent(t *testing.T, raw []byte) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	out, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestEach checks that a loop gets each record once, and may end early.
func TestEach(t *testing.T) {
	s, _, err := checkpoint.Open(t.TempDir(), "boot-1")
	if err != nil {
		t.Fatal(err)
	}
	for _, claim := range []string{"a", "b"} {
		if err := s.Put([]attachment.Prepared{prepared(claim, "web", "net1", 0), prepared(claim, "web", "net2", 1)}); err != nil {
			t.Fatal(err)
		}
	}
	got := map[checkpoint.Key]bool{}
	for r := range s.Each {
		got[r.Key()] = true
	}
	if len(got) != 4 {
		t.Errorf("records %v", got)
	}
	for range s.Each {
		break
	}
	if err := s.DeleteClaim("a-uid", "web-uid"); err != nil || len(s.All()) != 2 { // the store is not locked
		t.Error(err)
	}
}

func BenchmarkWrite(b *testing.B) {
	s, _, err := checkpoint.Open(b.TempDir(), "boot-1")
	if err != nil {
		b.Fatal(err)
	}
	p := prepared("a", "web", "net1", 0)
	if err := s.Put([]attachment.Prepared{p}); err != nil {
		b.Fatal(err)
	}
	key := checkpoint.Record{Prepared: p}.Key()
	for b.Loop() {
		if err := s.MarkAttaching([]checkpoint.Key{key}, sandbox, nil); err != nil {
			b.Fatal(err)
		}
		if err := s.MarkDetached(key); err != nil {
			b.Fatal(err)
		}
	}
}

// TestClaimOfAnotherPod checks that neither the next pod of a claim nor the end of the pod before loses a record that
// promises a DEL.
func TestClaimOfAnotherPod(t *testing.T) {
	s := open(t, t.TempDir())
	keys := put(t, s, prepared("a", "first", "net1", 0))
	if err := s.MarkAttaching(keys, sandbox, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Put([]attachment.Prepared{prepared("a", "next", "net1", 0)}); err == nil || s.ForClaim("a-uid")[0].Pod.Name != "first" {
		t.Errorf("the next pod before the DEL: %v, the record is of %s", err, s.ForClaim("a-uid")[0].Pod)
	}
	if err := s.MarkDetached(keys...); err != nil {
		t.Fatal(err)
	}
	put(t, s, prepared("a", "next", "net1", 0))
	if err := s.DeleteClaim("a-uid", "first-uid"); err != nil {
		t.Fatal(err)
	}
	if left := s.ForClaim("a-uid"); len(left) != 1 || left[0].Pod.Name != "next" {
		t.Errorf("after the end of the first pod: %v", left)
	}
}

// TestDisplacedRoutesHaveALimit checks that a record displaces so many routes and no more: a pod may add others again and
// again, and each costs a comparison with all.
func TestDisplacedRoutesHaveALimit(t *testing.T) {
	s := open(t, t.TempDir())
	keys := put(t, s, prepared("a", "web", "net1", 0))
	err := s.MarkAttaching(keys, sandbox, nil)
	for metric := 0; err == nil && metric < 10*checkpoint.MaxRoutes; metric++ {
		err = s.MarkDisplaced(keys[0], []checkpoint.Route{{Family: "IPv4", Metric: metric}})
	}
	if n := len(s.All()[0].Displaced); reason.Of(err) != reason.LimitExceeded || n != checkpoint.MaxRoutes {
		t.Errorf("%d routes, %v", n, err)
	}
}
