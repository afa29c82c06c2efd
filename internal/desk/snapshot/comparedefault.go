package snapshot

import (
	"fmt"
	"strings"
)

// defaultNetworkName stands for the default network in messages.
const defaultNetworkName = "the default network"

// defaultRoute compares default routes as the pods request them, or else as
// network-status reports them. It reports whether it recorded a difference of the default route itself.
func (c *podPair) defaultRoute() (reported bool) {
	both := defaultEntry(c.was) != nil && defaultEntry(c.now) != nil
	was, now := c.defaultRouteOf(c.was, both), c.defaultRouteOf(c.now, both)
	if was != now {
		c.changed(DefaultRoute, nil, "the default route", was, now)
		return true
	}
	c.changed(DefaultStatus, nil, "the default route in network-status", statusGateways(c.was, both), statusGateways(c.now, both))
	return false
}

// defaultRouteOf describes the interfaces through which a pod's default routes leave. It leaves
// out the gateway of the default network, which depends on the node.
func (c *podPair) defaultRouteOf(p *Pod, withDefault bool) string {
	var out []string
	for _, n := range attached(p) {
		if n.Requested != nil && n.Requested.DefaultRoute != nil {
			out = append(out, fmt.Sprintf("%s via %s", c.oldName(p, n.Name), strings.Join(*n.Requested.DefaultRoute, ",")))
		}
	}
	if len(out) > 0 {
		return strings.Join(out, "; ")
	}
	for i := range p.Interfaces {
		n := &p.Interfaces[i]
		switch {
		case len(n.Gateways) == 0:
		case !n.Default:
			out = append(out, fmt.Sprintf("%s via %s", c.oldName(p, n.Name), strings.Join(n.Gateways, ",")))
		case withDefault:
			out = append(out, defaultNetworkName)
		}
	}
	return strings.Join(out, "; ")
}

// statusGateways lists the gateways in network-status.
func statusGateways(p *Pod, withDefault bool) string {
	var out []string
	for _, n := range p.Interfaces {
		if n.Default && withDefault && len(n.Gateways) > 0 {
			out = append(out, defaultNetworkName)
		}
		if !n.Default && len(n.Gateways) > 0 {
			out = append(out, strings.Join(n.Gateways, ","))
		}
	}
	return strings.Join(out, "; ")
}
