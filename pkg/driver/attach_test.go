package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/google/go-cmp/cmp"

	"github.com/nadra-dev/nadra/internal/metrics"
	"github.com/nadra-dev/nadra/internal/podns"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/cniexec"
)

// kernel stands in for plugins and the network namespaces that they change: it
// has the interfaces that ADD made and DEL has not removed.
type kernel struct {
	mu    sync.Mutex
	has   map[string]bool // "sandbox/interface"
	calls []string
	fail  map[string]error // by "ADD net1", "DEL net1"
	slow  func(context.Context) error
	info  json.RawMessage
	// routes are the pod's default routes; added is told of each ADD, and
	// rerouting may fail a change of them.
	routes    []checkpoint.Route
	added     func(iface string)
	deleted   func()
	rerouting func(give []checkpoint.Route) error
	checked   []string // the results that CHECK was given
	// gone are the network namespaces that are not there any more.
	gone map[string]bool
	// orphans are in the CNI cache, and no DEL of theirs succeeds.
	orphans []cniexec.Orphan
}

func (k *kernel) do(verb string, s attachment.Sandbox, a attachment.Attachment) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.calls = append(k.calls, fmt.Sprintf("%s %s in %s netns %q", verb, a.Interface, s.ID, s.NetNS))
	return k.fail[verb+" "+a.Interface]
}

func (k *kernel) Add(ctx context.Context, s attachment.Sandbox, a attachment.Attachment, before func() error) (*types100.Result, error) {
	if before != nil {
		if err := before(); err != nil {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	err := k.do("ADD", s, a)
	k.set(s.ID+"/"+a.Interface, true) // also a failing plugin may leave something
	if err == nil && k.slow != nil {
		err = k.slow(ctx)
	}
	if err != nil {
		return nil, err
	}
	if k.added != nil {
		k.added(a.Interface)
	}
	_, ip, _ := net.ParseCIDR("10.1.0.5/24")
	return &types100.Result{CNIVersion: "1.1.0", IPs: []*types100.IPConfig{{Address: *ip}}}, nil
}

func (k *kernel) Del(ctx context.Context, s attachment.Sandbox, a attachment.Attachment, _ json.RawMessage) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := k.do("DEL", s, a); err != nil {
		return err
	}
	k.set(s.ID+"/"+a.Interface, false)
	if k.deleted != nil {
		k.deleted()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.routes = slices.DeleteFunc(k.routes, func(r checkpoint.Route) bool { return through(r, a.Interface) })
	return nil
}

// fails has a plugin's verb fail from now on, or not any more (nil).
func (k *kernel) fails(verb string, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fail[verb] = err
}

// stop ends a sandbox's namespace and everything in it.
func (k *kernel) stop(s attachment.Sandbox) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.gone[s.NetNS] = true
}

func (k *kernel) set(name string, has bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.has[name] = has; !has {
		delete(k.has, name)
	}
}

func (k *kernel) Missing([]string) []string { return nil }

func (k *kernel) DeviceInfo(attachment.Sandbox, attachment.Attachment) (json.RawMessage, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.info, nil
}

func (k *kernel) DefaultRoutes(string) ([]checkpoint.Route, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.routes), nil
}

func (k *kernel) Reroute(_ string, take, give []checkpoint.Route) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.rerouting != nil {
		if err := k.rerouting(give); err != nil {
			return err
		}
	}
	k.routes = append(subtract(k.routes, take), give...)
	return nil
}

// Of the CNI cache only the sweep knows; see cniexec for the real one.
func (k *kernel) Orphans(func(string, string) bool) ([]cniexec.Orphan, error) { return k.orphans, nil }

func (k *kernel) DelOrphan(context.Context, cniexec.Orphan) error { return final("busy") }

func (k *kernel) GC(_ context.Context, conflist json.RawMessage, valid []types.GCAttachment) error {
	k.calls = append(k.calls, fmt.Sprintf("GC %s valid %v", conflist, valid))
	return nil
}

