package attachment

import (
	"fmt"
	"net/netip"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// Plan is the ordered list of a pod's attachments. They are made in this order,
// one at a time, and taken down in reverse.
type Plan []Attachment

// NewPlan resolves all that a pod requests; lookup finds a network. The same
// network may be requested twice (behaviour A2-26), the same interface name or
// address may not. It is all or nothing: the first error ends it.
func NewPlan(selections []Selection, lookup func(NetworkRef) (Network, error)) (Plan, error) {
	names, err := InterfaceNames(selections)
	if err != nil {
		return nil, err
	}
	if err := checkAddresses(selections); err != nil {
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
			return nil, fmt.Errorf("%s asks for interface %q, which every pod has already: choose another name", title(selections, i), names[i])
		}
		if other, taken := owner[names[i]]; taken {
			return nil, fmt.Errorf("%s and %s both get interface %q: choose different names", title(selections, other), title(selections, i), names[i])
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
				return fmt.Errorf("%s asks for address %q, which %w", title(selections, i), ip, err)
			}
			if other, taken := owner[addr]; taken {
				return fmt.Errorf("%s and %s both ask for address %s: give each address once", title(selections, other), title(selections, i), addr)
			}
			owner[addr] = i
		}
	}
	return nil
}

// title names a selection in messages by position and network.
func title(selections []Selection, i int) string {
	return fmt.Sprintf("%s (%s)", element(i), selections[i].Network)
}
