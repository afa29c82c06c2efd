package driver

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
)

func route(family string, metric int, iface, gateway string) checkpoint.Route {
	return checkpoint.Route{Family: family, Metric: metric, Hops: []checkpoint.Hop{{Interface: iface, Gateway: gateway}}}
}

var (
	primary4 = route("IPv4", 0, "eth0", "10.88.0.1")
	primary6 = route("IPv6", 1024, "eth0", "fd88::1")
)

// prepareRoutes notes web's interfaces net1, net2, … of which each asks for
// these gateways; nil asks for nothing.
func prepareRoutes(t *testing.T, a *attacher, asks ...[]string) {
	t.Helper()
	names := []string{"net1", "net2", "net3"}[:len(asks)]
	prepareWeb(t, a.store, names)
	records := a.store.All()
	if err := a.store.DeleteClaim(records[0].Claim.UID); err != nil {
		t.Fatal(err)
	}
	for i := range records {
		if asks[i] != nil {
			records[i].Attachment.DefaultRoute = &asks[i]
		}
	}
	var ps []attachment.Prepared
	for _, r := range records {
		ps = append(ps, r.Prepared)
	}
	if err := a.store.Put(ps); err != nil {
		t.Fatal(err)
	}
}

// The default route goes where it is asked for and comes back (behaviours
// A2-22, A2-23, B7).
func TestDefaultRouteMoves(t *testing.T) {
	for _, tc := range []struct {
		name string
		asks [][]string
		want []checkpoint.Route
	}{
		{"nobody asks", [][]string{nil, nil}, []checkpoint.Route{primary4, primary6}},
		{"one family takes both away", [][]string{nil, {"10.1.0.1"}}, []checkpoint.Route{route("IPv4", 0, "net2", "10.1.0.1")}},
		{"both families", [][]string{{"10.1.0.1", "FD00::1"}, nil}, []checkpoint.Route{route("IPv4", 0, "net1", "10.1.0.1"), route("IPv6", 1024, "net1", "fd00::1")}},
		{"on two attachments", [][]string{{"10.1.0.1"}, nil, {"fd00::1"}}, []checkpoint.Route{route("IPv4", 0, "net1", "10.1.0.1"), route("IPv6", 1024, "net3", "fd00::1")}},
		{"alternatives", [][]string{{"10.1.0.1", "10.1.0.2"}}, []checkpoint.Route{route("IPv4", 0, "net1", "10.1.0.1"), route("IPv4", 1, "net1", "10.1.0.2")}},
		{"an empty list", [][]string{nil, {}}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, k := newAttacher(t)
			k.routes = []checkpoint.Route{primary4, primary6}
			prepareRoutes(t, a, tc.asks...)
			if err := k.attachOnce(t, a, sandboxNo(1)); err != nil {
				t.Fatal(err)
			}
			same(t, "attached", tc.want, ordered(k.routes))
			if err := a.detach(t.Context(), web.UID, inSandbox("sandbox-1")); err != nil {
				t.Fatal(err)
			}
			same(t, "detached", []checkpoint.Route{primary4, primary6}, ordered(k.routes))
			for _, r := range a.store.All() {
				same(t, "displaced after the DEL", nil, r.Displaced)
			}
		})
	}
}

// An attachment that follows brings a default route of its own, which goes.
func TestDefaultRouteOfALaterAttachmentGoes(t *testing.T) {
	a, k := newAttacher(t)
	k.routes = []checkpoint.Route{primary4}
	prepareRoutes(t, a, []string{"10.1.0.1"}, nil)
	own := route("IPv4", 0, "net2", "10.2.0.1")
	k.added = func(iface string) {
		if iface == "net2" {
			k.routes = append(k.routes, own)
		}
	}
	if err := k.attachOnce(t, a, sandboxNo(1)); err != nil {
		t.Fatal(err)
	}
	same(t, "attached", []checkpoint.Route{route("IPv4", 0, "net1", "10.1.0.1")}, k.routes)
	same(t, "displaced", []checkpoint.Route{primary4, own}, a.store.All()[0].Displaced)
	if err := a.detach(t.Context(), web.UID, inSandbox("sandbox-1")); err != nil {
		t.Fatal(err)
	}
	same(t, "detached", []checkpoint.Route{primary4}, k.routes) // net2 is not there any more
}

