package attach

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nadra-dev/nadra/internal/metrics"
	"github.com/nadra-dev/nadra/internal/podnet"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/operations"
	"github.com/nadra-dev/nadra/test/drivertest"
)

// newAttacher returns an attacher with an empty store, and its plugins.
func newAttacher(t *testing.T) (*Attacher, *drivertest.Kernel) {
	t.Helper()
	store, _, err := drivertest.OpenStore(t.TempDir(), "boot-1")
	if err != nil {
		t.Fatal(err)
	}
	k := drivertest.NewKernel()
	limits := operations.Limits{Add: 30 * time.Second, Del: 10 * time.Second}
	group := operations.New(t.Context(), k, limits)
	a := New(Options{
		Store: store, Renew: func(a attachment.Attachment) (attachment.Attachment, error) { return a, nil }, Plugins: k, Operations: group, Netns: k, RestoreDevice: func(attachment.Hardware) error { return nil }, ForgetDefaultRoutes: k.ForgetDefaultRoutes,
		Limits: limits, Metrics: metrics.NewNode(),
		Deferred: func(r checkpoint.Record, _ error) { _ = k.Record("DEFERRED", *r.Sandbox, r.Attachment) },
		Added:    func(attachment.Sandbox, []checkpoint.Record, time.Time, bool) {},
	})
	t.Cleanup(a.PendingDELs.ShutDown)
	return a, k
}

// attachOnce attaches, and fails the test if a try is repeated.
func attachOnce(t *testing.T, a *Attacher, s attachment.Sandbox) error {
	t.Helper()
	return attachOnceIn(t.Context(), t, a, s)
}

func attachOnceIn(ctx context.Context, t *testing.T, a *Attacher, s attachment.Sandbox) error {
	t.Helper()
	return a.Attach(ctx, s, drivertest.Once(t))
}

func TestAttachInOrderAndDetachInReverse(t *testing.T) {
	a, k := newAttacher(t)
	drivertest.PrepareWeb(t, a.Store, []string{"net1", "net2"}, []string{"net3"})
	if err := attachOnce(t, a, drivertest.SandboxNo(1)); err != nil {
		t.Fatal(err)
	}
	if err := attachOnce(t, a, drivertest.SandboxNo(1)); err != nil {
		t.Fatalf("a repeated hook: %v", err)
	}
	all := func(checkpoint.Record) bool { return true }
	if err := a.Detach(t.Context(), drivertest.Web.UID, all); err != nil {
		t.Fatal(err)
	}
	if err := a.Detach(t.Context(), drivertest.Web.UID, all); err != nil {
		t.Fatalf("a repeated stop: %v", err)
	}
	want := []string{
		`ADD net1 in sandbox-1 netns "/run/netns/1"`, `ADD net2 in sandbox-1 netns "/run/netns/1"`, `ADD net3 in sandbox-1 netns "/run/netns/1"`,
		`DEL net3 in sandbox-1 netns "/run/netns/1"`, `DEL net2 in sandbox-1 netns "/run/netns/1"`, `DEL net1 in sandbox-1 netns "/run/netns/1"`,
	}
	if diff := cmp.Diff(want, k.Calls); diff != "" {
		t.Errorf("plugins (-want +got):\n%s", diff)
	}
	if len(k.Has) > 0 {
		t.Errorf("left over: %v", k.Has)
	}
}

// TestRecordHasThePlugins checks that the record of an attachment names what ran, and forgets it with the attachment.
func TestRecordHasThePlugins(t *testing.T) {
	a, _ := newAttacher(t)
	drivertest.PrepareWeb(t, a.Store, []string{"net1"})
	if err := attachOnce(t, a, drivertest.SandboxNo(1)); err != nil {
		t.Fatal(err)
	}
	if got := a.Store.ForPod(drivertest.Web.UID)[0].Plugins; len(got) != 1 || got[0] != "/opt/cni/bin/plugin@sha256:0" {
		t.Errorf("attached: %q", got)
	}
	if err := a.Detach(t.Context(), drivertest.Web.UID, func(checkpoint.Record) bool { return true }); err != nil {
		t.Fatal(err)
	}
	if got := a.Store.ForPod(drivertest.Web.UID)[0].Plugins; got != nil {
		t.Errorf("detached: %q", got)
	}
}

