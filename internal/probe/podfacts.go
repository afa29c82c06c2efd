package probe

import (
	"regexp"
	"slices"
	"strings"
)

var (
	// podGroup matches a pod's part of a cgroup's path: pod<UID> with cgroupfs, and
	// kubepods-…-pod<UID, with underscores>.slice with systemd. A static pod has a
	// hash as its UID.
	podGroup = regexp.MustCompile(`^(?:kubepods-(?:[a-z]+-)?)?pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})(?:\.slice)?$`)
	// containerGroup matches the part after it: <ID> with cgroupfs, and
	// <runtime>-<ID>.scope with systemd. CRI-O's conmon, crio-conmon-<ID>, is next to
	// the containers and in the host's namespaces.
	containerGroup = regexp.MustCompile(`^(?:cri-containerd-|crio-|docker-)?([0-9a-f]{64})(?:\.scope)?$`)
)

// CgroupOf parses a pod's UID and a container's ID from a process's cgroup file. found is
// false for a process outside of pods. The path before the pod's part does not matter: in a
// cgroup namespace, it consists of dots.
func CgroupOf(file string) (pod, container string, found bool) {
	for line := range strings.Lines(file) {
		_, path, _ := strings.Cut(strings.TrimSpace(line), ":")
		_, path, _ = strings.Cut(path, ":")
		parts := strings.Split(path, "/")
		for i, part := range parts[:len(parts)-1] {
			uid := podGroup.FindStringSubmatch(part)
			id := containerGroup.FindStringSubmatch(parts[i+1])
			if uid != nil && id != nil {
				return strings.ReplaceAll(uid[1], "_", "-"), id[1], true
			}
		}
	}
	return "", "", false
}

// kept are the variables that name networks and devices. Others may be secret, and are not
// reported.
var (
	keptPrefixes = []string{"PCIDEVICE_", "KUBEVIRT_RESOURCE_NAME_"}
	kept         = []string{
		"GLOO_SOCKET_IFNAME", "NCCL_IB_GID_INDEX", "NCCL_IB_HCA", "NCCL_SOCKET_IFNAME", "NVSHMEM_HCA_LIST",
		"OMPI_MCA_btl_tcp_if_include", "OMPI_MCA_oob_tcp_if_include", "TP_SOCKET_IFNAME", "UCX_NET_DEVICES",
	}
)

// maxVariable limits a value in bytes. The values of a pod with eight devices have some KB.
const maxVariable = 32 << 10

// KeepVariable reports whether a variable is about networks and may be reported.
func KeepVariable(name string) bool {
	return slices.Contains(kept, name) || slices.ContainsFunc(keptPrefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}

// Variables returns the variables of an environ file that KeepVariable keeps, or nil.
func Variables(environ []byte) map[string]string {
	var out map[string]string
	for entry := range strings.SplitSeq(string(environ), "\x00") {
		name, value, _ := strings.Cut(entry, "=")
		if !KeepVariable(name) {
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[name] = strings.ToValidUTF8(value[:min(len(value), maxVariable)], "?")
	}
	return out
}

// LinkSysctls are sysctls of an interface, below net, that the plugin tuning commonly sets.
// IFNAME stands for the interface.
var LinkSysctls = func() []string {
	var out []string
	for _, name := range []string{
		"accept_local", "accept_redirects", "accept_source_route", "arp_accept", "arp_announce", "arp_filter", "arp_ignore",
		"arp_notify", "disable_policy", "forwarding", "proxy_arp", "rp_filter", "send_redirects", "src_valid_mark",
	} {
		out = append(out, "ipv4.conf.IFNAME."+name)
	}
	for _, name := range []string{
		"accept_dad", "accept_ra", "accept_redirects", "addr_gen_mode", "autoconf", "disable_ipv6", "forwarding",
		"keep_addr_on_down", "ndisc_notify", "optimistic_dad", "proxy_ndp", "use_tempaddr",
	} {
		out = append(out, "ipv6.conf.IFNAME."+name)
	}
	return out
}()

// PodSysctls are sysctls of a whole network namespace, below net.
var PodSysctls = []string{
	"core.somaxconn",
	"ipv4.conf.all.arp_announce", "ipv4.conf.all.arp_filter", "ipv4.conf.all.arp_ignore", "ipv4.conf.all.rp_filter",
	"ipv4.fib_multipath_hash_policy", "ipv4.ip_forward", "ipv4.ip_local_port_range", "ipv4.ip_nonlocal_bind",
	"ipv4.ip_unprivileged_port_start", "ipv4.ping_group_range", "ipv4.tcp_keepalive_intvl", "ipv4.tcp_keepalive_probes",
	"ipv4.tcp_keepalive_time", "ipv4.tcp_syncookies",
	"ipv6.conf.all.accept_ra", "ipv6.conf.all.disable_ipv6", "ipv6.conf.all.forwarding", "ipv6.ip_nonlocal_bind",
}
