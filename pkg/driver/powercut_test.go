package driver

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/succession"
	"github.com/nadra-dev/nadra/test/drivertest"
)

// disk is a file system in a file. What the file has is what has reached the device: what the mounted file
// system still keeps in memory is lost in a power cut.
type disk struct{ image, mount string }

// newDisk makes and mounts a file system. It skips the test where that is not possible, except in CI.
func newDisk(t *testing.T, kind, options string, mkfs ...string) disk {
	t.Helper()
	d := disk{filepath.Join(t.TempDir(), "image"), filepath.Join(t.TempDir(), "mount")}
	missing := func(err error) {
		t.Helper()
		if os.Getenv("NADRA_LANE") == "ci" {
			t.Fatal(err)
		}
		t.Skipf("NOT RUN: the state directory on %s after a power cut, which needs root, loop devices and mkfs.%s: %v", kind, kind, err)
	}
	// 300 MB are the least for XFS. The file has holes.
	err := errors.Join(os.WriteFile(d.image, nil, 0o600), os.Truncate(d.image, 300<<20))
	if err == nil {
		_, err = exec.Command("mkfs."+kind, append(mkfs, d.image)...).Output()
	}
	if err == nil {
		err = mountImage(t, d.image, d.mount, options)
	}
	if err != nil {
		missing(err)
	}
	return d
}

// mountImage mounts an image, until the test ends.
func mountImage(t *testing.T, image, at, options string) error {
	t.Helper()
	if err := os.Mkdir(at, 0o700); err != nil {
		return err
	}
	// The kernel frees the loop device with the mount.
	if _, err := exec.Command("mount", "-o", "loop,"+options, image, at).Output(); err != nil {
		return err
	}
	t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
	return nil
}

// cut mounts what the device has, as the boot after a power cut does, and calls read with the mounted copy.
func (d disk) cut(t *testing.T, options string, read func(root string)) {
	t.Helper()
	copied, at := d.image+".cut", d.mount+".cut"
	if out, err := exec.Command("cp", "--sparse=always", d.image, copied).CombinedOutput(); err != nil {
		t.Fatalf("copying the image: %v: %s", err, out)
	}
	if err := mountImage(t, copied, at, options); err != nil {
		t.Fatal(err)
	}
	read(at)
	if err := errors.Join(unix.Unmount(at, 0), os.Remove(at), os.Remove(copied)); err != nil {
		t.Fatal(err)
	}
}

// state is what a driver finds in its state directory.
type state struct {
	// Made are the directory itself and those in it.
	Made    []string
	Records []checkpoint.Record
	Pending []checkpoint.PendingDEL
	Holder  succession.Record
	Owner   string
}

// madeIn returns a state directory and those in it, by their paths from root.
func madeIn(t *testing.T, root, dir string) (out []string) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(root, dir), func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return err
		}
		path, err = filepath.Rel(root, path)
		out = append(out, path)
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return out
}

// stateIn returns what a driver finds in a state directory, a path from root. A damaged file fails the test.
func stateIn(t *testing.T, root, dir string) (out state) {
	t.Helper()
	out.Made = madeIn(t, root, dir)
	dir = filepath.Join(root, dir)
	store, damaged, err := drivertest.OpenStore(dir, "boot-1")
	if err != nil || len(damaged) > 0 {
		t.Fatal(err, damaged)
	}
	out.Records, out.Pending = store.All(), store.PendingDELs()
	if out.Holder, err = succession.ReadRecord(dir); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "owner")); err == nil {
		out.Owner = string(text)
	}
	return out
}