// A gateway that cannot be reached fails the pod, and all is as before.
func TestUnreachableGateway(t *testing.T) {
	a, k := newAttacher(t)
	k.routes = []checkpoint.Route{primary4, primary6}
	prepareRoutes(t, a, nil, []string{"10.9.0.1"})
	k.rerouting = func(give []checkpoint.Route) error {
		if slices.ContainsFunc(give, func(r checkpoint.Route) bool { return through(r, "net2") }) {
			return unix.ENETUNREACH
		}
		return nil
	}
	err := k.attachOnce(t, a, sandboxNo(1))
	wantError(t, err, "adding network default/blue as net2: moving the pod's default route: network is unreachable")
	same(t, "routes", []checkpoint.Route{primary4, primary6}, ordered(k.routes))
	same(t, "interfaces", map[string]bool{}, k.has)
}

// The driver died after it had taken the route away; the next attempt of the
// same sandbox begins by giving it back, and the end does so too.
func TestDefaultRouteSurvivesACrash(t *testing.T) {
	a, k := newAttacher(t)
	k.routes = []checkpoint.Route{primary4}
	prepareRoutes(t, a, []string{"10.1.0.1"})
	k.rerouting = func([]checkpoint.Route) error { panic("killed") }
	func() {
		defer func() { _ = recover() }()
		_ = a.attempt(t.Context(), sandboxNo(1))
	}()
	k.rerouting = nil
	same(t, "displaced", []checkpoint.Route{primary4}, a.store.All()[0].Displaced)
	k.routes = nil // as far as it had come
	if err := k.attachOnce(t, a, sandboxNo(1)); err != nil {
		t.Fatal(err)
	}
	same(t, "attached", []checkpoint.Route{route("IPv4", 0, "net1", "10.1.0.1")}, k.routes)
	if err := a.detach(t.Context(), web.UID, inSandbox("sandbox-1")); err != nil {
		t.Fatal(err)
	}
	same(t, "detached", []checkpoint.Route{primary4}, k.routes)
}

// What cannot be put back keeps the DEL owed.
func TestRestoringFails(t *testing.T) {
	a, k := newAttacher(t)
	k.routes = []checkpoint.Route{primary4}
	prepareRoutes(t, a, []string{})
	if err := k.attachOnce(t, a, sandboxNo(1)); err != nil {
		t.Fatal(err)
	}
	k.rerouting = func([]checkpoint.Route) error { return errors.New("no memory") }
	wantError(t, a.detach(t.Context(), web.UID, inSandbox("sandbox-1")), "deleting network default/blue from net1: restoring the pod's default route: no memory")
	same(t, "phases", map[string]checkpoint.Phase{"net1": checkpoint.Attached}, phases(a.store))
}

// Plugins are asked about what nadra has left of their results, and nadra looks
// after the rest (behaviour B7-3).
func TestCheckAfterTheDefaultRouteMoved(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.k.routes = []checkpoint.Route{primary4}
		r := attachedRecord("net1", bridgeResult)
		r.Pod, r.Claim.UID = web, "asking"
		r.Attachment.DefaultRoute = &[]string{"10.1.0.1"}
		sandbox := sandboxNo(1)
		r.Sandbox = &sandbox
		if err := w.store.Put([]attachment.Prepared{r.Prepared}); err != nil {
			t.Fatal(err)
		}
		wantError(t, w.runCheck(t.Context(), r).err, "the requested default route is missing: [IPv4 default via 10.1.0.1 dev net1 metric 0]")
		if got := w.k.checked[0]; strings.Contains(got, "0.0.0.0/0") || !strings.Contains(got, "10.1.0.5/24") {
			t.Errorf("the plugin was asked about %s", got)
		}
		w.k.routes = requestedRoutes(r.Attachment)
		if err := w.runCheck(t.Context(), r).err; err != nil {
			t.Error(err)
		}
		if err := w.store.DeleteClaim("asking"); err != nil {
			t.Fatal(err)
		}
		if err := w.runCheck(t.Context(), attachedRecordIn(sandbox, bridgeResult)).err; err != nil || w.k.checked[2] != bridgeResult {
			t.Errorf("without a request: %v, the plugin was asked about %s", err, w.k.checked[2])
		}
	})
}

func attachedRecordIn(s attachment.Sandbox, result string) checkpoint.Record {
	r := attachedRecord("net1", result)
	r.Pod, r.Sandbox = s.Pod, &s
	return r
}

// through reports whether a route goes out by the interface.
func through(r checkpoint.Route, iface string) bool {
	return slices.ContainsFunc(r.Hops, func(h checkpoint.Hop) bool { return h.Interface == iface })
}

// ordered puts IPv4 first.
func ordered(routes []checkpoint.Route) []checkpoint.Route {
	slices.SortFunc(routes, func(a, b checkpoint.Route) int {
		if a.String() < b.String() {
			return -1
		}
		return 1
	})
	if len(routes) == 0 {
		return nil
	}
	return routes
}
