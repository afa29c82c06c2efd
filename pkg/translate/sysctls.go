package translate

import (
	"slices"
	"strings"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// checkSysctls reports sysctls of the pod that name the interface of one of its networks. The container runtime writes
// them when it starts the sandbox: Multus has attached the networks by then, nadra attaches them after it.
func (r podRules) checkSysctls() {
	sysctls := r.pod.template.get("spec", "securityContext", "sysctls")
	names, err := attachment.InterfaceNames(r.selections)
	if err != nil {
		return // another finding says so
	}
	for _, item := range sysctls.items() {
		n := item.get("name")
		if i := slices.Index(names, sysctlInterface(n.str())); i >= 0 {
			r.addAt(SysctlOfInterface, spot{n.node, sysctls.path}, "%s: the pod has no interface %s before %s is attached", n.str(), names[i], r.selections[i].Network)
		}
	}
}

// sysctlInterface returns the interface of a sysctl such as net.ipv4.conf.net1.arp_filter, or an empty string. As in
// the kubelet, the first separator decides: in net/ipv4/conf/eth1.100/arp_filter and net.ipv4.conf.eth1/100.arp_filter
// the interface is eth1.100.
func sysctlInterface(name string) string {
	separator, dot := ".", "/"
	if i := strings.IndexAny(name, "./"); i >= 0 && name[i] == '/' {
		separator, dot = "/", "."
	}
	parts := strings.Split(name, separator)
	if len(parts) < 5 || parts[0] != "net" || parts[2] != "conf" && parts[2] != "neigh" {
		return ""
	}
	return strings.ReplaceAll(parts[3], dot, ".")
}
