package doctor

import (
	"slices"
	"strings"
	"testing"

	"github.com/nadra-dev/nadra/internal/probe"
)

// changes are changes of a ready cluster, and what a check reports about them.
var changes = []struct {
	id     string
	status Status
	what   string
	change func(*Capabilities)
}{
	{"kubernetes-version", Blocker, "v1.33.1 is older than 1.34", func(c *Capabilities) { c.Server.Version = "v1.33.1" }},
	{"kubernetes-version", Note, "v1.35.0+k3s1 has no shared devices", func(c *Capabilities) { c.Server.Version, c.Server.Gates = "v1.35.0+k3s1", nil }},
	{"kubernetes-version", OK, "v1.35.0", func(c *Capabilities) { c.Server.Version = "v1.35.0" }},
	{"kubernetes-version", Blocker, "v1.36.3, which emulates 1.33 is older", func(c *Capabilities) { c.Server.Emulated = "1.33" }},
	{"kubernetes-version", Unknown, `"dev" is not a version`, func(c *Capabilities) { c.Server.Version = "dev" }},
	{"dra-api", Blocker, "is not served", func(c *Capabilities) { c.Server.ResourceVersions = nil }},
	{"dra-api", Blocker, "served as v1beta1, not as v1", func(c *Capabilities) { c.Server.ResourceVersions = []string{"v1beta1"} }},
	{"dra-api", Blocker, "lacks deviceclasses", func(c *Capabilities) { c.Server.Resources = c.Server.Resources[1:] }},
	{"feature-gates", Note, "off: DRAConsumableCapacity (a device is a number of copies", func(c *Capabilities) { c.Server.Gates["DRAConsumableCapacity"] = false }},
	{"feature-gates", Blocker, "DynamicResourceAllocation (nothing works)", func(c *Capabilities) { c.Server.Gates["DynamicResourceAllocation"] = false }},
	{"schedulers", Warning, "kueue (API group kueue.x-k8s.io)", func(c *Capabilities) {
		c.Components = []Component{{Name: "kueue", Kind: Scheduler, Where: "API group kueue.x-k8s.io"}}
	}},
	{"autoscalers", Warning, "karpenter (Deployment", func(c *Capabilities) {
		c.Components = []Component{{Name: "karpenter", Kind: Autoscaler, Where: "Deployment kube-system/karpenter"}}
	}},
	{"nodes", Unknown, "not allowed to read", func(c *Capabilities) {
		c.Nodes, c.Gaps = nil, []Gap{{Part: PartNodes, Reason: "not allowed to read it", Remedy: "the right to list nodes"}}
	}},
	{"nadra-driver", Note, "not installed", func(c *Capabilities) { c.Nadra = nil }},
	{"nadra-driver", Warning, "ready on 1 of 2 nodes", func(c *Capabilities) { c.Nadra.Ready = 1 }},
	{"network-configurations", Blocker, "1 network of 2 cannot be read: ran/f1", func(c *Capabilities) { c.Networks[0].Error = "no JSON" }},
	{"network-configurations", Note, "of 1 are files on the nodes", func(c *Capabilities) { c.Networks[0].OnNodes = true }},
	{"network-plugins", Blocker, "none of 2 probed nodes: sriov (for ran/f1)", func(c *Capabilities) { c.Networks[0].Plugins = []string{"sriov"} }},
	{"network-masters", Warning, "none of 2 probed nodes: eth9 (for ran/f1)", func(c *Capabilities) { c.Networks[0].Masters = []string{"eth9"} }},
	{"node-system", Note, "nadra does not run on windows", func(c *Capabilities) { c.Nodes[0].OS = "windows" }},
	{"kubelet-version", Blocker, "v1.33.9 is older", func(c *Capabilities) { c.Nodes[0].Kubelet = "v1.33.9" }},
	{"kubelet-version", Unknown, "is not a version", func(c *Capabilities) { c.Nodes[0].Kubelet = "" }},
	{"runtime-version", Warning, "may not start again after many; NRI is off by default", func(c *Capabilities) { c.Nodes[0].Runtime = "containerd://1.7.20" }},
	{"runtime-version", Warning, "containerd 2.2.5 leaves a sandbox's process and its record behind", func(c *Capabilities) { c.Nodes[0].Runtime = "containerd://2.2.5" }},
	{"runtime-version", Warning, "containerd 2.3.2 leaves a sandbox's process and its record behind", func(c *Capabilities) { c.Nodes[0].Runtime = "containerd://2.3.2" }},
	{"runtime-version", OK, "containerd 2.3.3", func(c *Capabilities) { c.Nodes[0].Runtime = "containerd://2.3.3" }},
	{"runtime-version", Blocker, "containerd 1.6.9 has no NRI", func(c *Capabilities) { c.Nodes[0].Runtime = "containerd://1.6.9" }},
	{"runtime-version", Warning, "nadra's tests do not cover it", func(c *Capabilities) { c.Nodes[0].Runtime = "cri-o://1.35.0" }},
	{"runtime-version", OK, "cri-o 1.36.3", func(c *Capabilities) { c.Nodes[0].Runtime = "cri-o://1.36.3" }},
	{"runtime-version", Unknown, `"main" is not a version of CRI-O`, func(c *Capabilities) { c.Nodes[0].Runtime = "cri-o://main" }},
	{"runtime-version", Blocker, "docker://27.1 is not known to have NRI", func(c *Capabilities) { c.Nodes[0].Runtime = "docker://27.1" }},
	{"runtime-version", Unknown, "does not report", func(c *Capabilities) { c.Nodes[0].Runtime = "" }},
	{"runtime-version", Unknown, `"main" is not a version`, func(c *Capabilities) { c.Nodes[0].Runtime = "containerd://main" }},
	{"kernel-version", Blocker, "5.10.0-28-amd64 is older", func(c *Capabilities) { c.Nodes[0].Kernel = "5.10.0-28-amd64" }},
	{"kernel-version", Unknown, "is not a version", func(c *Capabilities) { c.Nodes[0].Kernel = "?" }},
	{"kubelet-gates", Blocker, "off: DynamicResourceAllocation", func(c *Capabilities) {
		c.Nodes[0].Config.FeatureGates = map[string]bool{"DynamicResourceAllocation": false}
	}},
	{"topology-manager", Warning, "single-numa-node, by pod", func(c *Capabilities) {
		c.Nodes[0].Config.TopologyManagerPolicy, c.Nodes[0].Config.TopologyManagerScope = "single-numa-node", "pod"
	}},
	{"topology-manager", Note, "best-effort", func(c *Capabilities) { c.Nodes[0].Config.TopologyManagerPolicy = "best-effort" }},
	{"cpu-manager", Note, "static: pods of class Guaranteed", func(c *Capabilities) { c.Nodes[0].Config.CPUManagerPolicy = "static" }},
	{"nri", Blocker, "no socket at", func(c *Capabilities) { c.Nodes[0].Probe.NRI = probe.NRI{Socket: "/run/nri.sock"} }},
	{"nri", Blocker, "does not answer: refused", func(c *Capabilities) { c.Nodes[0].Probe.NRI.Answers, c.Nodes[0].Probe.NRI.Error = false, "refused" }},
	{"nri-request-timeout", Warning, "500ms", func(c *Capabilities) { c.Nodes[0].Probe.NRI.RequestTimeoutMillis = 500 }},
	{"cdi", Blocker, "read-only", func(c *Capabilities) { c.Nodes[0].Probe.CDI[1].ReadOnly = true }},
	{"cdi", OK, "does not exist yet", func(c *Capabilities) { c.Nodes[0].Probe.CDI[1].Found = false }},
	{"cdi", Unknown, "the probe did not look at /srv/cdi", func(c *Capabilities) { c.Nadra.Args = append(c.Nadra.Args, "--cdi-dir=/srv/cdi") }},
	{"cni-plugins", Warning, "not in /opt/cni/bin: macvlan (for ran/f1)", func(c *Capabilities) {
		c.Nodes[0].Probe.BinDirs[0].Plugins = []string{"bridge", "dhcp", "host-local", "tuning"}
	}},
	{"cni-plugins", Warning, "which exists and is not executable", func(c *Capabilities) {
		c.Nodes[0].Probe.BinDirs[0].Plugins = []string{"bridge", "dhcp", "host-local", "tuning"}
		c.Nodes[0].Probe.BinDirs[0].NotExecutable = []string{"macvlan"}
	}},
	{"masters", Note, "lacks eth1 (for ran/f1); has eth0 (physical)", func(c *Capabilities) { c.Nodes[0].Probe.Interfaces = c.Nodes[0].Probe.Interfaces[:1] }},
	{"masters", OK, "need none; has eth0 (physical), eth1 (physical)", func(c *Capabilities) { c.Networks[0].Masters = nil }},
	{"cni-configuration", Blocker, "has no configuration", func(c *Capabilities) { c.Nodes[0].Probe.ConfDirs[0].Files = nil }},
	{"cni-configuration", Warning, "Cilium has renamed", func(c *Capabilities) { c.Nodes[0].Probe.ConfDirs[0].Others = []string{"00-multus.conf.cilium_bak"} }},
	{"cni-configuration", Warning, "cannot be read: no JSON", func(c *Capabilities) { c.Nodes[0].Probe.ConfDirs[0].Files[0].Error = "no JSON" }},
	{"cni-configuration", Warning, "there is no other", func(c *Capabilities) {
		c.Nodes[0].Probe.ConfDirs[0].Files[0].Multus = &probe.MultusSettings{NamespaceIsolation: true, BinDir: "/opt/cni/bin"}
	}},
	{"cni-configuration", Note, "without it, the runtime uses 10-pods.conflist", func(c *Capabilities) { c.withMultusFile(probe.MultusSettings{}) }},
	{"dhcp-daemon", Warning, "1 network need it: shop/lan", func(c *Capabilities) { c.Nodes[0].Probe.DHCP = false }},
	{"host-local", OK, "0 addresses of 0 networks", func(c *Capabilities) { c.Nodes[0].Probe.HostLocal = nil }},
	{"probe-errors", Unknown, "listing /opt: denied", func(c *Capabilities) { c.Nodes[0].Probe.Errors = []string{"listing /opt: denied"} }},
	{"multus", OK, "found no Multus", func(c *Capabilities) { c.Multus = nil }},
	{"multus", Note, "thin: kube-system/kube-multus-ds", func(c *Capabilities) { c.Multus[0].Thick = false }},
	{"multus-settings", Unknown, "neither a ConfigMap nor flags", func(c *Capabilities) { c.Multus[0].Settings = nil }},
	{"multus-settings", Warning, "they differ: node-1; node-2", func(c *Capabilities) {
		c.withMultusFile(probe.MultusSettings{})
		c.Nodes[1].Probe.ConfDirs[0].Files[0].Multus = &probe.MultusSettings{ConfDir: "/etc/other"}
	}},
	{"multus-isolation", Warning, "namespaceIsolation is on", func(c *Capabilities) { c.Nadra = nil }},
	{"multus-isolation", Warning, "Multus shares the networks of default,infra, nadra those of default", func(c *Capabilities) { c.Multus[0].Settings.GlobalNamespaces = "default,infra" }},
	{"multus-isolation", Note, "and nadra does", func(c *Capabilities) { c.Multus[0].Settings.NamespaceIsolation = false }},
	{"multus-isolation", OK, "it is off", func(c *Capabilities) { c.Multus[0].Settings.NamespaceIsolation, c.Nadra = false, nil }},
	{"multus-default-networks", Warning, "infra/lan (kube-system/multus-daemon-config)", func(c *Capabilities) { c.Multus[0].Settings.DefaultNetworks = []string{"infra/lan"} }},
	{"multus-default-networks", Warning, "2 delegates after the first", func(c *Capabilities) { c.Multus[0].Settings.Delegates = 3 }},
	{"multus-system-namespaces", Note, "kube-system, infra", func(c *Capabilities) { c.Multus[0].Settings.SystemNamespaces = []string{"kube-system", "infra"} }},
	{"multus-cluster-network", Warning, "clusterNetwork: infra/pods", func(c *Capabilities) { c.Multus[0].Settings.ClusterNetwork = "infra/pods" }},
	{"multus-cluster-network", OK, "the runtime's own", func(c *Capabilities) { c.Multus[0].Settings.ClusterNetwork = "/host/etc/cni/net.d/10-pods.conflist" }},
	{"multus-directories", Warning, "other directories", func(c *Capabilities) { c.Multus[0].Settings.BinDir = "/host/usr/libexec/cni/" }},
	{"multus-auxiliary-chain", Warning, "auxiliaryCNIChainName: extra", func(c *Capabilities) { c.Multus[0].Settings.AuxiliaryCNIChainName = "extra" }},
	{"static-pods", Warning, "infra/keepalived-node-1 (lan)", func(c *Capabilities) {
		c.StaticPods = []StaticPod{{Namespace: "infra", Name: "keepalived-node-1", Node: "node-1", Networks: "lan"}}
	}},
	{"policies", Warning, "1 MultiNetworkPolicy, and 2 pods with networks by a claim without the annotation: a/x, b/y", func(c *Capabilities) {
		c.Policies = &Policies{Count: 1, Unseen: []string{"a/x", "b/y"}}
	}},
	{"policies", OK, "2 MultiNetworkPolicies; every pod", func(c *Capabilities) { c.Policies = &Policies{Count: 2} }},
	{"ipam", OK, "no network gives addresses", func(c *Capabilities) { c.Networks = nil }},
	{"whereabouts", Note, "1 pool with 2 addresses allocated, 2 reservations", func(c *Capabilities) { c.Whereabouts = &Whereabouts{Pools: 1, Addresses: 2, Reservations: 2} }},
	{"whereabouts", Warning, "may not get pods, so it frees the addresses of pods whose networks are being attached: service account kube-system/whereabouts", func(c *Capabilities) {
		c.Whereabouts = &Whereabouts{Pools: 1, Blind: []string{"kube-system/whereabouts"}}
	}},
	{"whereabouts", Warning, "has no IPPools", func(c *Capabilities) { c.Networks[0].IPAM = []string{"whereabouts"} }},
}

