package driver

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"reflect"
	"slices"

	cnitypes "github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
)

// router reads and changes the default routes of sandboxes; podNet outside of
// tests. Paths are the runtime's.
type router interface {
	// DefaultRoutes returns those of the main table, of both families.
	DefaultRoutes(netns string) ([]checkpoint.Route, error)
	// Reroute removes routes and then adds others. What is gone, or there,
	// already is no error.
	Reroute(netns string, take, give []checkpoint.Route) error
}

// moveDefaultRoute has the pod's default routes be as its attachments ask for,
// once the first of those that ask is made (behaviour B7). It comes after every
// ADD, as that may bring a default route of its own. What it takes away is
// noted before, for the DEL of the attachment that it was taken away for. made
// are the records whose ADD has succeeded and that are not yet marked so.
func (a *attacher) moveDefaultRoute(sandbox attachment.Sandbox, made []checkpoint.Record) error {
	lacks := a.lacking(sandbox)
	asking := slices.DeleteFunc(a.store.ForPod(sandbox.Pod.UID), func(r checkpoint.Record) bool {
		same := func(m checkpoint.Record) bool { return m.Key() == r.Key() }
		return !asksForDefaultRoute(r) || lacks(r) && !slices.ContainsFunc(made, same)
	})
	if len(asking) == 0 {
		return nil
	}
	var wanted []checkpoint.Route
	for _, r := range asking {
		wanted = append(wanted, requestedRoutes(r.Attachment)...)
	}
	have, err := a.routes.DefaultRoutes(sandbox.NetNS)
	if err != nil {
		return again{err}
	}
	take, give := subtract(have, wanted), subtract(wanted, have)
	if len(take) > 0 {
		if err := a.store.MarkDisplaced(asking[0].Key(), take); err != nil {
			return again{err}
		}
	}
	if err := a.routes.Reroute(sandbox.NetNS, take, give); err != nil {
		return fmt.Errorf("moving the pod's default route: %w", err)
	}
	return nil
}

// restoreDefaultRoutes puts back what was taken away for a record whose
// attachment is deleted, as far as the interfaces are still there.
func (a *attacher) restoreDefaultRoutes(r checkpoint.Record) error {
	netns := r.Sandbox.NetNS
	ns, err := a.look(netns)
	if err != nil {
		return err
	}
	have, err := a.routes.DefaultRoutes(netns)
	if err != nil {
		return err
	}
	take := intersect(have, requestedRoutes(r.Attachment))
	give := slices.DeleteFunc(slices.Clone(r.Displaced), func(route checkpoint.Route) bool {
		return slices.ContainsFunc(route.Hops, func(h checkpoint.Hop) bool { return !slices.Contains(ns.links, h.Interface) })
	})
	if err := a.routes.Reroute(netns, take, subtract(give, have)); err != nil {
		return fmt.Errorf("restoring the pod's default route: %w", err)
	}
	return nil
}

// checkDefaultRoute says which of the routes that an attachment asks for is not
// there any more.
func (a *attacher) checkDefaultRoute(r checkpoint.Record) error {
	requested := requestedRoutes(r.Attachment)
	if len(requested) == 0 {
		return nil
	}
	have, err := a.routes.DefaultRoutes(r.Sandbox.NetNS)
	if err != nil {
		return err
	}
	if missing := subtract(requested, have); len(missing) > 0 {
		return fmt.Errorf("the requested default route is missing: %v", missing)
	}
	return nil
}

// withoutDefaultRoutes is a CNI result as it still holds when nadra has moved
// the pod's default route: plugins look for every route of it on CHECK. The
// record keeps the whole one, for DEL.
func withoutDefaultRoutes(raw json.RawMessage) json.RawMessage {
	var result types100.Result
	if json.Unmarshal(raw, &result) != nil {
		return raw // the plugins say what is wrong with it
	}
	result.Routes = slices.DeleteFunc(result.Routes, func(r *cnitypes.Route) bool {
		ones, _ := r.Dst.Mask.Size()
		return ones == 0
	})
	out, err := json.Marshal(&result)
	if err != nil {
		return raw
	}
	return out
}

// ipv6Metric is what the kernel makes of an IPv6 route without a metric.
const ipv6Metric = 1024

// requestedRoutes are the default routes that an attachment asks for. Of
// several gateways of one family the order is the metric (behaviour A2-23).
func requestedRoutes(a attachment.Attachment) []checkpoint.Route {
	if a.DefaultRoute == nil {
		return nil
	}
	metrics := map[string]int{"IPv4": 0, "IPv6": ipv6Metric}
	var out []checkpoint.Route
	for _, gateway := range *a.DefaultRoute {
		addr, err := netip.ParseAddr(gateway)
		if err != nil {
			continue // NewPlan has refused it
		}
		family := attachment.Family(addr)
		hop := checkpoint.Hop{Interface: a.Interface, Gateway: addr.Unmap().String()}
		out = append(out, checkpoint.Route{Family: family, Metric: metrics[family], Hops: []checkpoint.Hop{hop}})
		metrics[family]++
	}
	return out
}

// sameWay reports whether two routes lead the same way with the same
// preference, whatever their other properties.
func sameWay(a, b checkpoint.Route) bool {
	return a.Family == b.Family && a.Metric == b.Metric && reflect.DeepEqual(a.Hops, b.Hops)
}

// subtract returns the routes that are not among the others.
func subtract(routes, others []checkpoint.Route) []checkpoint.Route {
	return slices.DeleteFunc(slices.Clone(routes), func(r checkpoint.Route) bool {
		return slices.ContainsFunc(others, func(o checkpoint.Route) bool { return sameWay(r, o) })
	})
}

// intersect returns the routes that are among the others.
func intersect(routes, others []checkpoint.Route) []checkpoint.Route {
	return subtract(routes, subtract(routes, others))
}
