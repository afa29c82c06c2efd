package main

import (
	"flag"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/nadra-dev/nadra/pkg/driver"
	"github.com/nadra-dev/nadra/pkg/pools"
)

// commonConfigs are where the device plugins' own manifests put their
// configurations. On a cluster without them there is nothing to serve.
var commonConfigs = []driver.PoolConfig{
	{Namespace: "kube-system", Name: "sriovdp-config", Optional: true},
	{Namespace: "kube-system", Name: "rdma-devices", Optional: true},
}

func (o *options) hardwareFlags(fs *flag.FlagSet) {
	fs.Var(&o.poolConfigs, "pool-config", "ConfigMap with a device plugin's configuration, of which the resource pools are served: namespace/name[:key][=prefix]; "+
		"may be repeated, the first has precedence (default kube-system/sriovdp-config and kube-system/rdma-devices, if they exist); none for no pools")
	fs.StringVar(&o.Hardware.PolicyNamespace, "sriov-policies", "", "namespace whose SriovNetworkNodePolicies are resource pools, after those of --pool-config; empty for none")
	fs.StringVar(&o.Hardware.OperatorPrefix, "sriov-resource-prefix", pools.DefaultOperatorPrefix, "domain of the resources of sriov-network-operator: its RESOURCE_PREFIX")
	fs.StringVar(&o.sysRoot, "sysfs-root", "", "where the host's sysfs is seen (default sys in --host-root)")
	fs.StringVar(&o.podSocket, "pod-resources-socket", "/var/lib/kubelet/pod-resources/kubelet.sock", "the kubelet's socket that tells what device plugins have given to pods, in the host; if it is not there, nothing")
}

// setHardware completes what the flags say.
func (o *options) setHardware() {
	o.Hardware.Configs = o.poolConfigs.list
	if !o.poolConfigs.given {
		o.Hardware.Configs = commonConfigs
	}
	o.Hardware.SysRoot = o.sysRoot
	if o.sysRoot == "" {
		o.Hardware.SysRoot = filepath.Join(o.HostRoot, "sys")
	}
	o.Hardware.PodResources = filepath.Join(o.HostRoot, o.podSocket)
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
