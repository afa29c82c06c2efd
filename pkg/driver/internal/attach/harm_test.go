package attach

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/cniexec"
	"github.com/nadra-dev/nadra/test/drivertest"
)

// hostLocal is a network of host-local.
const hostLocal = `{"name":"h","plugins":[{"type":"macvlan","ipam":{"type":"host-local","subnet":"10.2.0.0/24"}}]}`

// addresses stands in for IPAM plugins: whereabouts 0.8, whose DEL frees the first address of the
// sandbox in the range, and host-local, whose DEL frees that of the interface.
type addresses struct {
	*drivertest.Kernel
	taken []string // "pool sandbox interface"
	// full makes an ADD of the interface fail before it has an address, and broken after that.
	full, broken map[string]bool
}

func (p *addresses) Add(ctx context.Context, s attachment.Sandbox, a attachment.Attachment, before func() error) (cniexec.Added, error) {
	one := fmt.Sprint(a.CNIName, " ", s.ID, " ", a.Interface)
	if !p.full[a.Interface] && !slices.Contains(p.taken, one) {
		p.taken = append(p.taken, one)
	}
	if p.full[a.Interface] || p.broken[a.Interface] {
		if err := before(); err != nil {
			return cniexec.Added{}, err
		}
		return cniexec.Added{}, drivertest.Final("no address, or no link")
	}
	return p.Kernel.Add(ctx, s, a, before)
}

func (p *addresses) Del(ctx context.Context, s attachment.Sandbox, a attachment.Attachment, result json.RawMessage) error {
	own := fmt.Sprint(a.CNIName, " ", s.ID, " ")
	if !a.UsesIPAM(attachment.Whereabouts) {
		own += a.Interface
	}
	if i := slices.IndexFunc(p.taken, func(one string) bool { return strings.HasPrefix(one, own) }); i >= 0 {
		p.taken = slices.Delete(p.taken, i, i+1)
	}
	return p.Kernel.Del(ctx, s, a, result)
}

// newAddresses returns an attacher whose plugins have addresses.
func newAddresses(t *testing.T) (*Attacher, *addresses) {
	t.Helper()
	a, k := newAttacher(t)
	p := &addresses{Kernel: k, full: map[string]bool{}, broken: map[string]bool{}}
	a.Plugins, a.Operations.Plugins = p, p
	return a, p
}

// network returns an attachment that a claim, or an edit, makes.
func network(iface, conflist string) attachment.Prepared {
	var conf struct{ Name string }
	if err := json.Unmarshal([]byte(conflist), &conf); err != nil {
		panic(err)
	}
	return attachment.Prepared{Pod: drivertest.Web, Request: iface, Attachment: attachment.Attachment{Interface: iface, CNIName: conf.Name, Conflist: json.RawMessage(conflist)}}
}

// running attaches net1 of a network in sandbox 1.
func running(t *testing.T, a *Attacher, conflist string) {
	t.Helper()
	one := network("net1", conflist)
	one.Claim.UID = "claim"
	if err := a.Store.Put([]attachment.Prepared{one}); err != nil {
		t.Fatal(err)
	}
	if err := attachOnce(t, a, drivertest.SandboxNo(1)); err != nil {
		t.Fatal(err)
	}
}

// addLive adds net2 to sandbox 1 as an edit does.
func addLive(t *testing.T, a *Attacher, conflist string) error {
	t.Helper()
	two := network("net2", conflist)
	two.Index = 1
	r, err := checkpoint.NewEdits(a.Store).AddLive(two, drivertest.SandboxNo(1))
	if err != nil {
		t.Fatal(err)
	}
	return a.AddLive(t.Context(), drivertest.SandboxNo(1), r)
}