// TestPowerCut cuts the power after each step of the life of a state directory. The next boot finds what the
// step has promised: no record, pending DEL, holder and owner is lost, torn or back again.
func TestPowerCut(t *testing.T) {
	for _, tt := range []struct {
		name, options, cutOptions string
		mkfs                      []string
	}{
		{"ext4", "commit=300", "commit=300", []string{"-q", "-F"}}, // otherwise the kernel writes what is 5 s old
		{"xfs", "noatime", "nouuid", []string{"-q"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			disk := newDisk(t, tt.name, tt.options, tt.mkfs...)
			dir := filepath.Join("var", "lib", "nadra")
			live := filepath.Join(disk.mount, dir)
			want := state{}
			var store *checkpoint.Store
			var keys []checkpoint.Key
			for _, step := range powerCutSteps(t, live, &want, &keys) {
				if store != nil {
					store.WaitSynced() // so that nothing but the step itself gets its changes to the disk
				}
				after, err := step.do(store)
				if err != nil {
					t.Fatalf("%s: %v", step.name, err)
				}
				store = after
				if step.soon {
					store.WaitSynced()
				}
				if store != nil {
					want.Records, want.Pending = store.All(), store.PendingDELs()
				}
				want.Made = madeIn(t, disk.mount, dir)
				disk.cut(t, tt.cutOptions, func(root string) {
					drivertest.Same(t, "after a power cut after: "+step.name, want, stateIn(t, root, dir))
				})
			}
			if store == nil || len(want.Records) == 0 || len(want.Pending) == 0 || len(want.Holder.Superseded) == 0 || want.Owner == "" {
				t.Errorf("the steps left out something: %+v", want)
			}
		})
	}
}

// powerCutStep is a step in the life of a state directory.
type powerCutStep struct {
	name string
	// soon is true if the change is on disk soon after the step has returned.
	soon bool
	do   func(*checkpoint.Store) (*checkpoint.Store, error)
}

