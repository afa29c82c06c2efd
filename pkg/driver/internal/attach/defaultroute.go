package attach

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	cnitypes "github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/nadra-dev/nadra/internal/podns"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
)

// moveDefaultRoute replaces the pod's default routes by those that its attachments
// request, once the first such attachment is added (behaviour B7). It runs after every
// ADD, because each may bring a default route of its own. Before it removes routes it
// records them, and the DEL of the first such attachment restores them. added are the
// records whose ADD has succeeded and is not recorded yet.
func (a *Attacher) moveDefaultRoute(sandbox attachment.Sandbox, added []checkpoint.Record) error {
	attached := a.AttachedIn(sandbox)
	requesting := slices.DeleteFunc(a.Store.ForPod(sandbox.Pod.UID), func(r checkpoint.Record) bool {
		same := func(other checkpoint.Record) bool { return other.Key() == r.Key() }
		return r.Attachment.DefaultRoute == nil || !attached(r) && !slices.ContainsFunc(added, same)
	})
	if len(requesting) == 0 {
		return nil
	}
	var wanted []checkpoint.Route
	for _, r := range requesting {
		wanted = append(wanted, requestedRoutes(r.Attachment)...)
	}
	have, err := a.Netns.DefaultRoutes(sandbox.NetNS)
	if err != nil {
		return transient{err}
	}
	remove, add := subtract(have, wanted), subtract(wanted, have)
	if len(remove) > 0 {
		if err := a.Store.MarkDisplaced(requesting[0].Key(), remove); err != nil {
			return transient{err}
		}
	}
	if err := a.Netns.Reroute(sandbox.NetNS, remove, add); err != nil {
		return fmt.Errorf("moving the pod's default route: %w", err)
	}
	if err := a.ForgetDefaultRoutes(sandbox.ID); err != nil {
		return transient{fmt.Errorf("moving the pod's default route: %w", err)}
	}
	return nil
}

// restoreDefaultRoutes restores the routes that a deleted attachment has displaced, except
// those through interfaces that are gone. It restores none if the namespace is gone, too.
func (a *Attacher) restoreDefaultRoutes(r checkpoint.Record) error {
	netns := r.Sandbox.NetNS
	ns, err := a.Netns.Inspect(netns)
	if errors.Is(err, podns.ErrGone) {
		return nil
	}
	if err != nil {
		return err
	}
	have, err := a.Netns.DefaultRoutes(netns)
	if err != nil {
		return err
	}
	remove := intersect(have, requestedRoutes(r.Attachment))
	add := slices.DeleteFunc(slices.Clone(r.Displaced), func(route checkpoint.Route) bool {
		return slices.ContainsFunc(route.Hops, func(h checkpoint.Hop) bool { return !slices.Contains(ns.Links, h.Interface) })
	})
	if err := a.Netns.Reroute(netns, remove, subtract(add, have)); err != nil {
		return fmt.Errorf("restoring the pod's default route: %w", err)
	}
	return nil
}

// CheckDefaultRoute returns an error if a default route that the attachment requests is
// missing.
func (a *Attacher) CheckDefaultRoute(r checkpoint.Record) error {
	requested := requestedRoutes(r.Attachment)
	if len(requested) == 0 {
		return nil
	}
	have, err := a.Netns.DefaultRoutes(r.Sandbox.NetNS)
	if err != nil {
		return err
	}
	if missing := subtract(requested, have); len(missing) > 0 {
		return reason.Errorf(reason.AttachmentChanged, "the requested default route is missing: %v", missing)
	}
	return nil
}

// WithoutDefaultRoutes returns a CNI result without default routes. It is for the CHECK of
// pods whose default route nadra has moved: plugins look for every route of the result.
func WithoutDefaultRoutes(raw json.RawMessage) json.RawMessage {
	var result types100.Result
	if json.Unmarshal(raw, &result) != nil {
		return raw // the plugins report the error
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

// WithoutHostAddresses returns a CNI result without the hardware addresses of the host's interfaces. It is for CHECK: a
// bridge without an address of its own has the lowest one of its ports, which changes with other pods, and the plugin
// compares it with that at ADD. It keeps all keys that it does not know.
func WithoutHostAddresses(raw json.RawMessage) json.RawMessage {
	var result map[string]json.RawMessage
	var interfaces []map[string]json.RawMessage
	if json.Unmarshal(raw, &result) != nil || json.Unmarshal(result["interfaces"], &interfaces) != nil {
		return raw // it has no interfaces, or the plugins report the error
	}
	changed := false
	for _, i := range interfaces {
		var sandbox string
		if _ = json.Unmarshal(i["sandbox"], &sandbox); sandbox == "" && i["mac"] != nil {
			delete(i, "mac")
			changed = true
		}
	}
	if !changed {
		return raw
	}
	var err error
	if result["interfaces"], err = json.Marshal(interfaces); err != nil {
		return raw
	}
	out, err := json.Marshal(result)
	if err != nil {
		return raw
	}
	return out
}

// ipv6Metric is the metric that the kernel gives an IPv6 route without one.
const ipv6Metric = 1024

// requestedRoutes returns the default routes that an attachment requests. Several gateways
// of one family have increasing metrics (behaviour A2-23).
func requestedRoutes(a attachment.Attachment) []checkpoint.Route {
	if a.DefaultRoute == nil {
		return nil
	}
	metrics := map[string]int{"IPv4": 0, "IPv6": ipv6Metric}
	var out []checkpoint.Route
	for _, gateway := range *a.DefaultRoute {
		addr, err := netip.ParseAddr(gateway)
		if err != nil {
			continue // NewPlan rejects it
		}
		family := attachment.Family(addr)
		hop := checkpoint.Hop{Interface: a.Interface, Gateway: addr.Unmap().String()}
		out = append(out, checkpoint.Route{Family: family, Metric: metrics[family], Hops: []checkpoint.Hop{hop}})
		metrics[family]++
	}
	return out
}

// samePath reports whether two routes have the same hops and the same preference. It ignores
// whether a gateway is marked as on the link, which depends on the routes beside it.
func samePath(a, b checkpoint.Route) bool {
	same := func(x, y checkpoint.Hop) bool {
		x.OnLink, y.OnLink = false, false
		return x == y
	}
	return a.Family == b.Family && a.Metric == b.Metric && slices.EqualFunc(a.Hops, b.Hops, same)
}

// subtract returns the routes that are not among the others.
func subtract(routes, others []checkpoint.Route) []checkpoint.Route {
	return slices.DeleteFunc(slices.Clone(routes), func(r checkpoint.Route) bool {
		return slices.ContainsFunc(others, func(o checkpoint.Route) bool { return samePath(r, o) })
	})
}

// intersect returns the routes that are among the others.
func intersect(routes, others []checkpoint.Route) []checkpoint.Route {
	return subtract(routes, subtract(routes, others))
}