func newAttacher(t *testing.T) (*attacher, *kernel) {
	t.Helper()
	store, _, err := checkpoint.Open(t.TempDir(), "boot-1")
	if err != nil {
		t.Fatal(err)
	}
	k := &kernel{has: map[string]bool{}, fail: map[string]error{}, gone: map[string]bool{}}
	look := func(netns string) (namespace, error) {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.gone[netns] {
			return namespace{}, podns.ErrGone
		}
		return namespace{cookie: cookieOf(netns), links: []string{"lo", "eth0"}}, nil
	}
	a := &attacher{store: store, runner: k, look: look, routes: k, limits: limits{add: 30 * time.Second, del: 10 * time.Second}, metrics: metrics.NewNode()}
	a.handedOver = func(r checkpoint.Record, _ error) { _ = k.do("HANDED OVER", *r.Sandbox, r.Attachment) }
	return a, k
}

// attachOnce attaches, and fails the test when an attempt is repeated.
func (k *kernel) attachOnce(t *testing.T, a *attacher, s attachment.Sandbox) error {
	t.Helper()
	return a.attach(t.Context(), s, func(err error) { t.Errorf("tried again after: %v", err) })
}

// final is an error that a plugin reports and that does not pass.
func final(text string) error { return types.NewError(types.ErrInternal, text, "") }

func cookieOf(netns string) uint64 { return uint64(crc32.ChecksumIEEE([]byte(netns))) }

var web = attachment.PodRef{Namespace: "default", Name: "web", UID: "web-uid"}

func sandboxNo(i int) attachment.Sandbox {
	return attachment.Sandbox{ID: fmt.Sprintf("sandbox-%d", i), NetNS: fmt.Sprintf("/run/netns/%d", i), Pod: web}
}

// prepareWeb notes a claim for each group of interfaces.
func prepareWeb(t *testing.T, store *checkpoint.Store, claims ...[]string) {
	t.Helper()
	index := 0
	for c, interfaces := range claims {
		var ps []attachment.Prepared
		for _, ifName := range interfaces {
			ps = append(ps, attachment.Prepared{
				Claim: attachment.ClaimRef{Namespace: "default", Name: fmt.Sprintf("claim-%d", c), UID: fmt.Sprintf("claim-%d-uid", c)},
				Pod:   web, Request: ifName, Pool: "p", Device: "d", Index: index,
				Attachment: attachment.Attachment{
					Network: attachment.NetworkRef{Namespace: "default", Name: "blue"}, Interface: ifName,
					Conflist: json.RawMessage(`{}`),
				},
			})
			index++
		}
		if err := store.Put(ps); err != nil {
			t.Fatal(err)
		}
	}
}

func phases(store *checkpoint.Store) map[string]checkpoint.Phase {
	out := map[string]checkpoint.Phase{}
	for _, r := range store.All() {
		out[r.Attachment.Interface] = r.Phase
	}
	return out
}

func TestAttachInOrderAndDetachInReverse(t *testing.T) {
	a, k := newAttacher(t)
	prepareWeb(t, a.store, []string{"net1", "net2"}, []string{"net3"})
	if err := k.attachOnce(t, a, sandboxNo(1)); err != nil {
		t.Fatal(err)
	}
	if err := k.attachOnce(t, a, sandboxNo(1)); err != nil {
		t.Fatalf("a repeated hook: %v", err)
	}
	all := func(checkpoint.Record) bool { return true }
	if err := a.detach(t.Context(), web.UID, all); err != nil {
		t.Fatal(err)
	}
	if err := a.detach(t.Context(), web.UID, all); err != nil {
		t.Fatalf("a repeated stop: %v", err)
	}
	want := []string{
		`ADD net1 in sandbox-1 netns "/run/netns/1"`, `ADD net2 in sandbox-1 netns "/run/netns/1"`, `ADD net3 in sandbox-1 netns "/run/netns/1"`,
		`DEL net3 in sandbox-1 netns "/run/netns/1"`, `DEL net2 in sandbox-1 netns "/run/netns/1"`, `DEL net1 in sandbox-1 netns "/run/netns/1"`,
	}
	if diff := cmp.Diff(want, k.calls); diff != "" {
		t.Errorf("plugins (-want +got):\n%s", diff)
	}
	if len(k.has) > 0 {
		t.Errorf("left over: %v", k.has)
	}
}