// TestFailedEditKeepsTheAddressOfARunningNetwork checks that the rollback of an edit does not free the
// address of another network in the running pod, and that nothing is left after the pod.
func TestFailedEditKeepsTheAddressOfARunningNetwork(t *testing.T) {
	for _, tt := range []struct {
		name, running, added string
		broken               bool
		// left are the addresses after the rollback, besides that of net1.
		left    []string
		pending int
	}{
		{name: "the range is full", running: rangeA, added: rangeA, pending: 1},
		{name: "the same range, after it gave an address", running: rangeA, added: rangeA, broken: true, left: []string{"a sandbox-1 net2"}, pending: 1},
		{name: "another range", running: rangeA, added: rangeB, broken: true},
		{name: "host-local", running: hostLocal, added: hostLocal, broken: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, p := newAddresses(t)
			running(t, a, tt.running)
			before := slices.Clone(p.taken)
			maps.Copy(map[bool]map[string]bool{true: p.broken, false: p.full}[tt.broken], map[string]bool{"net2": true})
			drivertest.WantReason(t, addLive(t, a, tt.added), reason.PluginFailed, "net2")
			drivertest.Same(t, "addresses after the rollback", append(before, tt.left...), p.taken)
			drivertest.Same(t, "phases", map[string]checkpoint.Phase{"net1": checkpoint.Attached, "net2": checkpoint.Prepared}, drivertest.Phases(a.Store))
			dels := a.Store.PendingDELs()
			drivertest.Same(t, "pending DELs", tt.pending, len(dels))
			if tt.pending > 0 {
				drivertest.WantReasonIn(t, dels[0].Cause, reason.PendingDEL, "net1")
			}

			p.End(drivertest.SandboxNo(1))
			if err := a.Detach(t.Context(), drivertest.Web.UID, func(checkpoint.Record) bool { return true }); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			go func() { _ = a.PendingDELs.Run(ctx) }()
			for len(a.Store.PendingDELs()) > 0 && ctx.Err() == nil {
				time.Sleep(time.Millisecond)
			}
			a.Operations.Wait()
			drivertest.Same(t, "addresses after the pod", 0, len(p.taken))
			a.Store.WaitSynced()
		})
	}
}

// TestRollbackKeepsTheAddressesOfOtherRuntimes checks that the DELs of nadra's networks do not free
// addresses that Multus has given to the same sandbox, before the sandbox ends.
func TestRollbackKeepsTheAddressesOfOtherRuntimes(t *testing.T) {
	s := drivertest.SandboxNo(1)
	single := json.RawMessage(`{"name":"a","type":"macvlan","ipam":{"type":"whereabouts","range":"10.0.0.9-10.0.0.20/24"}}`)
	a, p := newAddresses(t)
	p.Others = map[string][]attachment.Attachment{s.ID: {{Interface: "net7", CNIName: "a", Conflist: single}}}
	p.taken, p.broken["net1"] = []string{"a sandbox-1 net7"}, true
	one := network("net1", rangeA)
	one.Claim.UID = "claim"
	if err := a.Store.Put([]attachment.Prepared{one}); err != nil {
		t.Fatal(err)
	}
	drivertest.WantReason(t, attachOnce(t, a, s), reason.PluginFailed)
	drivertest.Same(t, "addresses", []string{"a sandbox-1 net7", "a sandbox-1 net1"}, p.taken)
	drivertest.WantReasonIn(t, a.Store.PendingDELs()[0].Cause, reason.PendingDEL, "net7")

	p.broken["net1"] = false
	if err := attachOnce(t, a, s); err != nil {
		t.Fatal(err)
	}
	if err := a.DetachSandbox(t.Context(), s.Pod.UID, s.ID, Kept{}); err != nil {
		t.Fatal(err)
	}
	drivertest.Same(t, "phases when the sandbox ends", map[string]checkpoint.Phase{"net1": checkpoint.Prepared}, drivertest.Phases(a.Store))
	drivertest.Same(t, "addresses that are left", 1, len(p.taken))
}

// unreadable has plugins that cannot tell what other runtimes have.
type unreadable struct{ *addresses }

func (unreadable) Foreign(string) ([]attachment.Attachment, error) {
	return nil, errors.New("a damaged file")
}

// TestUnknownAttachmentsAreKept checks that a DEL waits for the end of the sandbox if it is unknown
// what other runtimes have there.
func TestUnknownAttachmentsAreKept(t *testing.T) {
	a, p := newAddresses(t)
	running(t, a, rangeB)
	a.Plugins = unreadable{p}
	p.broken["net2"] = true
	drivertest.WantReason(t, addLive(t, a, rangeA), reason.PluginFailed)
	drivertest.WantReasonIn(t, a.Store.PendingDELs()[0].Cause, reason.PendingDEL, "a damaged file")
}

// TestUnprepareOfOneClaimKeepsTheOther checks that the DELs of one claim of a running pod do not free the
// addresses of another one.
func TestUnprepareOfOneClaimKeepsTheOther(t *testing.T) {
	a, p := newAddresses(t)
	two := network("net2", rangeA)
	two.Claim.UID, two.Index = "other", 1
	if err := a.Store.Put([]attachment.Prepared{two}); err != nil {
		t.Fatal(err)
	}
	running(t, a, rangeA)
	if err := a.DetachClaim(t.Context(), a.Store.ForClaim("other")[0].Pod.UID, "other"); err != nil {
		t.Fatal(err)
	}
	drivertest.Same(t, "addresses", []string{"a sandbox-1 net1", "a sandbox-1 net2"}, p.taken)
	drivertest.Same(t, "pending DELs", 1, len(a.Store.PendingDELs()))
}
