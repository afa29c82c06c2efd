package doctor

import (
	"slices"
	"testing"

	"github.com/nadra-dev/nadra/internal/probe"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// beside returns a ready cluster in which Multus stays on nadra's nodes.
func beside() Capabilities {
	c := ready()
	c.Nadra.Args = append(c.Nadra.Args, "--beside-multus")
	c.Controller = &Controller{Namespace: "nadra-system", Deployment: "nadra-controller", Args: []string{"--beside-multus"}, Ready: 2, Desired: 2}
	return c
}

// besideChanges are changes of that cluster, each with the check that it fails or that describes it.
var besideChanges = []struct {
	id     string
	status translate.Severity
	what   string
	change func(*Capabilities)
}{
	{"beside-multus", OK, "", func(*Capabilities) {}},
	{"beside-multus", translate.Blocker, "nadra-controller (nadra-system/nadra-controller) without", func(c *Capabilities) { c.Controller.Args = nil }},
	{"beside-multus", translate.Blocker, "nadra-controller (nadra-system/nadra-controller) runs", func(c *Capabilities) { c.Nadra.Args = nil }},
	{"beside-multus", translate.Blocker, "--owned-nodes=labelled", func(c *Capabilities) { c.Nadra.Args = append(c.Nadra.Args, "--owned-nodes=labelled") }},
	{"beside-multus", translate.Warning, "", func(c *Capabilities) { c.Multus = nil }},
	{"beside-multus", translate.Info, "node-2", func(c *Capabilities) { c.Nodes[1].Labels = map[string]string{"nadra.dev/owner": "nadra"} }},
	{"multus", OK, "thick: kube-system/kube-multus-ds", func(*Capabilities) {}},
	{"multus-default-networks", translate.Warning, "net1", func(c *Capabilities) { c.Multus[0].Settings.DefaultNetworks = []string{"infra/lan"} }},
	{"multus-cluster-network", OK, "clusterNetwork: infra/pods", func(c *Capabilities) { c.Multus[0].Settings.ClusterNetwork = "infra/pods" }},
	{"multus-auxiliary-chain", OK, "auxiliaryCNIChainName: extra", func(c *Capabilities) { c.Multus[0].Settings.AuxiliaryCNIChainName = "extra" }},
	{"cni-configuration", OK, "00-multus.conf", func(c *Capabilities) {
		c.withMultusFile(probe.MultusSettings{NamespaceIsolation: true, BinDir: "/opt/cni/bin"})
	}},
	{"static-pods", OK, "nadra.dev/networks", func(c *Capabilities) {
		c.StaticPods = []StaticPod{{Name: "vip", Networks: "lan"}, {Name: "lb", Networks: "lan", Own: true}, {Name: "log", Networks: "lan", Own: true}}
	}},
	{"policies", translate.Warning, "a/x", func(c *Capabilities) { c.Policies = &Policies{Count: 1, Unseen: []string{"a/x"}} }},
	{"policies", translate.Info, "1 MultiNetworkPolicy", func(c *Capabilities) { c.Policies = &Policies{Count: 1} }},
	{"nadra-driver", translate.Info, "", func(c *Capabilities) { c.BesideMultus, c.Nadra = true, nil }},
	{"annotation-readers", OK, "", func(*Capabilities) {}},
	{"annotation-readers", Unknown, "not allowed", func(c *Capabilities) {
		c.Gaps = []Gap{{Part: PartReaders, Reason: "not allowed to read it", Remedy: "a right"}}
	}},
	{"annotation-readers", translate.Warning, "multi-networkpolicy, image mnp:v1", func(c *Capabilities) {
		c.Policies = &Policies{Count: 1}
		c.Readers = []translate.Reader{{Program: "multi-networkpolicy", Workload: "DaemonSet kube-system/mnp", Image: "mnp:v1"}}
	}},
	{"annotation-readers", translate.Info, "multi-networkpolicy ", func(c *Capabilities) {
		c.Readers = []translate.Reader{{Program: "multi-networkpolicy", Workload: "DaemonSet kube-system/mnp"}}
	}},
	{"annotation-readers", translate.Warning, "virt-controller:v1.8.0", func(c *Capabilities) {
		c.Readers = []translate.Reader{{Program: "KubeVirt", Workload: "Deployment kubevirt/virt-controller", Image: "virt-controller:v1.8.0"}}
	}},
	{"annotation-readers", translate.Info, "network-resources-injector", func(c *Capabilities) {
		c.Readers = []translate.Reader{{Program: "network-resources-injector", Workload: "Deployment kube-system/nri"}}
	}},
	{"annotation-readers", translate.Info, "image x", func(c *Capabilities) {
		c.Readers = []translate.Reader{{Workload: "Deployment a/b", Image: "x"}}
	}},
	{"annotation-readers", OK, "", func(c *Capabilities) { // of which no network has the plugin
		c.Readers = []translate.Reader{{Program: "ovn-kubernetes", Workload: "DaemonSet ovn/ovnkube-node"}}
	}},
	{"annotation-readers", translate.Warning, "ran/l2", func(c *Capabilities) {
		c.Networks = append(c.Networks, Network{Namespace: "ran", Name: "l2", Plugins: []string{"ovn-k8s-cni-overlay"}})
		c.Readers = []translate.Reader{{Program: "ovn-kubernetes", Workload: "DaemonSet ovn/ovnkube-node"}}
	}},
}

func TestBesideMultus(t *testing.T) {
	for _, test := range besideChanges {
		t.Run(test.id+" "+test.what, func(t *testing.T) {
			c := beside()
			test.change(&c)
			switch got := checked(t, c, test.id, test.status, test.what); {
			case got.Severity != OK && (got.Why == "" || got.Fix == ""):
				t.Errorf("it lacks Why or Do: %+v", got)
			case test.id == "annotation-readers" && len(c.Readers) > 0 && got.Severity != OK && got.Object.String() != c.Readers[0].Workload:
				t.Errorf("it is about %q", got.Object)
			}
		})
	}
}

// TestOnlyBesideMultus checks that no other cluster has checks of this mode.
func TestOnlyBesideMultus(t *testing.T) {
	c := ready()
	c.Readers = []translate.Reader{{Program: "KubeVirt", Workload: "Deployment kubevirt/virt-controller"}}
	for _, check := range Diagnose(c) {
		if slices.Contains([]string{"beside-multus", "annotation-readers"}, check.Title) {
			t.Errorf("%+v", check)
		}
	}
}

// TestReadyBesideMultus checks that a ready cluster has nothing to do.
func TestReadyBesideMultus(t *testing.T) {
	for _, c := range Diagnose(beside()) {
		if c.Severity != OK {
			t.Errorf("%s %s: %s %q", c.Title, c.Object, c.Severity, c.Message)
		}
	}
}
