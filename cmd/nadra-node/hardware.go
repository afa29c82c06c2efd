package main

import (
	"flag"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/nadra-dev/nadra/pkg/driver"
	"github.com/nadra-dev/nadra/pkg/pools"
)

// commonConfigs names the ConfigMaps that the device plugins' own manifests create. If a
// cluster has none of them, there are no resource pools.
var commonConfigs = []driver.PoolConfig{
	{Namespace: "kube-system", Name: "sriovdp-config", Optional: true},
	{Namespace: "kube-system", Name: "rdma-devices", Optional: true},
}

// addHardwareFlags adds the flags for resource pools.
func (o *options) addHardwareFlags(fs *flag.FlagSet) {
	fs.Var(&o.poolConfigs, "pool-config", "ConfigMap with a device plugin's configuration, whose resource pools the driver serves: namespace/name[:key][=prefix]; "+
		"may be repeated, and the first has precedence (default kube-system/sriovdp-config and kube-system/rdma-devices, if they exist, and none with --beside-multus, where device plugins serve the pools); none disables pools")
	fs.StringVar(&o.Hardware.PolicyNamespace, "sriov-policies", "", "namespace of SriovNetworkNodePolicies, which are resource pools after those of --pool-config; empty disables them")
	fs.StringVar(&o.Hardware.OperatorPrefix, "sriov-resource-prefix", pools.DefaultOperatorPrefix, "domain of the resources of sriov-network-operator, its RESOURCE_PREFIX")
	fs.StringVar(&o.sysRoot, "sysfs-root", "", "directory of the host's sysfs (default sys in --host-root)")
	fs.StringVar(&o.podSocket, "pod-resources-socket", "/var/lib/kubelet/pod-resources/kubelet.sock", "the kubelet's socket that reports the devices which device plugins have allocated, in the host; may be absent")
}

// hardware returns what the flags for resource pools ask for.
func (o *options) hardware() driver.Hardware {
	h := o.Hardware
	h.Configs = o.poolConfigs.list
	if !o.poolConfigs.given && !o.BesideMultus {
		h.Configs = commonConfigs
	}
	h.SysRoot = o.sysRoot
	if o.sysRoot == "" {
		h.SysRoot = filepath.Join(o.HostRoot, "sys")
	}
	h.PodResources = filepath.Join(o.HostRoot, o.podSocket)
	return h
}

// poolConfigs is the flag --pool-config.
type poolConfigs struct {
	list  []driver.PoolConfig
	given bool
}

func (p *poolConfigs) String() string {
	names := make([]string, 0, len(p.list))
	for _, c := range p.list {
		names = append(names, c.String())
	}
	return strings.Join(names, ",")
}

// Set reads namespace/name[:key][=prefix], or none.
func (p *poolConfigs) Set(text string) error {
	p.given = true
	if text == "none" {
		return nil
	}
	rest, prefix, _ := strings.Cut(text, "=")
	rest, key, _ := strings.Cut(rest, ":")
	namespace, name, ok := strings.Cut(rest, "/")
	if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
		return fmt.Errorf("%q is not namespace/name[:key][=prefix]", text)
	}
	p.list = append(p.list, driver.PoolConfig{Namespace: namespace, Name: name, Key: key, Prefix: prefix})
	return nil
}
