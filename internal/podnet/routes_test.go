package podnet

import (
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
)

// moveRoutes moves the routes of a link to another table, as the plugin sbr does.
func moveRoutes(link netlink.Link, table int) error {
	routes, err := netlink.RouteList(link, netlink.FAMILY_ALL)
	if err != nil {
		return err
	}
	for _, r := range routes {
		moved := r
		moved.Table, moved.Flags = table, 0
		if err := netlink.RouteReplace(&moved); err != nil {
			return err
		}
		if err := netlink.RouteDel(&r); err != nil {
			return err
		}
	}
	return nil
}

// TestRerouteAfterSBR checks gateways in a network of the interface whose route another table has:
// the routes are added. A gateway in no network of the interface is still refused.
func TestRerouteAfterSBR(t *testing.T) {
	reader, path := inNamespace(t, func() error {
		eth0, err := addLink("eth0", "10.88.0.5/16")
		if err != nil {
			return err
		}
		if err := netlink.RouteAdd(&netlink.Route{LinkIndex: eth0.Attrs().Index, Gw: net.ParseIP("10.88.0.1")}); err != nil {
			return err
		}
		net1, err := addLink("net1", "10.20.17.5/24", "fd20::5/64")
		if err != nil {
			return err
		}
		return moveRoutes(net1, 100)
	})
	through := func(family, gateway string, metric int) checkpoint.Route {
		return checkpoint.Route{Family: family, Metric: metric, Hops: []checkpoint.Hop{{Interface: "net1", Gateway: gateway}}}
	}
	before, err := reader.DefaultRoutes(path)
	if err != nil || len(before) != 1 {
		t.Fatalf("%v, %v: want eth0's route", before, err)
	}
	if err := reader.Reroute(path, before, []checkpoint.Route{through("IPv4", "10.20.17.1", 0), through("IPv6", "fd20::1", 1024)}); err != nil {
		t.Fatal(err)
	}
	after, err := reader.DefaultRoutes(path)
	if got, want := fmt.Sprint(after, err), "[IPv4 default via 10.20.17.1 dev net1 metric 0 IPv6 default via fd20::1 dev net1 metric 1024] <nil>"; got != want {
		t.Errorf("routes %s, want %s", got, want)
	}
	for _, wrong := range []checkpoint.Route{through("IPv4", "10.20.18.1", 5), through("IPv6", "fd21::1", 5)} {
		if err := reader.Reroute(path, nil, []checkpoint.Route{wrong}); reason.Of(err) != reason.GatewayUnreachable {
			t.Errorf("%s: %v", wrong, err)
		}
	}
	if err := reader.Reroute(path, after, before); err != nil {
		t.Fatal(err)
	}
	if restored, err := reader.DefaultRoutes(path); fmt.Sprint(restored, err) != fmt.Sprint(before, error(nil)) {
		t.Errorf("restored %v, %v, want %v", restored, err, before)
	}
}

// TestTooManyDefaultRoutes checks that a namespace with thousands of default routes, which a pod may add, is an error. They
// would be read one by one, and recorded.
func TestTooManyDefaultRoutes(t *testing.T) {
	reader, path := inNamespace(t, func() error {
		link, err := addLink("net1", "10.88.0.5/16")
		for metric := range checkpoint.MaxRoutes + 1 {
			err = errors.Join(err, netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Gw: net.ParseIP("10.88.0.1"), Priority: metric}))
		}
		return err
	})
	if routes, err := reader.DefaultRoutes(path); reason.Of(err) != reason.LimitExceeded {
		t.Errorf("%d routes, %v", len(routes), err)
	}
}
