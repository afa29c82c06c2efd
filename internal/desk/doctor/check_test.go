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
	{"kubernetes-version", Blocker, "v1.33.1", func(c *Capabilities) { c.Server.Version = "v1.33.1" }},
	{"kubernetes-version", Note, "v1.35.0+k3s1", func(c *Capabilities) { c.Server.Version, c.Server.Gates = "v1.35.0+k3s1", nil }},
	{"kubernetes-version", OK, "v1.35.0", func(c *Capabilities) { c.Server.Version = "v1.35.0" }},
	{"kubernetes-version", Blocker, "1.33", func(c *Capabilities) { c.Server.Emulated = "1.33" }},
	{"kubernetes-version", Unknown, `"dev"`, func(c *Capabilities) { c.Server.Version = "dev" }},
	{"dra-api", Blocker, "resource.k8s.io ", func(c *Capabilities) { c.Server.ResourceVersions = nil }},
	{"dra-api", Blocker, "v1beta1", func(c *Capabilities) { c.Server.ResourceVersions = []string{"v1beta1"} }},
	{"dra-api", Blocker, "deviceclasses", func(c *Capabilities) { c.Server.Resources = c.Server.Resources[1:] }},
	{"feature-gates", Note, "DRAConsumableCapacity", func(c *Capabilities) { c.Server.Gates["DRAConsumableCapacity"] = false }},
	{"feature-gates", Blocker, "DynamicResourceAllocation", func(c *Capabilities) { c.Server.Gates["DynamicResourceAllocation"] = false }},
	{"schedulers", Warning, "kueue (API group kueue.x-k8s.io)", func(c *Capabilities) {
		c.Components = []Component{{Name: "kueue", Kind: Scheduler, Where: "API group kueue.x-k8s.io"}}
	}},
	{"autoscalers", Warning, "karpenter (Deployment", func(c *Capabilities) {
		c.Components = []Component{{Name: "karpenter", Kind: Autoscaler, Where: "Deployment kube-system/karpenter"}}
	}},
	{"autoscalers", Unknown, "", func(c *Capabilities) { c.lose(PartComponents) }},
	{"autoscalers", Unknown, "", func(c *Capabilities) { c.lose(Autoscaler) }},
	{"schedulers", OK, "", func(c *Capabilities) { c.lose(Autoscaler) }},
	{"nadra-controller", OK, "", func(c *Capabilities) { c.lose(Autoscaler) }},
	{"nodes", Unknown, "not allowed to read it", func(c *Capabilities) {
		c.Nodes, c.Gaps = nil, []Gap{{Part: PartNodes, Reason: "not allowed to read it", Remedy: "the right to list nodes"}}
	}},
	{"nadra-driver", Note, "", func(c *Capabilities) { c.Nadra = nil }},
	{"nadra-driver", Blocker, "node-2", func(c *Capabilities) { c.own("node-2"); c.Nadra = nil }},
	{"nadra-driver", Blocker, "nadra/nadra-node selects no node", func(c *Capabilities) { c.Nadra.Ready, c.Nadra.Desired, c.Nadra.ReadyNodes = 0, 0, nil }},
	{"nadra-driver", Blocker, "none of 2 nodes", func(c *Capabilities) { c.Nadra.Ready, c.Nadra.ReadyNodes = 0, nil }},
	{"nadra-driver", Warning, "selects no node", func(c *Capabilities) {
		c.own()
		c.Nadra.Ready, c.Nadra.Desired, c.Nadra.ReadyNodes = 0, 0, nil
	}},
	{"nadra-driver", Blocker, "selects no node", func(c *Capabilities) {
		c.own("node-1")
		c.Nadra.Ready, c.Nadra.Desired, c.Nadra.ReadyNodes = 0, 0, nil
	}},
	{"nadra-driver", Blocker, "none of 2 nodes", func(c *Capabilities) {
		c.own("node-1")
		c.Nadra.Ready, c.Nadra.ReadyNodes = 0, nil
	}},
	// One lost node of nadra must not stop the move of the others.
	{"nadra-driver", Warning, ": node-2", func(c *Capabilities) {
		c.own("node-1", "node-2")
		c.Nadra.Ready, c.Nadra.ReadyNodes = 1, []string{"node-1"}
	}},
	// A DaemonSet whose node selector leaves out a node of nadra.
	{"nadra-driver", Warning, ": node-2", func(c *Capabilities) {
		c.own("node-2")
		c.Nadra.Ready, c.Nadra.Desired, c.Nadra.ReadyNodes = 1, 1, []string{"node-1"}
	}},
	{"nadra-driver", OK, "(1)", func(c *Capabilities) { c.own("node-2") }},
	{"nadra-driver", Note, "none of the checked nodes", func(c *Capabilities) { c.own("node-2"); *c = c.Of([]string{"node-1"}) }},
	{"nadra-driver", Unknown, "not read", func(c *Capabilities) { c.own("node-2"); c.Nadra.ReadyNodes = nil }}, // facts of an older version
	{"nadra-driver", Unknown, "", func(c *Capabilities) { c.own("node-2"); c.lose(PartPods) }},
	{"nadra-driver", Unknown, "", func(c *Capabilities) { c.own(); c.Nodes = nil; c.lose(PartNodes) }},
	{"nadra-driver", Warning, "1 of 2", func(c *Capabilities) { c.Nadra.Ready = 1 }},
	{"nadra-controller", Blocker, "nadra-system/nadra-controller has no ready replica of 0", func(c *Capabilities) { c.Controller.Ready, c.Controller.Desired = 0, 0 }},
	{"nadra-controller", Blocker, "no ready replica of 2", func(c *Capabilities) { c.Controller.Ready = 0 }},
	{"nadra-controller", Warning, "1 of 2", func(c *Capabilities) { c.Controller.Ready = 1 }},
	{"nadra-controller", Blocker, "(nadra-controller)", func(c *Capabilities) { c.Controller = nil }},
	{"nadra-webhook", Blocker, "nadra-system/nadra-webhook", func(c *Capabilities) { c.Webhook.Ready = 0 }},
	{"nadra-webhook", Blocker, "", func(c *Capabilities) { c.Webhook = nil }},
	{"nadra-webhook", Blocker, ": nadra-controller/pods", func(c *Capabilities) { c.Webhook.Untrusted = []string{"nadra-controller/pods.nadra.dev"} }},
	{"nadra-devices", Warning, "2 NetworkAttachmentDefinitions", func(c *Capabilities) { c.Published.Devices = 0 }},
	{"nadra-devices", Note, "none is nadra's", func(c *Capabilities) { c.own(); c.Published.Devices = 0 }},
	{"nadra-devices", Warning, "", func(c *Capabilities) { c.own("node-2"); c.Published.Devices = 0; *c = c.Of([]string{"node-1"}) }},
	{"waiting-pods", Unknown, "", func(c *Capabilities) { c.lose(PartClaims) }},
	{"waiting-pods", Note, "2 pods: a/x, b/y", func(c *Capabilities) { c.Waiting = []string{"a/x", "b/y"} }},
	{"network-configurations", Blocker, "ran/f1", func(c *Capabilities) { c.Networks[0].Error = "no JSON" }},
	{"network-configurations", Note, " 1 ", func(c *Capabilities) { c.Networks[0].OnNodes = true }},
	{"network-plugins", Blocker, "sriov (for ran/f1)", func(c *Capabilities) { c.Networks[0].Plugins = []string{"sriov"} }},
	{"network-masters", Warning, "eth9 (for ran/f1)", func(c *Capabilities) { c.Networks[0].Masters = []string{"eth9"} }},
	{"kubelet-version", Blocker, "v1.33.9", func(c *Capabilities) { c.Nodes[0].Kubelet = "v1.33.9" }},
	{"kubelet-version", Unknown, `""`, func(c *Capabilities) { c.Nodes[0].Kubelet = "" }},
	{"runtime-version", Warning, "1.7.20", func(c *Capabilities) { c.Nodes[0].Runtime = "containerd://1.7.20" }},
	{"runtime-version", Warning, "containerd 2.2.5", func(c *Capabilities) { c.Nodes[0].Runtime = "containerd://2.2.5" }},
	{"runtime-version", Warning, "containerd 2.3.2", func(c *Capabilities) { c.Nodes[0].Runtime = "containerd://2.3.2" }},
	{"runtime-version", OK, "containerd 2.3.3", func(c *Capabilities) { c.Nodes[0].Runtime = "containerd://2.3.3" }},
	{"runtime-version", Blocker, "containerd 1.6.9", func(c *Capabilities) { c.Nodes[0].Runtime = "containerd://1.6.9" }},
	{"runtime-version", Warning, "cri-o 1.35.0", func(c *Capabilities) { c.Nodes[0].Runtime = "cri-o://1.35.0" }},
	{"runtime-version", OK, "cri-o 1.36.3", func(c *Capabilities) { c.Nodes[0].Runtime = "cri-o://1.36.3" }},
	{"runtime-version", Unknown, `"main"`, func(c *Capabilities) { c.Nodes[0].Runtime = "cri-o://main" }},
	{"runtime-version", Blocker, "docker://27.1", func(c *Capabilities) { c.Nodes[0].Runtime = "docker://27.1" }},
	{"runtime-version", Unknown, "", func(c *Capabilities) { c.Nodes[0].Runtime = "" }},
	{"runtime-version", Unknown, `"main"`, func(c *Capabilities) { c.Nodes[0].Runtime = "containerd://main" }},
	{"kernel-version", Blocker, "5.10.0-28-amd64", func(c *Capabilities) { c.Nodes[0].Kernel = "5.10.0-28-amd64" }},
	{"kernel-version", Unknown, `"?"`, func(c *Capabilities) { c.Nodes[0].Kernel = "?" }},
	{"kubelet-gates", Blocker, "DynamicResourceAllocation", func(c *Capabilities) {
		c.Nodes[0].Config.FeatureGates = map[string]bool{"DynamicResourceAllocation": false}
	}},
	{"topology-manager", Warning, "single-numa-node, by pod", func(c *Capabilities) {
		c.Nodes[0].Config.TopologyManagerPolicy, c.Nodes[0].Config.TopologyManagerScope = "single-numa-node", "pod"
	}},
	{"topology-manager", OK, "none, with exclusive CPUs (static)", func(c *Capabilities) { c.Nodes[0].Config.CPUManagerPolicy = "static" }},
	{"topology-manager", Note, "best-effort", func(c *Capabilities) { c.Nodes[0].Config.TopologyManagerPolicy = "best-effort" }},
	{"nri", Blocker, "/run/nri.sock", func(c *Capabilities) { c.Nodes[0].Probe.NRI = probe.NRI{Socket: "/run/nri.sock"} }},
	{"nri", Blocker, "refused", func(c *Capabilities) { c.Nodes[0].Probe.NRI.Answers, c.Nodes[0].Probe.NRI.Error = false, "refused" }},
	{"nri-request-timeout", Warning, "500ms", func(c *Capabilities) { c.Nodes[0].Probe.NRI.RequestTimeoutMillis = 500 }},
	{"cdi", Blocker, "read-only", func(c *Capabilities) { c.Nodes[0].Probe.CDI[1].ReadOnly = true }},
	{"cdi", OK, "/var/run/cdi ", func(c *Capabilities) { c.Nodes[0].Probe.CDI[1].Found = false }},
	{"cdi", Unknown, "/srv/cdi", func(c *Capabilities) { c.Nadra.Args = append(c.Nadra.Args, "--cdi-dir=/srv/cdi") }},
	{"cni-plugins", Warning, "macvlan (for ran/f1)", func(c *Capabilities) {
		c.Nodes[0].Probe.BinDirs[0].Plugins = []string{"bridge", "dhcp", "host-local", "tuning"}
	}},
	{"cni-plugins", Warning, "macvlan", func(c *Capabilities) {
		c.Nodes[0].Probe.BinDirs[0].Plugins = []string{"bridge", "dhcp", "host-local", "tuning"}
		c.Nodes[0].Probe.BinDirs[0].NotExecutable = []string{"macvlan"}
	}},
	{"masters", Note, "eth1 (for ran/f1)", func(c *Capabilities) { c.Nodes[0].Probe.Interfaces = c.Nodes[0].Probe.Interfaces[:1] }},
	{"masters", OK, "eth0 (physical), eth1 (physical)", func(c *Capabilities) { c.Networks[0].Masters = nil }},
	{"cni-configuration", Blocker, "/etc/cni/net.d ", func(c *Capabilities) { c.Nodes[0].Probe.ConfDirs[0].Files = nil }},
	{"cni-configuration", Warning, "00-multus.conf.cilium_bak", func(c *Capabilities) { c.Nodes[0].Probe.ConfDirs[0].Others = []string{"00-multus.conf.cilium_bak"} }},
	{"cni-configuration", Warning, "no JSON", func(c *Capabilities) { c.Nodes[0].Probe.ConfDirs[0].Files[0].Error = "no JSON" }},
	{"cni-configuration", Warning, "/etc/cni/net.d/10-pods.conflist", func(c *Capabilities) {
		c.Nodes[0].Probe.ConfDirs[0].Files[0].Multus = &probe.MultusSettings{NamespaceIsolation: true, BinDir: "/opt/cni/bin"}
	}},
	{"cni-configuration", OK, "10-pods.conflist", func(c *Capabilities) { c.withMultusFile(probe.MultusSettings{}) }},
	{"dhcp-daemon", Warning, "shop/lan", func(c *Capabilities) { c.Nodes[0].Probe.DHCP = false }},
	{"probe-errors", Unknown, "listing /opt: denied", func(c *Capabilities) { c.Nodes[0].Probe.Errors = []string{"listing /opt: denied"} }},
	{"multus", OK, "", func(c *Capabilities) { c.Multus = nil }},
	{"multus", Note, "thin: kube-system/kube-multus-ds", func(c *Capabilities) { c.Multus[0].Thick = false }},
	{"multus-settings", Unknown, "", func(c *Capabilities) { c.Multus[0].Settings = nil }},
	{"multus-settings", Warning, "node-1; node-2", func(c *Capabilities) {
		c.withMultusFile(probe.MultusSettings{})
		c.Nodes[1].Probe.ConfDirs[0].Files[0].Multus = &probe.MultusSettings{ConfDir: "/etc/other"}
	}},
	{"multus-isolation", Warning, "namespaceIsolation", func(c *Capabilities) { c.Nadra = nil }},
	{"multus-isolation", Warning, "default,infra", func(c *Capabilities) { c.Multus[0].Settings.GlobalNamespaces = "default,infra" }},
	{"multus-isolation", Note, "", func(c *Capabilities) { c.Multus[0].Settings.NamespaceIsolation = false }},
	{"multus-isolation", OK, "", func(c *Capabilities) { c.Multus[0].Settings.NamespaceIsolation, c.Nadra = false, nil }},
	{"multus-default-networks", Warning, "infra/lan (kube-system/multus-daemon-config)", func(c *Capabilities) { c.Multus[0].Settings.DefaultNetworks = []string{"infra/lan"} }},
	{"multus-default-networks", Warning, "infra/lan (kube-system/multus-daemon-config); systemNamespaces: kube-system, infra (kube", func(c *Capabilities) {
		c.Multus[0].Settings.DefaultNetworks, c.Multus[0].Settings.SystemNamespaces = []string{"infra/lan"}, []string{"kube-system", "infra"}
	}},
	{"multus-default-networks", Warning, "2", func(c *Capabilities) { c.Multus[0].Settings.Delegates = 3 }},
	{"multus-cluster-network", Warning, "clusterNetwork: infra/pods", func(c *Capabilities) { c.Multus[0].Settings.ClusterNetwork = "infra/pods" }},
	{"multus-cluster-network", OK, "", func(c *Capabilities) { c.Multus[0].Settings.ClusterNetwork = "/host/etc/cni/net.d/10-pods.conflist" }},
	{"multus-directories", Warning, "", func(c *Capabilities) { c.Multus[0].Settings.BinDir = "/host/usr/libexec/cni/" }},
	{"multus-auxiliary-chain", Warning, "auxiliaryCNIChainName: extra", func(c *Capabilities) { c.Multus[0].Settings.AuxiliaryCNIChainName = "extra" }},
	{"static-pods", Warning, "infra/keepalived-node-1 (lan)", func(c *Capabilities) {
		c.StaticPods = []StaticPod{{Namespace: "infra", Name: "keepalived-node-1", Node: "node-1", Networks: "lan"}}
	}},
	{"policies", Warning, "a/x, b/y", func(c *Capabilities) {
		c.Policies = &Policies{Count: 1, Unseen: []string{"a/x", "b/y"}}
	}},
	{"policies", OK, "2 ", func(c *Capabilities) { c.Policies = &Policies{Count: 2} }},
	{"whereabouts", Note, "reconciler", func(c *Capabilities) { c.Whereabouts = &Whereabouts{} }},
	{"whereabouts", Warning, "service account kube-system/whereabouts", func(c *Capabilities) {
		c.Whereabouts = &Whereabouts{Blind: []string{"kube-system/whereabouts"}}
	}},
	{"whereabouts", Warning, "IPPools", func(c *Capabilities) { c.Networks[0].IPAM = []string{"whereabouts"} }},
}

