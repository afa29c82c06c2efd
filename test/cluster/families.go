package cluster

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// familiesVariable chooses the families of IP of every cluster's nodes, services and pods:
// "ipv6", "dual" with IPv4 first, or empty for IPv4.
const familiesVariable = "NADRA_FAMILIES"

// family has the addresses of every cluster in one family of IP. They exist only in its own
// namespaces, so that clusters do not disturb each other.
type family struct {
	controlPlane string
	service      string // the first of serviceCIDR, where pods expect the API server
	serviceCIDR  string
	any          string // the address of all interfaces
	nodes, pods  string // formats, of a node's number
	nodeBits     int    // of the network of the nodes
}

var (
	ipv4 = family{
		controlPlane: "10.99.0.254", service: "10.97.0.1", serviceCIDR: "10.97.0.0/24", any: "0.0.0.0",
		nodes: "10.99.0.%d", pods: "10.98.%d.0/24", nodeBits: 24,
	}
	ipv6 = family{
		controlPlane: "fd00:99::fe:1", service: "fd00:97::1", serviceCIDR: "fd00:97::/112", any: "::",
		nodes: "fd00:99::%x", pods: "fd00:98:0:%x::/64", nodeBits: 64,
	}
)

func (f family) nodeIP(number int) string  { return fmt.Sprintf(f.nodes, number) }
func (f family) podCIDR(number int) string { return fmt.Sprintf(f.pods, number) }

// inNodes returns an address with the length of the nodes' network.
func (f family) inNodes(ip string) string { return fmt.Sprintf("%s/%d", ip, f.nodeBits) }

// host returns an address as a network of its own.
func host(ip string) string {
	addr := netip.MustParseAddr(ip)
	return netip.PrefixFrom(addr, addr.BitLen()).String()
}

// families are those of a cluster, the first one first.
type families []family

// familiesOf has all choices of families by their names.
var familiesOf = map[string]families{"": {ipv4}, "ipv6": {ipv6}, "dual": {ipv4, ipv6}}

// checkFamilies refuses families that do not exist, and those that guests cannot have.
func checkFamilies(o Options) error {
	if familiesOf[o.Families] == nil {
		return fmt.Errorf("%s is %q: it must be ipv6, dual or empty", familiesVariable, o.Families)
	}
	if o.Families != "" && o.Guests > 0 {
		return fmt.Errorf("%s is %q: guests have IPv4 only", familiesVariable, o.Families)
	}
	return nil
}

// families returns the cluster's families of IP.
func (o Options) families() families { return familiesOf[o.Families] }

// all returns a value of each family.
func (f families) all(value func(family) string) []string {
	out := make([]string, 0, len(f))
	for _, one := range f {
		out = append(out, value(one))
	}
	return out
}

// joined returns the same, separated by commas.
func (f families) joined(value func(family) string) string { return strings.Join(f.all(value), ",") }

// nodeIPs returns the addresses of a node, separated by commas.
func (f families) nodeIPs(number int) string {
	return f.joined(func(one family) string { return one.nodeIP(number) })
}

// podCIDRs returns the networks of a node's pods.
func (f families) podCIDRs(number int) []string {
	return f.all(func(one family) string { return one.podCIDR(number) })
}

// anyAddress returns the address of all interfaces, in all families.
func (f families) anyAddress() string { return f[len(f)-1].any }

// server returns the address of the API server.
func (f families) server() string { return "https://" + net.JoinHostPort(f[0].controlPlane, "443") }

// Families returns the cluster's families of IP: "", "ipv6" or "dual".
func (c *Cluster) Families() string { return c.options.Families }
