package v1alpha1

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateIPs rejects invalid, repeated and too many addresses.
func validateIPs(ips []string, path *field.Path) field.ErrorList {
	errs := validateCount(path, len(ips), MaxIPs)
	seen := map[netip.Addr]bool{}
	for i, ip := range ips {
		addr, err := ParseIP(ip)
		switch {
		case err != nil:
			errs = append(errs, field.Invalid(path.Index(i), ip, err.Error()))
		case seen[addr]:
			errs = append(errs, field.Duplicate(path.Index(i), ip))
		}
		seen[addr] = true
	}
	return errs
}

// ParseIP parses an entry of AttachmentConfig.IPs: an address with or without a prefix
// length. It rejects the address of a network.
func ParseIP(s string) (netip.Addr, error) {
	if !strings.Contains(s, "/") {
		return parseAddr(s)
	}
	prefix, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Addr{}, errors.New("must be an IP address with or without a prefix length, e.g. 10.1.2.3/24 or fd00::3")
	}
	// Networks with the two longest prefixes have no network address (RFC 3021, RFC 6164).
	if prefix == prefix.Masked() && prefix.Bits() < prefix.Addr().BitLen()-1 {
		return netip.Addr{}, errors.New("is the address of a network: give a host's address in it")
	}
	return prefix.Addr().Unmap(), nil
}

// parseAddr parses an address and rejects one with a zone.
func parseAddr(s string) (netip.Addr, error) {
	addr, err := netip.ParseAddr(s)
	if err != nil || addr.Zone() != "" {
		return netip.Addr{}, errors.New("must be an IP address, e.g. 10.1.2.3 or fd00::3")
	}
	return addr.Unmap(), nil
}

// macSize and guidSize are the numbers of bytes of a MAC address and of an InfiniBand GUID.
const macSize, guidSize = 6, 8

// validateHardwareAddress rejects hardware addresses of another size, and those that no interface can have: zero, and
// MAC addresses of groups (IEEE 802).
func validateHardwareAddress(s string, size int, path *field.Path) field.ErrorList {
	if s == "" {
		return nil
	}
	var why string
	switch addr, err := net.ParseMAC(s); {
	case err != nil || len(addr) != size:
		why = fmt.Sprintf("must be %d bytes in hexadecimal with colons between them", size)
	case !slices.ContainsFunc(addr, func(b byte) bool { return b != 0 }):
		why = "must not be zero"
	case size == macSize && addr[0]&1 == 1:
		why = "is the address of a group, which no interface can have: the first byte must be even, e.g. 02"
	default:
		return nil
	}
	return field.ErrorList{field.Invalid(path, s, why)}
}

// validateDefaultRoute rejects gateways that are not addresses, and too many of them.
func validateDefaultRoute(gateways *[]string, path *field.Path) field.ErrorList {
	if gateways == nil {
		return nil
	}
	errs := validateCount(path, len(*gateways), MaxDefaultRoutes)
	for i, gateway := range *gateways {
		if _, err := parseAddr(gateway); err != nil {
			errs = append(errs, field.Invalid(path.Index(i), gateway, err.Error()))
		}
	}
	return errs
}

// validatePortMappings rejects ports out of range, unknown protocols, invalid host IPs, and too many mappings.
func validatePortMappings(mappings []PortMapping, path *field.Path) field.ErrorList {
	errs := validateCount(path, len(mappings), MaxPortMappings)
	for i, m := range mappings {
		path := path.Index(i)
		errs = append(errs, validatePort(m.HostPort, path.Child("hostPort"))...)
		errs = append(errs, validatePort(m.ContainerPort, path.Child("containerPort"))...)
		if protocols := []string{"tcp", "udp", "sctp"}; m.Protocol != "" && !slices.Contains(protocols, strings.ToLower(m.Protocol)) {
			errs = append(errs, field.NotSupported(path.Child("protocol"), m.Protocol, protocols))
		}
		if _, err := parseAddr(m.HostIP); m.HostIP != "" && err != nil {
			errs = append(errs, field.Invalid(path.Child("hostIP"), m.HostIP, err.Error()))
		}
	}
	return errs
}

// validatePort rejects ports out of range.
func validatePort(port int32, path *field.Path) field.ErrorList {
	if port < 1 || port > 65535 {
		return field.ErrorList{field.Invalid(path, port, "must be between 1 and 65535")}
	}
	return nil
}

// validateBandwidth applies the standard's rule that a burst needs a rate (behaviour A2-21).
func validateBandwidth(b *Bandwidth, path *field.Path) field.ErrorList {
	if b == nil {
		return nil
	}
	errs := validateRate(b.IngressRate, b.IngressBurst, "ingress", path)
	return append(errs, validateRate(b.EgressRate, b.EgressBurst, "egress", path)...)
}

// validateRate rejects negative values and a burst without a rate.
func validateRate(rate, burst int64, direction string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if rate < 0 {
		errs = append(errs, field.Invalid(path.Child(direction+"Rate"), rate, "must not be negative"))
	}
	if burst < 0 {
		errs = append(errs, field.Invalid(path.Child(direction+"Burst"), burst, "must not be negative"))
	}
	if burst > 0 && rate == 0 {
		errs = append(errs, field.Invalid(path.Child(direction+"Burst"), burst, "needs "+direction+"Rate"))
	}
	return errs
}