// What was taken down is not taken for attached by the next attempt, in the same
// process or the next one, also when that could not be written any more.
func TestRolledBackOnAFullDisk(t *testing.T) {
	a, k := newAttacher(t)
	prepareWeb(t, a.store, []string{"net1", "net2"})
	dir := a.store.Dir()
	full := dir + ".full"
	k.fails("ADD net2", final("no"))
	k.deleted = func() { _ = os.Rename(dir, full) } // nothing can be written from here on
	if err := k.attachOnce(t, a, sandboxNo(1)); err == nil {
		t.Fatal("it does not fail")
	}
	if err := os.Rename(full, dir); err != nil {
		t.Fatal(err)
	}
	k.deleted = nil
	a.store.Settled()
	reopened, _, err := checkpoint.Open(filepath.Dir(dir), "boot-1")
	if err != nil {
		t.Fatal(err)
	}
	for name, store := range map[string]*checkpoint.Store{"the same process": a.store, "the next process": reopened} {
		for _, r := range store.ForPod(web.UID) {
			if r.Phase == checkpoint.Attached {
				t.Errorf("%s takes %s for attached", name, r.Attachment.Interface)
			}
		}
	}
	k.fails("ADD net2", nil)
	if err := k.attachOnce(t, a, sandboxNo(1)); err != nil {
		t.Fatal(err)
	}
	if !k.has["sandbox-1/net1"] || !k.has["sandbox-1/net2"] {
		t.Errorf("attached without an error, with interfaces %v only", k.has)
	}
}

func TestFailedAddIsRolledBack(t *testing.T) {
	a, k := newAttacher(t)
	prepareWeb(t, a.store, []string{"net1", "net2", "net3"})
	k.fail["ADD net2"] = final("no free address")
	err := k.attachOnce(t, a, sandboxNo(1))
	if err == nil || !strings.Contains(err.Error(), "adding network default/blue as net2: no free address") {
		t.Errorf("error %v", err)
	}
	want := []string{
		`ADD net1 in sandbox-1 netns "/run/netns/1"`, `ADD net2 in sandbox-1 netns "/run/netns/1"`,
		`DEL net2 in sandbox-1 netns "/run/netns/1"`, `DEL net1 in sandbox-1 netns "/run/netns/1"`,
	}
	if diff := cmp.Diff(want, k.calls); diff != "" {
		t.Errorf("plugins (-want +got):\n%s", diff)
	}
	for ifName, phase := range phases(a.store) {
		if phase != checkpoint.Prepared {
			t.Errorf("%s is %s", ifName, phase)
		}
	}
	delete(k.fail, "ADD net2")
	if err := k.attachOnce(t, a, sandboxNo(2)); err != nil {
		t.Errorf("the kubelet's next sandbox: %v", err)
	}
}