// withMultusFile puts Multus' configuration before the others on all nodes.
func (c *Capabilities) withMultusFile(s probe.MultusSettings) {
	for i := range c.Nodes {
		dir := &c.Nodes[i].Probe.ConfDirs[0]
		dir.Files = append([]probe.ConfFile{{File: "00-multus.conf", Plugins: []string{"multus-shim"}, Multus: &s}}, dir.Files...)
	}
}

// find returns the first check of an ID.
func find(checks []Check, id string) *Check {
	i := slices.IndexFunc(checks, func(c Check) bool { return c.ID == id })
	if i < 0 {
		return nil
	}
	return &checks[i]
}

// checked returns a check of a cluster, which must have a status and an observation.
func checked(t *testing.T, c Capabilities, id string, status Status, what string) *Check {
	t.Helper()
	got := find(Diagnose(c), id)
	if got == nil {
		t.Fatal("there is no such check")
	}
	if got.Status != status || !strings.Contains(got.What, what) {
		t.Fatalf("%s %q, want %s %q", got.Status, got.What, status, what)
	}
	return got
}

func TestChecks(t *testing.T) {
	for _, test := range changes { // besideChanges have a test of their own
		t.Run(test.id+" "+test.what, func(t *testing.T) {
			c := ready()
			test.change(&c)
			switch got := checked(t, c, test.id, test.status, test.what); {
			case got.Status != OK && got.Why == "":
				t.Error("it has no Why")
			case (got.Status == Warning || got.Status == Blocker) && got.Do == "":
				t.Error("it has no Do")
			}
		})
	}
}