// TestAttachAwaitsTheInterfaceInThePod checks a network on an interface that another driver moves into the pod, by its
// own hook at the same time.
func TestAttachAwaitsTheInterfaceInThePod(t *testing.T) {
	for name, tt := range map[string]struct{ comes, another bool }{
		"it comes late": {true, false}, "it never comes": {false, false}, "with one that has a network's name": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			comes := tt.comes
			a, k := newAttacher(t)
			drivertest.PrepareWeb(t, a.Store, []string{"net1", "net2"})
			a.Renew = func(at attachment.Attachment) (attachment.Attachment, error) {
				if at.Interface == "net2" {
					at.On = &attachment.OtherDriverDevice{Driver: "nic.example.com", Pool: "node-1", Device: "nic-0", Interface: "eth7"}
					at.Conflist = []byte(`{"cniVersion":"1.0.0","name":"inner","plugins":[{"type":"macvlan","linkInContainer":true,"master":"eth7"}]}`)
				}
				return at, nil
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			looks := 0
			k.Namespace = func(netns string) (podnet.Namespace, error) {
				looks++
				drivertest.Same(t, "plugins before the interface is there", 0, len(k.Calls))
				for _, r := range a.Store.All() {
					drivertest.Same(t, "phase", checkpoint.Prepared, r.Phase)
				}
				links := []string{"lo", "eth0"}
				if looks == 3 {
					return podnet.Namespace{}, errors.New("the dump was interrupted")
				}
				if looks == 5 && tt.another {
					links = append(links, "net1")
				}
				if looks == 5 && comes {
					links = append(links, "eth7")
				} else if looks == 5 {
					cancel(errors.New("the sandbox stops"))
				}
				return podnet.Namespace{Cookie: drivertest.CookieOf(netns), Links: links}, nil
			}
			err := attachOnceIn(ctx, t, a, drivertest.SandboxNo(1))
			if tt.another {
				drivertest.WantReason(t, err, reason.InterfaceExists, "net1")
				drivertest.Same(t, "plugins", 0, len(k.Calls))
				return
			}
			if comes {
				drivertest.Same(t, "plugins", `ADD net1 in sandbox-1 netns "/run/netns/1"; ADD net2 in sandbox-1 netns "/run/netns/1"`, strings.Join(k.Calls, "; "))
				if err != nil {
					t.Error(err)
				}
				return
			}
			drivertest.WantReason(t, err, reason.DeviceNotInPod, "network default/blue as net2", "nic.example.com", "nic-0", "eth7", "name in the pod: the sandbox stops")
			drivertest.Same(t, "plugins", 0, len(k.Calls))
			failed, _ := FailedIn(err)
			drivertest.Same(t, "the network of the failure", "net2", failed.Interface)
		})
	}
}