// The deadline of the hook has passed, and still what was begun is taken down.
func TestRollbackHasItsOwnTime(t *testing.T) {
	a, k := newAttacher(t)
	prepareWeb(t, a.store, []string{"net1"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.attach(ctx, sandboxNo(1), func(error) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if diff := cmp.Diff([]string{`DEL net1 in sandbox-1 netns "/run/netns/1"`}, k.calls); diff != "" {
		t.Errorf("plugins (-want +got):\n%s", diff)
	}
}

func TestFailedDelStaysOwed(t *testing.T) {
	a, k := newAttacher(t)
	prepareWeb(t, a.store, []string{"net1", "net2"})
	if err := k.attachOnce(t, a, sandboxNo(1)); err != nil {
		t.Fatal(err)
	}
	k.fail["DEL net2"] = errors.New("daemon is down")
	err := a.detach(t.Context(), web.UID, func(checkpoint.Record) bool { return true })
	if err == nil || !strings.Contains(err.Error(), "deleting network default/blue from net2: daemon is down") {
		t.Errorf("error %v", err)
	}
	want := map[string]checkpoint.Phase{"net1": checkpoint.Prepared, "net2": checkpoint.Attached}
	if diff := cmp.Diff(want, phases(a.store)); diff != "" {
		t.Errorf("phases (-want +got):\n%s", diff)
	}
	// A new sandbox of the pod first needs the old one's DEL.
	k.calls = nil
	err = a.attach(t.Context(), sandboxNo(2), func(err error) {
		if !strings.Contains(err.Error(), "clearing what was attached before: deleting network default/blue from net2: daemon is down") {
			t.Errorf("trouble: %v", err)
		}
		delete(k.fail, "DEL net2")
	})
	if err != nil {
		t.Fatal(err)
	}
	if first := k.calls[1]; first != `DEL net2 in sandbox-1 netns "/run/netns/1"` {
		t.Errorf("first call %s", first)
	}
}

// After a reboot the old path may be another pod's namespace.
func TestDelAfterARebootHasNoNamespace(t *testing.T) {
	dir := t.TempDir()
	before, _, err := checkpoint.Open(dir, "boot-1")
	if err != nil {
		t.Fatal(err)
	}
	a, k := newAttacher(t)
	a.store = before
	prepareWeb(t, before, []string{"net1"})
	if err := k.attachOnce(t, a, sandboxNo(1)); err != nil {
		t.Fatal(err)
	}
	a, k = newAttacher(t)
	if a.store, _, err = checkpoint.Open(dir, "boot-2"); err != nil {
		t.Fatal(err)
	}
	if err := k.attachOnce(t, a, sandboxNo(2)); err != nil {
		t.Fatal(err)
	}
	want := []string{`DEL net1 in sandbox-1 netns ""`, `ADD net1 in sandbox-2 netns "/run/netns/2"`}
	if diff := cmp.Diff(want, k.calls); diff != "" {
		t.Errorf("plugins (-want +got):\n%s", diff)
	}
}

// The driver died within an ADD; the same sandbox asks again.
func TestCutOffAttemptIsDeletedFirst(t *testing.T) {
	a, k := newAttacher(t)
	prepareWeb(t, a.store, []string{"net1", "net2"})
	cutOff := sandboxNo(1)
	cutOff.Cookie = cookieOf(cutOff.NetNS)
	if err := a.store.MarkAttaching(keys(a.store.All()), cutOff); err != nil {
		t.Fatal(err)
	}
	if err := k.attachOnce(t, a, sandboxNo(1)); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`DEL net2 in sandbox-1 netns "/run/netns/1"`, `DEL net1 in sandbox-1 netns "/run/netns/1"`,
		`ADD net1 in sandbox-1 netns "/run/netns/1"`, `ADD net2 in sandbox-1 netns "/run/netns/1"`,
	}
	if diff := cmp.Diff(want, k.calls); diff != "" {
		t.Errorf("plugins (-want +got):\n%s", diff)
	}
}

func TestHostNetworkPodIsRefused(t *testing.T) {
	a, k := newAttacher(t)
	prepareWeb(t, a.store, []string{"net1"})
	s := sandboxNo(1)
	s.NetNS = ""
	err := k.attachOnce(t, a, s)
	if err == nil || !strings.Contains(err.Error(), "pod default/web uses the host's network") || !strings.Contains(err.Error(), "claim claim-0") {
		t.Errorf("error %v", err)
	}
	if len(k.calls) > 0 || phases(a.store)["net1"] != checkpoint.Prepared {
		t.Errorf("plugins %v, phases %v", k.calls, phases(a.store))
	}
}

// Neither ADD nor DEL may touch an interface that is not ours.
func TestTakenInterfaceNameIsRefusedBeforeAnyPlugin(t *testing.T) {
	a, k := newAttacher(t)
	prepareWeb(t, a.store, []string{"net1", "eth0"})
	err := k.attachOnce(t, a, sandboxNo(1))
	if err == nil || !strings.Contains(err.Error(), "adding network default/blue as eth0: the pod has an interface of this name already") {
		t.Errorf("error %v", err)
	}
	if len(k.calls) > 0 || phases(a.store)["eth0"] != checkpoint.Prepared {
		t.Errorf("plugins %v, phases %v", k.calls, phases(a.store))
	}
}
