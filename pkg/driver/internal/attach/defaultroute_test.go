package attach

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/test/drivertest"
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
func prepareRoutes(t *testing.T, a *Attacher, asks ...[]string) {
	t.Helper()
	names := []string{"net1", "net2", "net3"}[:len(asks)]
	drivertest.PrepareWeb(t, a.Store, names)
	records := a.Store.All()
	if err := a.Store.DeleteClaim(records[0].Claim.UID, records[0].Pod.UID); err != nil {
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
	if err := a.Store.Put(ps); err != nil {
		t.Fatal(err)
	}
}

// TestDefaultRouteMoves checks that the default route moves to the attachment that
// requests it, and back (behaviours A2-22, A2-23, B7).
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
			k.Routes = []checkpoint.Route{primary4, primary6}
			prepareRoutes(t, a, tc.asks...)
			if err := attachOnce(t, a, drivertest.SandboxNo(1)); err != nil {
				t.Fatal(err)
			}
			drivertest.Same(t, "attached", tc.want, ordered(k.Routes))
			asked := slices.ContainsFunc(tc.asks, func(gateways []string) bool { return gateways != nil })
			drivertest.Same(t, "the runtime forgets the routes", asked, slices.Contains(k.Forgotten, "sandbox-1"))
			if err := a.Detach(t.Context(), drivertest.Web.UID, checkpoint.InSandbox("sandbox-1")); err != nil {
				t.Fatal(err)
			}
			drivertest.Same(t, "detached", []checkpoint.Route{primary4, primary6}, ordered(k.Routes))
			for _, r := range a.Store.All() {
				drivertest.Same(t, "displaced after the DEL", nil, r.Displaced)
			}
		})
	}
}

// TestDefaultRouteOfALaterAttachmentGoes checks that the default route which a later
// attachment brings is removed.
func TestDefaultRouteOfALaterAttachmentGoes(t *testing.T) {
	a, k := newAttacher(t)
	k.Routes = []checkpoint.Route{primary4}
	prepareRoutes(t, a, []string{"10.1.0.1"}, nil)
	own := route("IPv4", 0, "net2", "10.2.0.1")
	k.Added = func(iface string) {
		if iface == "net2" {
			k.Routes = append(k.Routes, own)
		}
	}
	if err := attachOnce(t, a, drivertest.SandboxNo(1)); err != nil {
		t.Fatal(err)
	}
	drivertest.Same(t, "attached", []checkpoint.Route{route("IPv4", 0, "net1", "10.1.0.1")}, k.Routes)
	drivertest.Same(t, "displaced", []checkpoint.Route{primary4, own}, a.Store.All()[0].Displaced)
	if err := a.Detach(t.Context(), drivertest.Web.UID, checkpoint.InSandbox("sandbox-1")); err != nil {
		t.Fatal(err)
	}
	drivertest.Same(t, "detached", []checkpoint.Route{primary4}, k.Routes) // net2 is not there any more
}

// TestDefaultRouteOnLink checks a requested route that the kernel lists as one whose gateway is on
// the link, because sbr has moved the interface's own route: it counts as the requested one.
func TestDefaultRouteOnLink(t *testing.T) {
	a, k := newAttacher(t)
	k.Routes = []checkpoint.Route{primary4}
	prepareRoutes(t, a, []string{"10.1.0.1"}, nil)
	onLink := route("IPv4", 0, "net1", "10.1.0.1")
	onLink.Hops[0].OnLink = true
	k.Added = func(iface string) {
		if iface == "net2" {
			k.Routes = []checkpoint.Route{onLink}
		}
	}
	if err := attachOnce(t, a, drivertest.SandboxNo(1)); err != nil {
		t.Fatal(err)
	}
	drivertest.Same(t, "attached", []checkpoint.Route{onLink}, k.Routes)
	drivertest.Same(t, "displaced", []checkpoint.Route{primary4}, a.Store.All()[0].Displaced)
	if err := a.CheckDefaultRoute(a.Store.All()[0]); err != nil {
		t.Error(err)
	}
	if err := a.Detach(t.Context(), drivertest.Web.UID, checkpoint.InSandbox("sandbox-1")); err != nil {
		t.Fatal(err)
	}
	drivertest.Same(t, "detached", []checkpoint.Route{primary4}, k.Routes)
}

// TestRuntimeResultNotEdited checks that a pod is not attached while the runtime's result still has
// the routes that are gone: the runtime would miss them at its next start.
func TestRuntimeResultNotEdited(t *testing.T) {
	a, k := newAttacher(t)
	k.Routes = []checkpoint.Route{primary4}
	k.ForgetErr = errors.New("the disk is full")
	prepareRoutes(t, a, []string{"10.1.0.1"})
	err := a.Attach(t.Context(), drivertest.SandboxNo(1), func(err error, passing bool) bool {
		drivertest.WantError(t, err, "network default/blue as net1: ", "the disk is full")
		k.ForgetErr = nil
		return passing
	})
	if err != nil {
		t.Fatal(err)
	}
	drivertest.Same(t, "routes", []checkpoint.Route{route("IPv4", 0, "net1", "10.1.0.1")}, k.Routes)
	drivertest.Same(t, "edits", []string{"sandbox-1", "sandbox-1"}, k.Forgotten)
}