// powerCutSteps returns the life of a state directory with several pods. The steps set what is in want of the
// holder and the owner.
func powerCutSteps(t *testing.T, dir string, want *state, keys *[]checkpoint.Key) []powerCutStep {
	t.Helper()
	at := time.Unix(1700000000, 0).UTC()
	node := newOwner(nodeClient(t), "node-1", dir, byLabel, false)
	node.seen.Store(true)
	owned := func(owned bool) error {
		node.labelled.Store(owned)
		node.remember(t.Context())
		want.Owner = *node.before.Load()
		return nil
	}
	held := func(by succession.Driver, asked bool) error {
		want.Holder = want.Holder.TakenBy(by, asked, at)
		return want.Holder.Write(dir)
	}
	sandbox := func(pod string) attachment.Sandbox {
		s := drivertest.SandboxNo(1)
		s.ID, s.Pod = "sandbox-of-"+pod, podRef(pod)
		return s
	}
	step := func(name string, soon bool, do func(*checkpoint.Store) error) powerCutStep {
		return powerCutStep{name, soon, func(s *checkpoint.Store) (*checkpoint.Store, error) { return s, do(s) }}
	}
	attaching := func(pod string) powerCutStep {
		return step("attaching pod "+pod, false, func(s *checkpoint.Store) error {
			return s.MarkAttaching(keysOf(s, pod), sandbox(pod), nil)
		})
	}
	attached := func(pod string) powerCutStep {
		return step("attached pod "+pod, true, func(s *checkpoint.Store) error {
			var added []checkpoint.Added
			for _, k := range keysOf(s, pod) {
				added = append(added, checkpoint.Added{Key: k, Result: []byte(`{"cniVersion":"1.0.0"}`)})
			}
			return s.MarkAttached(added...)
		})
	}
	return []powerCutStep{
		step("locking", false, func(*checkpoint.Store) error {
			lock, err := succession.TryLock(dir)
			if err == nil {
				lock.Release()
			}
			return err
		}),
		step("the first holder", false, func(*checkpoint.Store) error { return held(succession.Driver{PodUID: "first"}, false) }),
		{"opening", false, func(*checkpoint.Store) (*checkpoint.Store, error) {
			s, _, err := drivertest.OpenStore(dir, "boot-1")
			return s, err
		}},
		step("the owner", false, func(*checkpoint.Store) error { return owned(true) }),
		step("preparing pod a", false, func(s *checkpoint.Store) error { return s.Put(preparedNamed("a", "net1", "net2")) }),
		step("preparing pod b", false, func(s *checkpoint.Store) error { return s.Put(preparedNamed("b", "net1")) }),
		attaching("a"), attached("a"), attaching("b"),
		step("a pod without a claim", false, func(s *checkpoint.Store) error {
			of := preparedNamed("c", "net1")
			of[0].Claim = attachment.ClaimRef{}
			return s.PutUnclaimed(of, sandbox("c"))
		}),
		attaching("c"), attached("c"),
		step("a DEL of Multus is pending", false, func(s *checkpoint.Store) error {
			_, err := checkpoint.NewAdoptions(s).AdoptDELs([]checkpoint.Adopted{{Prepared: preparedNamed("m", "net1")[0]}}, sandbox("m"), "its sandbox is gone")
			return err
		}),
		step("the DEL of pod a is pending", true, func(s *checkpoint.Store) error {
			return s.DeferDEL(keysOf(s, "a")[0], errors.New("the plugin fails"))
		}),
		step("the DEL of pod b is pending", true, func(s *checkpoint.Store) error {
			return s.DeferDEL(keysOf(s, "b")[0], errors.New("the plugin fails"))
		}),
		step("forgetting pod b", false, func(s *checkpoint.Store) error {
			return s.DeleteClaim("b-claim-uid", s.ForClaim("b-claim-uid")[0].Pod.UID)
		}),
		step("a pending DEL has succeeded", false, func(s *checkpoint.Store) error { return s.ResolveDEL(s.PendingDELs()[0]) }),
		step("detaching pod c", true, func(s *checkpoint.Store) error { return s.MarkDetached(keysOf(s, "c")...) }),
		step("forgetting pod c", false, func(s *checkpoint.Store) error { return s.DeleteClaim("c-uid", "c-uid") }),
		step("the next holder", false, func(*checkpoint.Store) error { return held(succession.Driver{PodUID: "second"}, true) }),
		step("another owner", false, func(*checkpoint.Store) error { return owned(false) }),
		step("the first owner", false, func(*checkpoint.Store) error { return owned(true) }),
		step("preparing a device", false, func(s *checkpoint.Store) error {
			of := preparedNamed("d", "net1")
			of[0].DeviceOnly, of[0].Hardware = true, &attachment.Hardware{}
			return s.Put(of)
		}),
		step("its use", false, func(s *checkpoint.Store) error { return s.MarkDeviceInUse(keysOf(s, "d"), sandbox("d")) }),
		step("a network of a running pod", false, func(s *checkpoint.Store) error {
			of := preparedNamed("e", "net7")
			of[0].Claim = attachment.ClaimRef{}
			_, err := checkpoint.NewEdits(s).AddLive(of[0], sandbox("e"))
			return err
		}),
		attaching("e"),
	}
}

// podRef returns the reference of a pod.
func podRef(name string) attachment.PodRef {
	return attachment.PodRef{Namespace: "default", Name: name, UID: name + "-uid"}
}

// preparedNamed returns the attachments of the one claim of a pod.
func preparedNamed(pod string, interfaces ...string) (out []attachment.Prepared) {
	for i, name := range interfaces {
		out = append(out, attachment.Prepared{
			Claim: attachment.ClaimRef{Namespace: "default", Name: pod + "-claim", UID: pod + "-claim-uid"}, Pod: podRef(pod),
			Request: name, Pool: "node-1/networks", Device: "blue", Index: i,
			Attachment: attachment.Attachment{
				Network: attachment.NetworkRef{Namespace: "default", Name: "blue"}, Interface: name, CNIName: "blue", Conflist: []byte(blueConf),
			},
		})
	}
	return out
}

// keysOf returns the keys of a pod's records.
func keysOf(s *checkpoint.Store, pod string) (out []checkpoint.Key) {
	for _, r := range s.ForPod(pod + "-uid") {
		out = append(out, r.Key())
	}
	return out
}