// TestAddedIsToldOfEachNetwork checks that the results so far are known before the next ADD begins.
func TestAddedIsToldOfEachNetwork(t *testing.T) {
	a, k := newAttacher(t)
	drivertest.PrepareWeb(t, a.Store, []string{"net1", "net2"})
	began := time.Now()
	a.Added = func(s attachment.Sandbox, records []checkpoint.Record, allocated time.Time, more bool) {
		newest := records[len(records)-1]
		if len(newest.Result) == 0 || allocated.Before(began) || s.Cookie == 0 {
			t.Errorf("told of %+v in sandbox %+v, allocated at %s", newest, s, allocated)
		}
		_ = k.Record(fmt.Sprintf("TOLD of %d, more=%t:", len(records), more), s, newest.Attachment)
	}
	if err := attachOnce(t, a, drivertest.SandboxNo(1)); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`ADD net1 in sandbox-1 netns "/run/netns/1"`, `TOLD of 1, more=true: net1 in sandbox-1 netns "/run/netns/1"`,
		`ADD net2 in sandbox-1 netns "/run/netns/1"`, `TOLD of 2, more=false: net2 in sandbox-1 netns "/run/netns/1"`,
	}
	if diff := cmp.Diff(want, k.Calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// TestRolledBackOnAFullDisk checks that a rolled back attachment does not count as
// attached for the next try, in the same process or the next one, even if the disk was
// full.
func TestRolledBackOnAFullDisk(t *testing.T) {
	a, k := newAttacher(t)
	drivertest.PrepareWeb(t, a.Store, []string{"net1", "net2"})
	dir := a.Store.Dir()
	full := dir + ".full"
	k.Fail("ADD net2", drivertest.Final("no"))
	k.Deleted = func() { _ = os.Rename(dir, full) } // nothing can be written from here on
	if err := attachOnce(t, a, drivertest.SandboxNo(1)); err == nil {
		t.Fatal("it does not fail")
	}
	if err := os.Rename(full, dir); err != nil {
		t.Fatal(err)
	}
	k.Deleted = nil
	a.Store.WaitSynced()
	reopened, _, err := drivertest.OpenStore(filepath.Dir(dir), "boot-1")
	if err != nil {
		t.Fatal(err)
	}
	for name, store := range map[string]*checkpoint.Store{"the same process": a.Store, "the next process": reopened} {
		for _, r := range store.ForPod(drivertest.Web.UID) {
			if r.Phase == checkpoint.Attached {
				t.Errorf("%s takes %s for attached", name, r.Attachment.Interface)
			}
		}
	}
	k.Fail("ADD net2", nil)
	if err := attachOnce(t, a, drivertest.SandboxNo(1)); err != nil {
		t.Fatal(err)
	}
	if !k.Has["sandbox-1/net1"] || !k.Has["sandbox-1/net2"] {
		t.Errorf("attached without an error, with interfaces %v only", k.Has)
	}
}

// wantBlamed fails the test unless ErrorOf returns the pod's error for the network of one
// interface, and for the others an error that names this network and has the same cause.
func wantBlamed(t *testing.T, store *checkpoint.Store, err error, ifName string) {
	t.Helper()
	others := 0
	for _, r := range store.ForPod(drivertest.Web.UID) {
		got := ErrorOf(r, err)
		if r.Attachment.Interface == ifName {
			drivertest.Same(t, "the error of "+ifName, err.Error(), got.Error())
			continue
		}
		others++
		drivertest.WantReason(t, got, reason.OtherNetworkFailed, "network default/blue as "+ifName+" ")
		if cause := reason.Cause(got.Error()); cause == "" || cause != reason.Cause(err.Error()) {
			t.Errorf("cause %q, want %q: %v", cause, reason.Cause(err.Error()), got)
		}
	}
	if others == 0 {
		t.Error("the pod has no other network")
	}
}

// TestErrorOfThePod checks that a failure of the whole pod is the failure of each network.
func TestErrorOfThePod(t *testing.T) {
	a, k := newAttacher(t)
	drivertest.PrepareWeb(t, a.Store, []string{"net1", "net2"})
	s := drivertest.SandboxNo(1)
	s.NetNS = ""
	err := attachOnce(t, a, s)
	for _, r := range a.Store.ForPod(drivertest.Web.UID) {
		drivertest.WantReason(t, ErrorOf(r, err), reason.HostNetwork)
	}
	if len(k.Calls) > 0 {
		t.Errorf("plugins %v", k.Calls)
	}
}

func TestFailedAddIsRolledBack(t *testing.T) {
	a, k := newAttacher(t)
	drivertest.PrepareWeb(t, a.Store, []string{"net1", "net2", "net3"})
	k.Failures["ADD net2"] = drivertest.Final("no free address")
	err := attachOnce(t, a, drivertest.SandboxNo(1))
	drivertest.WantReason(t, err, reason.PluginFailed, "network default/blue as net2: ", "no free address")
	wantBlamed(t, a.Store, err, "net2")
	want := []string{
		`ADD net1 in sandbox-1 netns "/run/netns/1"`, `ADD net2 in sandbox-1 netns "/run/netns/1"`,
		`DEL net2 in sandbox-1 netns "/run/netns/1"`, `DEL net1 in sandbox-1 netns "/run/netns/1"`,
	}
	if diff := cmp.Diff(want, k.Calls); diff != "" {
		t.Errorf("plugins (-want +got):\n%s", diff)
	}
	for ifName, phase := range drivertest.Phases(a.Store) {
		if phase != checkpoint.Prepared {
			t.Errorf("%s is %s", ifName, phase)
		}
	}
	delete(k.Failures, "ADD net2")
	if err := attachOnce(t, a, drivertest.SandboxNo(2)); err != nil {
		t.Errorf("the kubelet's next sandbox: %v", err)
	}
}

// TestRollbackHasItsOwnTime checks that the rollback runs after the hook's deadline.
func TestRollbackHasItsOwnTime(t *testing.T) {
	a, k := newAttacher(t)
	drivertest.PrepareWeb(t, a.Store, []string{"net1"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.Attach(ctx, drivertest.SandboxNo(1), func(_ error, passing bool) bool { return passing }); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if diff := cmp.Diff([]string{`DEL net1 in sandbox-1 netns "/run/netns/1"`}, k.Calls); diff != "" {
		t.Errorf("plugins (-want +got):\n%s", diff)
	}
}

// TestStopBeginsNoRollback checks that no DEL begins when the driver stops: one that hangs would leave the node
// without a driver. The next driver's try begins with it.
func TestStopBeginsNoRollback(t *testing.T) {
	a, k := newAttacher(t)
	drivertest.PrepareWeb(t, a.Store, []string{"net1", "net2"})
	k.Fail("ADD net2", drivertest.Final("no"))
	a.Added = func(attachment.Sandbox, []checkpoint.Record, time.Time, bool) {
		a.Operations.Cancel(errors.New("the driver was stopped"))
	}
	err := attachOnce(t, a, drivertest.SandboxNo(1))
	drivertest.WantReason(t, err, reason.PluginFailed, reason.DELUnfinished.Text(""))
	a.Operations = operations.New(t.Context(), k, a.Limits)
	k.Fail("ADD net2", nil)
	a.Added = func(attachment.Sandbox, []checkpoint.Record, time.Time, bool) {}
	if err := attachOnce(t, a, drivertest.SandboxNo(1)); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`ADD net1 in sandbox-1 netns "/run/netns/1"`, `ADD net2 in sandbox-1 netns "/run/netns/1"`,
		`DEL net2 in sandbox-1 netns "/run/netns/1"`, `DEL net1 in sandbox-1 netns "/run/netns/1"`,
		`ADD net1 in sandbox-1 netns "/run/netns/1"`, `ADD net2 in sandbox-1 netns "/run/netns/1"`,
	}
	if diff := cmp.Diff(want, k.Calls); diff != "" {
		t.Errorf("plugins (-want +got):\n%s", diff)
	}
}

// TestFailedDelStaysInItsRecord checks that a DEL which has failed is run before the pod's next
// sandbox is attached.
func TestFailedDelStaysInItsRecord(t *testing.T) {
	a, k := newAttacher(t)
	drivertest.PrepareWeb(t, a.Store, []string{"net1", "net2"})
	if err := attachOnce(t, a, drivertest.SandboxNo(1)); err != nil {
		t.Fatal(err)
	}
	k.Failures["DEL net2"] = errors.New("daemon is down")
	err := a.Detach(t.Context(), drivertest.Web.UID, func(checkpoint.Record) bool { return true })
	drivertest.WantReason(t, err, reason.DELFailed, "network default/blue from net2: ", "daemon is down")
	want := map[string]checkpoint.Phase{"net1": checkpoint.Prepared, "net2": checkpoint.Attached}
	if diff := cmp.Diff(want, drivertest.Phases(a.Store)); diff != "" {
		t.Errorf("phases (-want +got):\n%s", diff)
	}
	// A new sandbox of the pod first needs the old one's DEL.
	k.Calls = nil
	err = a.Attach(t.Context(), drivertest.SandboxNo(2), func(err error, passing bool) bool {
		drivertest.WantReason(t, err, reason.PendingDEL, "network default/blue from net2: ", "daemon is down")
		delete(k.Failures, "DEL net2")
		return passing
	})
	if err != nil {
		t.Fatal(err)
	}
	if first := k.Calls[1]; first != `DEL net2 in sandbox-1 netns "/run/netns/1"` {
		t.Errorf("first call %s", first)
	}
}

// TestDelAfterARebootHasNoNamespace checks that a DEL after a reboot does not use the old
// path, which may be another pod's namespace.
func TestDelAfterARebootHasNoNamespace(t *testing.T) {
	dir := t.TempDir()
	before, _, err := drivertest.OpenStore(dir, "boot-1")
	if err != nil {
		t.Fatal(err)
	}
	a, _ := newAttacher(t)
	a.Store = before
	drivertest.PrepareWeb(t, before, []string{"net1"})
	if err := attachOnce(t, a, drivertest.SandboxNo(1)); err != nil {
		t.Fatal(err)
	}
	a, k := newAttacher(t)
	if a.Store, _, err = drivertest.OpenStore(dir, "boot-2"); err != nil {
		t.Fatal(err)
	}
	if err := attachOnce(t, a, drivertest.SandboxNo(2)); err != nil {
		t.Fatal(err)
	}
	want := []string{`DEL net1 in sandbox-1 netns ""`, `ADD net1 in sandbox-2 netns "/run/netns/2"`}
	if diff := cmp.Diff(want, k.Calls); diff != "" {
		t.Errorf("plugins (-want +got):\n%s", diff)
	}
}

// TestInterruptedTryIsDeletedFirst checks a driver that died within an ADD: the next try
// in the same sandbox begins with its DEL.
func TestInterruptedTryIsDeletedFirst(t *testing.T) {
	a, k := newAttacher(t)
	drivertest.PrepareWeb(t, a.Store, []string{"net1", "net2"})
	cutOff := drivertest.SandboxNo(1)
	cutOff.Cookie = drivertest.CookieOf(cutOff.NetNS)
	if err := a.Store.MarkAttaching(checkpoint.Keys(a.Store.All()), cutOff, nil); err != nil {
		t.Fatal(err)
	}
	if err := attachOnce(t, a, drivertest.SandboxNo(1)); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`DEL net2 in sandbox-1 netns "/run/netns/1"`, `DEL net1 in sandbox-1 netns "/run/netns/1"`,
		`ADD net1 in sandbox-1 netns "/run/netns/1"`, `ADD net2 in sandbox-1 netns "/run/netns/1"`,
	}
	if diff := cmp.Diff(want, k.Calls); diff != "" {
		t.Errorf("plugins (-want +got):\n%s", diff)
	}
}

func TestHostNetworkPodIsRefused(t *testing.T) {
	a, k := newAttacher(t)
	drivertest.PrepareWeb(t, a.Store, []string{"net1"})
	s := drivertest.SandboxNo(1)
	s.NetNS = ""
	err := attachOnce(t, a, s)
	drivertest.WantReason(t, err, reason.HostNetwork, "pod default/web ", "claim claim-0")
	if len(k.Calls) > 0 || drivertest.Phases(a.Store)["net1"] != checkpoint.Prepared {
		t.Errorf("plugins %v, phases %v", k.Calls, drivertest.Phases(a.Store))
	}
}

// TestTakenInterfaceNameIsRefusedBeforeAnyPlugin checks that neither ADD nor DEL changes
// an interface that is not nadra's.
func TestTakenInterfaceNameIsRefusedBeforeAnyPlugin(t *testing.T) {
	a, k := newAttacher(t)
	drivertest.PrepareWeb(t, a.Store, []string{"net1", "eth0"})
	err := attachOnce(t, a, drivertest.SandboxNo(1))
	drivertest.WantReason(t, err, reason.InterfaceExists, "network default/blue as eth0")
	wantBlamed(t, a.Store, err, "eth0")
	if len(k.Calls) > 0 || drivertest.Phases(a.Store)["eth0"] != checkpoint.Prepared {
		t.Errorf("plugins %v, phases %v", k.Calls, drivertest.Phases(a.Store))
	}
}

// TestInterfaceOfAPendingDEL attaches while an earlier try has left the interface: the error
// has the cause of the pending DEL, because choosing another name would not help.
func TestInterfaceOfAPendingDEL(t *testing.T) {
	a, k := newAttacher(t)
	drivertest.PrepareWeb(t, a.Store, []string{"eth0"}) // every namespace has one
	key := a.Store.All()[0].Key()
	if err := a.Store.MarkAttaching([]checkpoint.Key{key}, drivertest.SandboxNo(1), nil); err != nil {
		t.Fatal(err)
	}
	if err := a.Store.DeferDEL(key, errors.New("no iptables")); err != nil {
		t.Fatal(err)
	}
	err := attachOnce(t, a, drivertest.SandboxNo(1))
	drivertest.WantReason(t, err, reason.PendingDEL, "network default/blue as eth0", "no iptables")
	if len(k.Calls) > 0 {
		t.Errorf("plugins %v", k.Calls)
	}
}

// TestDeviceThatIsNotRestored checks that a function whose settings before the pod could not be restored stays the
// pod's, until they are.
func TestDeviceThatIsNotRestored(t *testing.T) {
	a, _ := newAttacher(t)
	fails := errors.New("the card does not answer")
	a.RestoreDevice = func(attachment.Hardware) error { return fails }
	p := attachment.Prepared{
		Claim: attachment.ClaimRef{Namespace: "default", Name: "c", UID: "c-uid"}, Pod: drivertest.Web, Request: "vf", Pool: "p", Device: "d",
		Attachment: attachment.Attachment{Interface: "net1"}, Hardware: &attachment.Hardware{ID: "0000:3b:02.0"},
	}
	if err := a.Store.Put([]attachment.Prepared{p}); err != nil {
		t.Fatal(err)
	}
	if err := attachOnce(t, a, drivertest.SandboxNo(1)); err != nil {
		t.Fatal(err)
	}
	all := func(checkpoint.Record) bool { return true }
	if err := a.Detach(t.Context(), drivertest.Web.UID, all); !errors.Is(err, fails) || !a.Store.All()[0].NeedsDEL() {
		t.Errorf("detaching: %v, the record is %s", err, a.Store.All()[0].Phase)
	}
	fails = nil
	if err := a.Detach(t.Context(), drivertest.Web.UID, all); err != nil || a.Store.All()[0].NeedsDEL() {
		t.Errorf("detaching when the card answers: %v, the record is %s", err, a.Store.All()[0].Phase)
	}
}

// TestAttachedBeforeTheBoot checks that what was attached before the node was rebooted is not there, also if a runtime
// uses the sandbox's ID again.
func TestAttachedBeforeTheBoot(t *testing.T) {
	a, _ := newAttacher(t)
	drivertest.PrepareWeb(t, a.Store, []string{"net1"})
	if err := attachOnce(t, a, drivertest.SandboxNo(1)); err != nil {
		t.Fatal(err)
	}
	missing := a.Missing(drivertest.SandboxNo(1))
	if missing(a.Store.All()[0]) {
		t.Error("it is missing in its own boot")
	}
	var err error
	if a.Store, _, err = drivertest.OpenStore(filepath.Dir(a.Store.Dir()), "boot-2"); err != nil {
		t.Fatal(err)
	}
	if !missing(a.Store.All()[0]) {
		t.Error("it is there after a reboot")
	}
}

// inBoot returns an attacher with the records of earlier boots.
func inBoot(t *testing.T, dir, bootID string) *Attacher {
	t.Helper()
	a, _ := newAttacher(t)
	store, damaged, err := drivertest.OpenStore(dir, bootID)
	if err != nil || len(damaged) > 0 {
		t.Fatal(err, damaged)
	}
	a.Store = store
	t.Cleanup(store.WaitSynced)
	return a
}

// TestDeviceOfAPodBeforeAReboot checks that a device without a network is recorded as used by the sandbox of this
// boot: otherwise it would count as free while the pod runs.
func TestDeviceOfAPodBeforeAReboot(t *testing.T) {
	dir := t.TempDir()
	a := inBoot(t, dir, "boot-1")
	device := attachment.Prepared{Claim: attachment.ClaimRef{UID: "claim"}, Pod: drivertest.Web, DeviceOnly: true, Hardware: &attachment.Hardware{ID: "vf"}}
	if err := a.Store.Put([]attachment.Prepared{device}); err != nil {
		t.Fatal(err)
	}
	for _, bootID := range []string{"boot-1", "boot-2"} {
		a = inBoot(t, dir, bootID)
		if err := attachOnce(t, a, drivertest.SandboxNo(1)); err != nil {
			t.Fatal(err)
		}
		if r := a.Store.All()[0]; r.BootID != bootID || !a.SandboxAlive(r) {
			t.Errorf("after %s: the sandbox is of boot %q, alive=%t", bootID, r.BootID, a.SandboxAlive(r))
		}
		a.Store.WaitSynced()
	}
}

// TestSandboxAliveDespiteAnError checks that the cookie decides about a sandbox whose namespace cannot be read as a whole, as
// one whose pod changes its interfaces all the time. Without the cookie the sandbox counts as alive.
func TestSandboxAliveDespiteAnError(t *testing.T) {
	a, k := newAttacher(t)
	sandbox := drivertest.SandboxNo(1)
	sandbox.Cookie = 7
	r := checkpoint.Record{Phase: checkpoint.Attached, Sandbox: &sandbox, BootID: a.Store.BootID()}
	for cookie, want := range map[uint64]bool{7: true, 8: false, 0: true} {
		k.Namespace = func(string) (podnet.Namespace, error) {
			return podnet.Namespace{Cookie: cookie}, errors.New("the list was interrupted")
		}
		if got := a.SandboxAlive(r); got != want {
			t.Errorf("cookie %d: alive %t", cookie, got)
		}
	}
}
