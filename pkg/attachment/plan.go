package attachment

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/nadra-dev/nadra/internal/words"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// Plan is the ordered list of a pod's attachments. They are added in this order, one at a time, and
// deleted in reverse.
type Plan []Attachment

// NewPlan resolves all selections of a pod. lookup returns a network. A pod may request the same
// network twice (behaviour A2-26), but not the same interface name or address. NewPlan returns the
// first error.
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
			return nil, fmt.Errorf("%s: %w", element(i), words.ShortError(err, maxMessage))
		}
		plan = append(plan, a)
	}
	return plan, nil
}

// Agree checks that valid selections are within the limits and do not contradict each other, and
// returns the names of their interfaces.
func Agree(selections []Selection) ([]string, error) {
	if err := CheckLimits(selections); err != nil {
		return nil, err
	}
	names, err := InterfaceNames(selections)
	if err != nil {
		return nil, err
	}
	if err := checkAddresses(selections); err != nil {
		return nil, err
	}
	return names, checkDefaultRoutes(selections)
}

// CheckRequests checks that valid selections for a running pod do not contradict each other.
// Selections that name no interface keep the one that they have, so only the named ones must
// differ.
func CheckRequests(selections []Selection) error {
	named := slices.Clone(selections)
	for i := range named {
		if named[i].Interface == "" {
			named[i].Interface = fmt.Sprintf("\x00%d", i)
		}
	}
	_, err := Agree(named)
	return err
}

// InterfaceNames returns the interface name of each selection: the requested one, or net<n>, where
// n is the position in the whole list, from 1. So a, b@x, c get net1, x, net3 (behaviour B3). Names
// must differ from each other and from the pod's own eth0 and lo.
func InterfaceNames(selections []Selection) ([]string, error) {
	names := make([]string, len(selections))
	owner := map[string]int{}
	for i, s := range selections {
		names[i] = s.Interface
		if names[i] == "" {
			names[i] = fmt.Sprintf("net%d", i+1)
		}
		if names[i] == "eth0" || names[i] == "lo" {
			return nil, reason.Errorf(reason.InterfaceConflict, "%s requests interface %q, which every pod has: choose another name", title(selections, i), names[i])
		}
		if other, taken := owner[names[i]]; taken {
			return nil, reason.Errorf(reason.InterfaceConflict, "%s and %s both get interface %q: choose different names", title(selections, other), title(selections, i), names[i])
		}
		owner[names[i]] = i
	}
	return names, nil
}

// checkAddresses refuses a duplicate address, regardless of its prefix length.
func checkAddresses(selections []Selection) error {
	owner := map[netip.Addr]int{}
	for i, s := range selections {
		for _, ip := range s.IPs {
			addr, err := v1alpha1.ParseIP(ip)
			if err != nil {
				return reason.Errorf(reason.AddressConflict, "%s requests address %q, which %w", title(selections, i), ip, err)
			}
			if other, taken := owner[addr]; taken {
				return reason.Errorf(reason.AddressConflict, "%s and %s both request address %s: use each address once", title(selections, other), title(selections, i), addr)
			}
			owner[addr] = i
		}
	}
	return nil
}

// checkDefaultRoutes refuses gateways of one family on two attachments, because a pod has one
// default route of each family. Several gateways on one attachment are alternatives. The standard
// allows gateways on one attachment (behaviour A2-22), Multus one gateway of each family in all;
// checkDefaultRoutes allows both.
func checkDefaultRoutes(selections []Selection) error {
	owner := map[string]int{}
	for i, s := range selections {
		if s.DefaultRoute == nil {
			continue
		}
		for _, gateway := range *s.DefaultRoute {
			addr, err := v1alpha1.ParseIP(gateway)
			if err != nil {
				return reason.Errorf(reason.RouteConflict, "%s requests the default route by %q, which %w", title(selections, i), gateway, err)
			}
			family := Family(addr)
			if other, taken := owner[family]; taken && other != i {
				return reason.Errorf(reason.RouteConflict, "%s and %s both request the pod's %s default route: request it once", title(selections, other), title(selections, i), family)
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

// title returns the position and network of a selection, for messages.
func title(selections []Selection, i int) string {
	return fmt.Sprintf("%s (%s)", element(i), selections[i].Network)
}
