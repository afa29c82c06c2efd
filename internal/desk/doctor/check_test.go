package doctor

import (
	"slices"
	"strings"
	"testing"

	"github.com/nadra-dev/nadra/internal/probe"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// changes are changes of a ready cluster, and what a check reports about them.
var changes = []struct {
	id     string
	status translate.Severity
	what   string
	change func(*Capabilities)
}{
	{"kubernetes-version", translate.Blocker, "v1.33.1", func(c *Capabilities) { c.Server.Version = "v1.33.1" }},
	{"kubernetes-version", translate.Info, "v1.35.0+k3s1", func(c *Capabilities) { c.Server.Version, c.Server.Gates = "v1.35.0+k3s1", nil }},
	{"kubernetes-version", OK, "v1.35.0", func(c *Capabilities) { c.Server.Version = "v1.35.0" }},
	{"kubernetes-version", translate.Blocker, "1.33", func(c *Capabilities) { c.Server.Emulated = "1.33" }},
	{"kubernetes-version", Unknown, `"dev"`, func(c *Capabilities) { c.Server.Version = "dev" }},
	{"dra-api", translate.Blocker, "resource.k8s.io ", func(c *Capabilities) { c.Server.ResourceVersions = nil }},
	{"dra-api", translate.Blocker, "v1beta1", func(c *Capabilities) { c.Server.ResourceVersions = []string{"v1beta1"} }},
	{"dra-api", translate.Blocker, "deviceclasses", func(c *Capabilities) { c.Server.Resources = c.Server.Resources[1:] }},
	{"feature-gates", translate.Info, "DRAConsumableCapacity", func(c *Capabilities) { c.Server.Gates["DRAConsumableCapacity"] = false }},
	{"feature-gates", translate.Blocker, "DynamicResourceAllocation", func(c *Capabilities) { c.Server.Gates["DynamicResourceAllocation"] = false }},
	{"schedulers", translate.Warning, "kueue (API group kueue.x-k8s.io)", func(c *Capabilities) {
		c.Components = []Component{{Name: "kueue", Kind: Scheduler, Where: "API group kueue.x-k8s.io"}}
	}},
	{"autoscalers", translate.Warning, "karpenter (Deployment", func(c *Capabilities) {
		c.Components = []Component{{Name: "karpenter", Kind: Autoscaler, Where: "Deployment kube-system/karpenter"}}
	}},
	{"autoscalers", Unknown, "", func(c *Capabilities) { c.lose(PartComponents) }},
	{"autoscalers", Unknown, "", func(c *Capabilities) { c.lose(Autoscaler) }},
	{"schedulers", OK, "", func(c *Capabilities) { c.lose(Autoscaler) }},
	{"nadra-controller", OK, "", func(c *Capabilities) { c.lose(Autoscaler) }},
	{"nodes", Unknown, "not allowed to read it", func(c *Capabilities) {
		c.Nodes, c.Gaps = nil, []Gap{{Part: PartNodes, Reason: "not allowed to read it", Remedy: "the right to list nodes"}}
	}},
	{"nadra-driver", translate.Info, "", func(c *Capabilities) { c.Nadra = nil }},
	{"nadra-driver", translate.Blocker, "node-2", func(c *Capabilities) { c.own("node-2"); c.Nadra = nil }},
	{"nadra-driver", translate.Blocker, "nadra/nadra-node selects no node", func(c *Capabilities) { c.Nadra.Ready, c.Nadra.Desired, c.Nadra.ReadyNodes = 0, 0, nil }},
	{"nadra-driver", translate.Blocker, "none of 2 nodes", func(c *Capabilities) { c.Nadra.Ready, c.Nadra.ReadyNodes = 0, nil }},
	{"nadra-driver", translate.Warning, "selects no node", func(c *Capabilities) {
		c.own()
		c.Nadra.Ready, c.Nadra.Desired, c.Nadra.ReadyNodes = 0, 0, nil
	}},
	{"nadra-driver", translate.Blocker, "selects no node", func(c *Capabilities) {
		c.own("node-1")
		c.Nadra.Ready, c.Nadra.Desired, c.Nadra.ReadyNodes = 0, 0, nil
	}},
	{"nadra-driver", translate.Blocker, "none of 2 nodes", func(c *Capabilities) {
		c.own("node-1")
		c.Nadra.Ready, c.Nadra.ReadyNodes = 0, nil
	}},
	// One lost node of nadra must not stop the move of the others.
	{"nadra-driver", translate.Warning, ": node-2", func(c *Capabilities) {
		c.own("node-1", "node-2")
		c.Nadra.Ready, c.Nadra.ReadyNodes = 1, []string{"node-1"}
	}},
	// A DaemonSet whose node selector leaves out a node of nadra.
	{"nadra-driver", translate.Warning, ": node-2", func(c *Capabilities) {
		c.own("node-2")
		c.Nadra.Ready, c.Nadra.Desired, c.Nadra.ReadyNodes = 1, 1, []string{"node-1"}
	}},
	{"nadra-driver", OK, "(1)", func(c *Capabilities) { c.own("node-2") }},
	{"nadra-driver", translate.Info, "none of the checked nodes", func(c *Capabilities) { c.own("node-2"); *c = c.Of([]string{"node-1"}) }},
	{"nadra-driver", Unknown, "not read", func(c *Capabilities) { c.own("node-2"); c.Nadra.ReadyNodes = nil }}, // facts of an older version
	{"nadra-driver", Unknown, "", func(c *Capabilities) { c.own("node-2"); c.lose(PartPods) }},
	{"nadra-driver", Unknown, "", func(c *Capabilities) { c.own(); c.Nodes = nil; c.lose(PartNodes) }},
	{"nadra-driver", translate.Warning, "1 of 2", func(c *Capabilities) { c.Nadra.Ready = 1 }},
	{"nadra-controller", translate.Blocker, "nadra-system/nadra-controller has no ready replica of 0", func(c *Capabilities) { c.Controller.Ready, c.Controller.Desired = 0, 0 }},
	{"nadra-controller", translate.Blocker, "no ready replica of 2", func(c *Capabilities) { c.Controller.Ready = 0 }},
	{"nadra-controller", translate.Warning, "1 of 2", func(c *Capabilities) { c.Controller.Ready = 1 }},
	{"nadra-controller", translate.Blocker, "(nadra-controller)", func(c *Capabilities) { c.Controller = nil }},
	{"nadra-webhook", translate.Blocker, "nadra-system/nadra-webhook", func(c *Capabilities) { c.Webhook.Ready = 0 }},
	{"nadra-webhook", translate.Blocker, "", func(c *Capabilities) { c.Webhook = nil }},
	{"nadra-webhook", translate.Blocker, ": nadra-controller/pods", func(c *Capabilities) { c.Webhook.Untrusted = []string{"nadra-controller/pods.nadra.dev"} }},
	{"nadra-devices", translate.Warning, "1 of 2 networks are offered by no node: ran/f1", func(c *Capabilities) { c.Published.Unoffered = []string{"ran/f1"} }},
	{"nadra-devices", translate.Warning, "2 of 2 networks are offered by no node: ran/f1", func(c *Capabilities) { c.Published = &Published{} }}, // in a file of an older version
	{"nadra-devices", OK, "0 devices", func(c *Capabilities) { c.Published = &Published{Unoffered: []string{}} }},
	{"nadra-devices", Unknown, "", func(c *Capabilities) { c.Nadra = nil; c.lose(PartMultus) }},
	{"nadra-devices", translate.Warning, "1 of 2 networks are offered by no node: ran/f1", func(c *Capabilities) {
		c.own("node-1", "node-2")
		c.Multus = []Multus{{DaemonSet: "kube-multus-ds"}}
		c.Published.Unoffered = []string{"ran/f1"}
	}},
	{"nadra-devices", translate.Info, "none is nadra's", func(c *Capabilities) { c.own(); c.Published = &Published{} }},
	{"nadra-devices", translate.Info, "1 of 2 networks are offered by no node: ran/f1", func(c *Capabilities) {
		c.own("node-2")
		c.Multus = []Multus{{DaemonSet: "kube-multus-ds"}}
		c.Published.Unoffered = []string{"ran/f1"}
	}},
	{"nadra-devices", translate.Warning, "", func(c *Capabilities) {
		c.own("node-2")
		c.Multus, c.Published.Unoffered = nil, []string{"ran/f1"}
		*c = c.Of([]string{"node-1"})
	}},
	{"waiting-pods", Unknown, "", func(c *Capabilities) { c.lose(PartClaims) }},
	{"waiting-pods", translate.Info, "2 pods: a/x, b/y", func(c *Capabilities) { c.Waiting = []string{"a/x", "b/y"} }},
	{"network-configurations", translate.Blocker, "ran/f1", func(c *Capabilities) { c.Networks[0].Error = "no JSON" }},
	{"network-configurations", translate.Info, " 1 ", func(c *Capabilities) { c.Networks[0].OnNodes = true }},
	{"network-plugins", translate.Blocker, "sriov (for ran/f1)", func(c *Capabilities) { c.Networks[0].Plugins = []string{"sriov"} }},
	{"network-masters", translate.Warning, "eth9 (for ran/f1)", func(c *Capabilities) { c.Networks[0].Masters = []string{"eth9"} }},
	{"kubelet-version", translate.Blocker, "v1.33.9", func(c *Capabilities) { c.Nodes[0].Kubelet = "v1.33.9" }},
	{"kubelet-version", Unknown, `""`, func(c *Capabilities) { c.Nodes[0].Kubelet = "" }},
	{"runtime-version", translate.Warning, "1.7.20", func(c *Capabilities) { c.Nodes[0].Runtime = "containerd://1.7.20" }},
	{"runtime-version", translate.Warning, "containerd 2.2.5", func(c *Capabilities) { c.Nodes[0].Runtime = "containerd://2.2.5" }},
	{"runtime-version", translate.Warning, "containerd 2.3.2", func(c *Capabilities) { c.Nodes[0].Runtime = "containerd://2.3.2" }},
	{"runtime-version", OK, "containerd 2.3.3", func(c *Capabilities) { c.Nodes[0].Runtime = "containerd://2.3.3" }},
	{"runtime-version", translate.Blocker, "containerd 1.6.9", func(c *Capabilities) { c.Nodes[0].Runtime = "containerd://1.6.9" }},
	{"runtime-version", translate.Warning, "cri-o 1.35.0", func(c *Capabilities) { c.Nodes[0].Runtime = "cri-o://1.35.0" }},
	{"runtime-version", OK, "cri-o 1.36.3", func(c *Capabilities) { c.Nodes[0].Runtime = "cri-o://1.36.3" }},
	{"runtime-version", Unknown, `"main"`, func(c *Capabilities) { c.Nodes[0].Runtime = "cri-o://main" }},
	{"runtime-version", translate.Blocker, "docker://27.1", func(c *Capabilities) { c.Nodes[0].Runtime = "docker://27.1" }},
	{"runtime-version", Unknown, "", func(c *Capabilities) { c.Nodes[0].Runtime = "" }},
	{"runtime-version", Unknown, `"main"`, func(c *Capabilities) { c.Nodes[0].Runtime = "containerd://main" }},
	{"kernel-version", translate.Blocker, "5.10.0-28-amd64", func(c *Capabilities) { c.Nodes[0].Kernel = "5.10.0-28-amd64" }},
	{"kernel-version", Unknown, `"?"`, func(c *Capabilities) { c.Nodes[0].Kernel = "?" }},
	{"kubelet-gates", translate.Blocker, "DynamicResourceAllocation", func(c *Capabilities) {
		c.Nodes[0].Config.FeatureGates = map[string]bool{"DynamicResourceAllocation": false}
	}},
	{"topology-manager", translate.Warning, "single-numa-node, by pod", func(c *Capabilities) {
		c.Nodes[0].Config.TopologyManagerPolicy, c.Nodes[0].Config.TopologyManagerScope = "single-numa-node", "pod"
	}},
	{"topology-manager", OK, "none, with exclusive CPUs (static)", func(c *Capabilities) { c.Nodes[0].Config.CPUManagerPolicy = "static" }},
	{"topology-manager", translate.Info, "best-effort", func(c *Capabilities) { c.Nodes[0].Config.TopologyManagerPolicy = "best-effort" }},
	{"nri", translate.Blocker, "/run/nri.sock", func(c *Capabilities) { c.Nodes[0].Probe.NRI = probe.NRI{Socket: "/run/nri.sock"} }},
	{"nri", translate.Blocker, "refused", func(c *Capabilities) { c.Nodes[0].Probe.NRI.Answers, c.Nodes[0].Probe.NRI.Error = false, "refused" }},
	{"nri-request-timeout", translate.Warning, "500ms", func(c *Capabilities) { c.Nodes[0].Probe.NRI.RequestTimeoutMillis = 500 }},
	{"cdi", translate.Blocker, "read-only", func(c *Capabilities) { c.Nodes[0].Probe.CDI[1].ReadOnly = true }},
	{"cdi", OK, "/var/run/cdi ", func(c *Capabilities) { c.Nodes[0].Probe.CDI[1].Found = false }},
	{"cdi", Unknown, "/srv/cdi", func(c *Capabilities) { c.Nadra.Args = append(c.Nadra.Args, "--cdi-dir=/srv/cdi") }},
	{"cni-plugins", translate.Warning, "macvlan (for ran/f1)", func(c *Capabilities) {
		c.Nodes[0].Probe.BinDirs[0].Plugins = []string{"bridge", "dhcp", "host-local", "tuning"}
	}},
	{"cni-plugins", translate.Warning, "macvlan", func(c *Capabilities) {
		c.Nodes[0].Probe.BinDirs[0].Plugins = []string{"bridge", "dhcp", "host-local", "tuning"}
		c.Nodes[0].Probe.BinDirs[0].NotExecutable = []string{"macvlan"}
	}},
	{"masters", translate.Info, "eth1 (for ran/f1)", func(c *Capabilities) { c.Nodes[0].Probe.Interfaces = c.Nodes[0].Probe.Interfaces[:1] }},
	{"masters", OK, "eth0 (physical), eth1 (physical)", func(c *Capabilities) { c.Networks[0].Masters = nil }},
	{"cni-configuration", translate.Blocker, "/etc/cni/net.d ", func(c *Capabilities) { c.Nodes[0].Probe.ConfDirs[0].Files = nil }},
	{"cni-configuration", translate.Warning, "00-multus.conf.cilium_bak", func(c *Capabilities) { c.Nodes[0].Probe.ConfDirs[0].Others = []string{"00-multus.conf.cilium_bak"} }},
	{"cni-configuration", translate.Warning, "no JSON", func(c *Capabilities) { c.Nodes[0].Probe.ConfDirs[0].Files[0].Error = "no JSON" }},
	{"cni-configuration", translate.Warning, "/etc/cni/net.d/10-pods.conflist", func(c *Capabilities) {
		c.Nodes[0].Probe.ConfDirs[0].Files[0].Multus = &probe.MultusSettings{NamespaceIsolation: true, BinDir: "/opt/cni/bin"}
	}},
	{"cni-configuration", OK, "10-pods.conflist", func(c *Capabilities) { c.withMultusFile(probe.MultusSettings{}) }},
	{"dhcp-daemon", translate.Warning, "shop/lan", func(c *Capabilities) { c.Nodes[0].Probe.DHCP = false }},
	{"probe-errors", Unknown, "listing /opt: denied", func(c *Capabilities) { c.Nodes[0].Probe.Errors = []string{"listing /opt: denied"} }},
	{"multus", OK, "", func(c *Capabilities) { c.Multus = nil }},
	{"multus", translate.Info, "thin: kube-system/kube-multus-ds", func(c *Capabilities) { c.Multus[0].Thick = false }},
	{"multus-settings", Unknown, "", func(c *Capabilities) { c.Multus[0].Settings = nil }},
	{"multus-settings", translate.Warning, "node-1; node-2", func(c *Capabilities) {
		c.withMultusFile(probe.MultusSettings{})
		c.Nodes[1].Probe.ConfDirs[0].Files[0].Multus = &probe.MultusSettings{ConfDir: "/etc/other"}
	}},
	{"multus-isolation", translate.Warning, "namespaceIsolation", func(c *Capabilities) { c.Nadra = nil }},
	{"multus-isolation", translate.Warning, "default,infra", func(c *Capabilities) { c.Multus[0].Settings.GlobalNamespaces = "default,infra" }},
	{"multus-isolation", translate.Info, "", func(c *Capabilities) { c.Multus[0].Settings.NamespaceIsolation = false }},
	{"multus-isolation", OK, "", func(c *Capabilities) { c.Multus[0].Settings.NamespaceIsolation, c.Nadra = false, nil }},
	{"multus-isolation", translate.Warning, "namespaceIsolation", func(c *Capabilities) { c.Nadra.Args = []string{"--namespace-isolation=0"} }},
	{"multus-default-networks", translate.Warning, "infra/lan (kube-system/multus-daemon-config)", func(c *Capabilities) { c.Multus[0].Settings.DefaultNetworks = []string{"infra/lan"} }},
	{"multus-default-networks", translate.Warning, "infra/lan (kube-system/multus-daemon-config); systemNamespaces: kube-system, infra (kube", func(c *Capabilities) {
		c.Multus[0].Settings.DefaultNetworks, c.Multus[0].Settings.SystemNamespaces = []string{"infra/lan"}, []string{"kube-system", "infra"}
	}},
	{"multus-default-networks", translate.Warning, "2", func(c *Capabilities) { c.Multus[0].Settings.Delegates = 3 }},
	{"multus-cluster-network", translate.Warning, "clusterNetwork: infra/pods", func(c *Capabilities) { c.Multus[0].Settings.ClusterNetwork = "infra/pods" }},
	{"multus-cluster-network", OK, "", func(c *Capabilities) { c.Multus[0].Settings.ClusterNetwork = "/host/etc/cni/net.d/10-pods.conflist" }},
	{"multus-directories", translate.Warning, "", func(c *Capabilities) { c.Multus[0].Settings.BinDir = "/host/usr/libexec/cni/" }},
	{"multus-auxiliary-chain", translate.Warning, "auxiliaryCNIChainName: extra", func(c *Capabilities) { c.Multus[0].Settings.AuxiliaryCNIChainName = "extra" }},
	{"static-pods", translate.Warning, "infra/keepalived-node-1 (lan)", func(c *Capabilities) {
		c.StaticPods = []StaticPod{{Namespace: "infra", Name: "keepalived-node-1", Node: "node-1", Networks: "lan"}}
	}},
	{"policies", translate.Warning, "a/x, b/y", func(c *Capabilities) {
		c.Policies = &Policies{Count: 1, Unseen: []string{"a/x", "b/y"}}
	}},
	{"policies", OK, "2 ", func(c *Capabilities) { c.Policies = &Policies{Count: 2} }},
	{"whereabouts", translate.Info, "reconciler", func(c *Capabilities) { c.Whereabouts = &Whereabouts{} }},
	{"whereabouts", translate.Warning, "service account kube-system/whereabouts", func(c *Capabilities) {
		c.Whereabouts = &Whereabouts{Blind: []string{"kube-system/whereabouts"}}
	}},
	{"whereabouts", translate.Warning, "IPPools", func(c *Capabilities) { c.Networks[0].IPAM = []string{"whereabouts"} }},
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
	i := slices.IndexFunc(checks, func(c Check) bool { return c.Title == id })
	if i < 0 {
		return nil
	}
	return &checks[i]
}

// checked returns a check of a cluster, which must have a status and an observation.
func checked(t *testing.T, c Capabilities, id string, status translate.Severity, what string) *Check {
	t.Helper()
	got := find(Diagnose(c), id)
	if got == nil {
		t.Fatal("there is no such check")
	}
	if got.Severity != status || !strings.Contains(got.Message, what) {
		t.Fatalf("%s %q, want %s %q", got.Severity, got.Message, status, what)
	}
	return got
}

func TestChecks(t *testing.T) {
	for _, test := range changes { // besideChanges have a test of their own
		t.Run(test.id+" "+test.what, func(t *testing.T) {
			c := ready()
			test.change(&c)
			switch got := checked(t, c, test.id, test.status, test.what); {
			case got.Severity != OK && got.Why == "":
				t.Error("it has no Why")
			case (got.Severity == translate.Warning || got.Severity == translate.Blocker) && got.Fix == "":
				t.Error("it has no Do")
			}
		})
	}
}

// TestReady checks that a ready cluster has nothing but notes.
func TestReady(t *testing.T) {
	for _, c := range Diagnose(ready()) {
		if c.Severity != OK && c.Title != "multus" {
			t.Errorf("%s %s: %s %q", c.Title, c.Object, c.Severity, c.Message)
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
		if c := find(checks, r.name); !good[r.name] && c != nil && c.Severity != OK {
			t.Errorf("%s is never seen ok", r.name)
		}
		if !bad[r.name] {
			t.Errorf("%s is never seen not ok", r.name)
		}
	}
}

// TestUnreadIsUnknown checks that what could not be read is not ok, and has a remedy.
func TestUnreadIsUnknown(t *testing.T) {
	for _, c := range Diagnose(fromOutside()) {
		switch {
		case c.Severity != Unknown:
			t.Errorf("%s: %s %q", c.Title, c.Severity, c.Message)
		case c.Fix == "":
			t.Errorf("%s has no remedy", c.Title)
		}
	}
}

// TestUnreadPartIsNeverOK takes one part after the other from a ready cluster: no check that looked at it is ok.
func TestUnreadPartIsNeverOK(t *testing.T) {
	for part, lost := range map[string]struct {
		change func(*Capabilities)
		checks []string
	}{
		PartNetworks:    {func(c *Capabilities) { c.Networks = nil }, []string{"network-configurations", "network-plugins", "network-masters", "cni-plugins", "masters", "dhcp-daemon", "nadra-devices"}},
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
			if slices.Contains(lost.checks, check.Title) && check.Severity != Unknown {
				t.Errorf("%s unread: %s is %s %q", part, check.Title, check.Severity, check.Message)
			}
		}
	}
}

// TestGapOfANode checks that the gap of one node comes before that of all nodes.
func TestGapOfANode(t *testing.T) {
	c := fromOutside()
	c.Gaps = append(c.Gaps, Gap{Part: PartProbe, Node: "node-1", Reason: "the image cannot be pulled", Remedy: "--image"})
	if got := find(Diagnose(c), "nri"); got.Message != "the image cannot be pulled" || got.Fix != "--image" {
		t.Errorf("check %+v", got)
	}
}

func TestSkippedOnOtherSystems(t *testing.T) {
	c := ready()
	c.Nodes[1].OS = "windows"
	for _, check := range Diagnose(c) {
		if check.Object.Name == "node-2" {
			t.Errorf("%s judges a Windows node", check.Title)
		}
	}
}
