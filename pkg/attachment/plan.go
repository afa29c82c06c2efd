package attachment

import (
	"fmt"
	"net/netip"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// Plan is the ordered list of a pod's attachments. They are made in this order,
// one at a time, and taken down in reverse.
type Plan []Attachment

// NewPlan resolves all that a pod requests; lookup finds a network. The same
// network may be requested twice (behaviour A2-26), the same interface name or
// address may not. It is all or nothing: the first error ends it.
func NewPlan(selections []Selection, lookup func(NetworkRef) (Network, error)) (Plan, error) {
	names, err := Agree(selections)
	if err != nil {
		return nil, err
	}
	var plan Plan
	for i, s := range selections {
		network, err := lookup(s.Network)
		if err != nil {
			return nil, fmt.Errorf("looking up %s: %w", title(selections, i), err)
		}
		a, err := NewAttachment(network, s, names[i])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", element(i), err)
		}
		plan = append(plan, a)
	}
	return plan, nil
}

// Agree checks that one pod can have all selections, which have been checked
// each on its own, and returns their interfaces' names.
func Agree(selections []Selection) ([]string, error) {
	names, err := InterfaceNames(selections)
	if err != nil {
		return nil, err
	}
	if err := checkAddresses(selections); err != nil {
		return nil, err
	}
	return names, checkDefaultRoutes(selections)
}

// InterfaceNames gives each selection its interface name: the one it asks for,
// else net<n>, where n is its position in the whole list, from 1, so that a,
// b@x, c become net1, x, net3 (behaviour B3). Names must differ from each other
// and from the pod's own eth0 and lo.
func InterfaceNames(selections []Selection) ([]string, error) {
	names := make([]string, len(selections))
	owner := map[string]int{}
	for i, s := range selections {
		names[i] = s.Interface
		if names[i] == "" {
			names[i] = fmt.Sprintf("net%d", i+1)
		}
		if names[i] == "eth0" || names[i] == "lo" {
			return nil, reason.Errorf(reason.InterfaceConflict, "%s asks for interface %q, which every pod has already: choose another name", title(selections, i), names[i])
		}
		if other, taken := owner[names[i]]; taken {
			return nil, reason.Errorf(reason.InterfaceConflict, "%s and %s both get interface %q: choose different names", title(selections, other), title(selections, i), names[i])
		}
		owner[names[i]] = i
	}
	return names, nil
}

// checkAddresses refuses the same address twice in one pod, whatever the prefix
// length.
func checkAddresses(selections []Selection) error {
	owner := map[netip.Addr]int{}
	for i, s := range selections {
		for _, ip := range s.IPs {
			addr, err := v1alpha1.ParseIP(ip)
			if err != nil {
				return reason.Errorf(reason.AddressConflict, "%s asks for address %q, which %w", title(selections, i), ip, err)
			}
			if other, taken := owner[addr]; taken {
				return reason.Errorf(reason.AddressConflict, "%s and %s both ask for address %s: give each address once", title(selections, other), title(selections, i), addr)
			}
			owner[addr] = i
		}
	}
	return nil
}

// checkDefaultRoutes refuses gateways of one family on two attachments: a pod
// has one default route of each. Several on one attachment are alternatives.
// The standard allows the request on one attachment (behaviour A2-22), Multus
// one gateway of each family over all of them; this allows both.
func checkDefaultRoutes(selections []Selection) error {
	owner := map[string]int{}
	for i, s := range selections {
		if s.DefaultRoute == nil {
			continue
		}
		for _, gateway := range *s.DefaultRoute {
			addr, err := v1alpha1.ParseIP(gateway)
			if err != nil {
				return reason.Errorf(reason.RouteConflict, "%s asks for the default route by %q, which %w", title(selections, i), gateway, err)
			}
			family := Family(addr)
			if other, taken := owner[family]; taken && other != i {
				return reason.Errorf(reason.RouteConflict, "%s and %s both ask for the pod's %s default route: ask for it once", title(selections, other), title(selections, i), family)
			}
			owner[family] = i
		}
	}
	return nil
}

// Family returns the name of an address's family, IPv4 or IPv6.
func Family(addr netip.Addr) string {
	if addr.Unmap().Is4() {
		return "IPv4"
	}
	return "IPv6"
}

// title names a selection in messages by position and network.
func title(selections []Selection, i int) string {
	return fmt.Sprintf("%s (%s)", element(i), selections[i].Network)
}