// TestUnreachableGateway checks that an unreachable gateway fails the pod, whose routes
// are then as before.
func TestUnreachableGateway(t *testing.T) {
	a, k := newAttacher(t)
	k.Routes = []checkpoint.Route{primary4, primary6}
	prepareRoutes(t, a, nil, []string{"10.9.0.1"})
	k.Rerouting = func(give []checkpoint.Route) error {
		if slices.ContainsFunc(give, func(r checkpoint.Route) bool { return drivertest.Through(r, "net2") }) {
			return unix.ENETUNREACH
		}
		return nil
	}
	err := attachOnce(t, a, drivertest.SandboxNo(1))
	drivertest.WantError(t, err, "network default/blue as net2: ")
	if !errors.Is(err, unix.ENETUNREACH) {
		t.Errorf("the cause: %v", err)
	}
	drivertest.Same(t, "routes", []checkpoint.Route{primary4, primary6}, ordered(k.Routes))
	drivertest.Same(t, "interfaces", map[string]bool{}, k.Has)
}

// TestDefaultRouteSurvivesACrash checks a driver that died after it had removed the route:
// the next try in the same sandbox restores it first, and so does the end of the sandbox.
func TestDefaultRouteSurvivesACrash(t *testing.T) {
	a, k := newAttacher(t)
	k.Routes = []checkpoint.Route{primary4}
	prepareRoutes(t, a, []string{"10.1.0.1"})
	k.Rerouting = func([]checkpoint.Route) error { panic("killed") }
	func() {
		defer func() { _ = recover() }()
		_ = a.try(t.Context(), drivertest.SandboxNo(1))
	}()
	k.Rerouting = nil
	drivertest.Same(t, "displaced", []checkpoint.Route{primary4}, a.Store.All()[0].Displaced)
	k.Routes = nil // as far as it had come
	if err := attachOnce(t, a, drivertest.SandboxNo(1)); err != nil {
		t.Fatal(err)
	}
	drivertest.Same(t, "attached", []checkpoint.Route{route("IPv4", 0, "net1", "10.1.0.1")}, k.Routes)
	if err := a.Detach(t.Context(), drivertest.Web.UID, checkpoint.InSandbox("sandbox-1")); err != nil {
		t.Fatal(err)
	}
	drivertest.Same(t, "detached", []checkpoint.Route{primary4}, k.Routes)
}

// TestRestoringFails checks that a DEL is repeated if the routes cannot be restored.
func TestRestoringFails(t *testing.T) {
	a, k := newAttacher(t)
	k.Routes = []checkpoint.Route{primary4}
	prepareRoutes(t, a, []string{})
	if err := attachOnce(t, a, drivertest.SandboxNo(1)); err != nil {
		t.Fatal(err)
	}
	k.Rerouting = func([]checkpoint.Route) error { return errors.New("no memory") }
	drivertest.WantReason(t, a.Detach(t.Context(), drivertest.Web.UID, checkpoint.InSandbox("sandbox-1")), reason.DELFailed, "network default/blue from net1: ", "no memory")
	drivertest.Same(t, "phases", map[string]checkpoint.Phase{"net1": checkpoint.Attached}, drivertest.Phases(a.Store))
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

// TestWithoutHostAddresses checks that a result loses the hardware addresses of the host's interfaces, and nothing else.
func TestWithoutHostAddresses(t *testing.T) {
	for result, want := range map[string]string{
		`{"cniVersion":"0.4.0","interfaces":[{"name":"br0","mac":"02:00:00:00:00:01","own":1},{"name":"net1","mac":"02:00:00:00:00:03","sandbox":"/run/netns/1"}],"own":2}`: `{"cniVersion":"0.4.0","interfaces":[{"name":"br0","own":1},{"mac":"02:00:00:00:00:03","name":"net1","sandbox":"/run/netns/1"}],"own":2}`,
		`{"cniVersion":"1.0.0","interfaces":[{"name":"net1","mac":"02:00:00:00:00:03","sandbox":"/run/netns/1"}]}`:                                                          `{"cniVersion":"1.0.0","interfaces":[{"name":"net1","mac":"02:00:00:00:00:03","sandbox":"/run/netns/1"}]}`,
		`{"cniVersion":"1.0.0","interfaces":[{"name":"br0","mac":"02:00:00:00:00:01","sandbox":""}]}`:                                                                       `{"cniVersion":"1.0.0","interfaces":[{"name":"br0","sandbox":""}]}`,
		`{"cniVersion": "1.0.0"}`: `{"cniVersion": "1.0.0"}`,
		`{"interfaces": 5}`:       `{"interfaces": 5}`,
		`broken`:                  `broken`,
	} {
		if got := string(WithoutHostAddresses(json.RawMessage(result))); got != want {
			t.Errorf("of %s it is %s, want %s", result, got, want)
		}
	}
}