// own has the driver serve labelled nodes only, and labels nodes.
func (c *Capabilities) own(nodes ...string) {
	c.Nadra.Args = append(c.Nadra.Args, "--owned-nodes=labelled")
	for i := range c.Nodes {
		if slices.Contains(nodes, c.Nodes[i].Name) {
			c.Nodes[i].Labels = map[string]string{"nadra.dev/owner": "nadra"}
		}
	}
}

// lose makes a part unread.
func (c *Capabilities) lose(part string) {
	c.Gaps = append(c.Gaps, Gap{Part: part, Reason: "not allowed to read it", Remedy: "the right to read " + part})
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
		if !bad[r.id] {
			t.Errorf("%s is never seen not ok", r.id)
		}
	}
}

// TestUnreadIsUnknown checks that what could not be read is not ok, and has a remedy.
func TestUnreadIsUnknown(t *testing.T) {
	for _, c := range Diagnose(fromOutside()) {
		switch {
		case c.Status != Unknown:
			t.Errorf("%s: %s %q", c.ID, c.Status, c.What)
		case c.Do == "":
			t.Errorf("%s has no remedy", c.ID)
		}
	}
}

// TestUnreadPartIsNeverOK takes one part after the other from a ready cluster: no check that looked at it is ok.
func TestUnreadPartIsNeverOK(t *testing.T) {
	for part, lost := range map[string]struct {
		change func(*Capabilities)
		checks []string
	}{
		PartNetworks:    {func(c *Capabilities) { c.Networks = nil }, []string{"network-configurations", "network-plugins", "network-masters", "cni-plugins", "masters", "dhcp-daemon"}},
		PartComponents:  {func(c *Capabilities) { c.Controller = nil }, []string{"schedulers", "autoscalers", "nadra-controller"}},
		PartPods:        {func(c *Capabilities) { c.own("node-1"); c.Nadra.ReadyNodes = nil }, []string{"static-pods", "waiting-pods", "nadra-driver"}},
		PartMultus:      {func(c *Capabilities) { c.Nadra, c.Multus = nil, nil }, []string{"multus", "nadra-driver"}},
		PartWebhook:     {func(c *Capabilities) { c.Webhook = nil }, []string{"nadra-webhook"}},
		PartSlices:      {func(c *Capabilities) { c.Published = nil }, []string{"nadra-devices"}},
		PartPolicies:    {func(c *Capabilities) { c.Policies = nil }, []string{"policies"}},
		PartWhereabouts: {func(*Capabilities) {}, []string{"whereabouts"}},
	} {
		c := ready()
		lost.change(&c)
		c.lose(part)
		for _, check := range Diagnose(c) {
			if slices.Contains(lost.checks, check.ID) && check.Status != Unknown {
				t.Errorf("%s unread: %s is %s %q", part, check.ID, check.Status, check.What)
			}
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
		if check.Object == "node-2" {
			t.Errorf("%s judges a Windows node", check.ID)
		}
	}
}