// TestReady checks that a ready cluster has nothing but notes.
func TestReady(t *testing.T) {
	for _, c := range Diagnose(ready()) {
		if c.Status != OK && c.ID != "multus" {
			t.Errorf("%s %s: %s %q", c.ID, c.Object, c.Status, c.What)
		}
	}
}

// TestAllChecksAreTested checks that every check is seen ok and not ok.
func TestAllChecksAreTested(t *testing.T) {
	good, bad := map[string]bool{}, map[string]bool{}
	for _, test := range slices.Concat(changes, besideChanges) {
		good[test.id] = good[test.id] || test.status == OK
		bad[test.id] = bad[test.id] || test.status != OK
	}
	checks := Diagnose(ready())
	for _, r := range rules {
		if c := find(checks, r.id); !good[r.id] && c != nil && c.Status != OK {
			t.Errorf("%s is never seen ok", r.id)
		}
		if !bad[r.id] && r.id != "ipam" && r.id != "host-local" { // which only count
			t.Errorf("%s is never seen not ok", r.id)
		}
	}
}

// TestUnreadIsUnknown checks that what could not be read is not ok, and has a remedy.
func TestUnreadIsUnknown(t *testing.T) {
	for _, c := range Diagnose(fromOutside()) {
		switch {
		case c.ID == "node-system", c.ID == "nodes": // one node, of which nothing is known
		case c.Status != Unknown:
			t.Errorf("%s: %s %q", c.ID, c.Status, c.What)
		case c.Do == "":
			t.Errorf("%s has no remedy", c.ID)
		}
	}
}

// TestGapOfANode checks that the gap of one node comes before that of all nodes.
func TestGapOfANode(t *testing.T) {
	c := fromOutside()
	c.Gaps = append(c.Gaps, Gap{Part: PartProbe, Node: "node-1", Reason: "the image cannot be pulled", Remedy: "--image"})
	if got := find(Diagnose(c), "nri"); got.What != "the image cannot be pulled" || got.Do != "--image" {
		t.Errorf("check %+v", got)
	}
}

func TestSkippedOnOtherSystems(t *testing.T) {
	c := ready()
	c.Nodes[1].OS = "windows"
	for _, check := range Diagnose(c) {
		if check.Object == "node-2" && check.ID != "node-system" {
			t.Errorf("%s judges a Windows node", check.ID)
		}
	}
}
