package canary

import (
	"slices"
	"strings"
	"testing"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/internal/probe"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

func nad(name, config string, annotations ...string) *nadv1.NetworkAttachmentDefinition {
	out := &nadv1.NetworkAttachmentDefinition{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}, Spec: nadv1.NetworkAttachmentDefinitionSpec{Config: config}}
	for i := 0; i+1 < len(annotations); i += 2 {
		metav1.SetMetaDataAnnotation(&out.ObjectMeta, annotations[i], annotations[i+1])
	}
	return out
}

func offered(names ...string) map[attachment.NetworkRef][]string {
	out := map[attachment.NetworkRef][]string{}
	for _, name := range names {
		out[attachment.NetworkRef{Namespace: "a", Name: name}] = []string{"n2", "n1", "n2"}
	}
	return out
}

const macvlan = `{"type": "macvlan", "master": "eth1", "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.0.0.0/24"}], [{"subnet": "fd00::/64"}]]}}`

func TestPlan(t *testing.T) {
	in := Input{
		NADs: []*nadv1.NetworkAttachmentDefinition{
			nad("lan", macvlan), nad("vf", `{"type": "sriov", "ipam": {"type": "whereabouts", "range": "10.1.0.0/24"}}`, attachment.ResourceNameAnnotation, "intel.com/vf"),
			nad("bare", `{"type": "bridge"}`), nad("file", ""), nad("elsewhere", macvlan),
			nad("fixed", `{"type": "bridge", "ipam": {"type": "static", "addresses": [{"address": "10.2.0.5/24"}]}}`),
			nad("card", `{"type": "host-device", "device": "eth7"}`), nad("pass", `{"type": "macvlan", "master": "eth1", "mode": "passthru"}`),
			nad("asked", `{"type": "macvlan", "master": "eth1", "capabilities": {"ips": true}, "ipam": {"type": "static"}}`),
			nad("broken", `{"type"`), nad("bound", `{"type": "macvlan"}`, attachment.DeviceFromAnnotation, "required"),
		},
		Offers: offered("lan", "bare", "fixed", "asked", "card", "file", "pass"), Pools: map[string][]string{"intel.com/vf": {"n1"}},
		PerNode: 2, Settings: Settings{Run: "r"},
	}
	p := NewPlan(in)
	want := map[string]struct {
		pods, addresses, devices int
		skipped                  string
	}{
		"a/lan": {4, 8, 0, ""}, "a/vf": {2, 2, 2, ""}, "a/bare": {4, 0, 0, ""}, "a/file": {4, 0, 0, ""},
		"a/elsewhere": {skipped: "no node offers it"}, "a/fixed": {skipped: "10.2.0.5/24"},
		"a/asked": {skipped: "each of its pods requests its own address"},
		"a/card":  {skipped: "eth7"}, "a/pass": {skipped: "serves one pod"}, "a/broken": {skipped: "spec.config"}, "a/bound": {skipped: "deviceFrom"},
	}
	if len(p.Networks) != len(want) || p.Pods != 14 || p.Addresses != 10 || p.Devices != 2 {
		t.Errorf("plan %+v", p)
	}
	if !slices.IsSortedFunc(p.Networks, func(a, b NetworkPlan) int { return strings.Compare(a.Network, b.Network) }) {
		t.Error("the networks are not sorted")
	}
	names := map[string]bool{}
	for _, n := range p.Networks {
		w := want[n.Network]
		if len(n.Pods) != w.pods || n.Addresses != w.addresses || n.Devices != w.devices || !strings.Contains(n.Skipped, w.skipped) || (w.skipped == "") != (n.Skipped == "") {
			t.Errorf("%s: %+v", n.Network, n)
		}
		for _, c := range n.Pods {
			if names[c.Name] || len(c.Name) > 63 || c.Namespace != "a" {
				t.Errorf("canary %+v", c)
			}
			names[c.Name] = true
		}
	}
	in.Nodes, in.PerNode, in.Namespace = []string{"n9"}, 0, "canaries"
	for _, n := range NewPlan(in).Networks {
		if n.Skipped == "" && (len(n.Pods) != 1 || n.Pods[0].Node != "n9" || n.Pods[0].Namespace != "canaries") {
			t.Errorf("%s on another node: %+v", n.Network, n.Pods)
		}
	}
	if got := p.Namespaces(); !slices.Equal(got, []string{"a"}) {
		t.Errorf("namespaces %v", got)
	}
}

func TestPodName(t *testing.T) {
	long := attachment.NetworkRef{Namespace: "a", Name: strings.Repeat("x.", 100) + "y"}
	if name := podName(long, "r", "n", 0); len(name) > 63 || strings.Contains(name, ".") || strings.Contains(name, "--") {
		t.Errorf("name %q", name)
	}
	if podName(long, "r", "n", 0) == podName(long, "r", "n", 1) {
		t.Error("two canaries of a node have one name")
	}
}

// The level restricted of Pod Security allows the pod, and the pod ends by itself.
func TestObject(t *testing.T) {
	p := NewPlan(Input{
		NADs:  []*nadv1.NetworkAttachmentDefinition{nad("vf", `{"type": "sriov"}`, attachment.ResourceNameAnnotation, "intel.com/vf")},
		Pools: map[string][]string{"intel.com/vf": {"n1"}},
		Settings: Settings{
			Run: "r", Image: "nadra-node:dev", PullSecrets: []string{"registry"}, SecretsNamespace: "a", Timeout: time.Minute,
		},
	})
	pod := p.Object(&p.Networks[0], p.Networks[0].Pods[0])
	c := pod.Spec.Containers[0]
	security := c.SecurityContext
	switch {
	case pod.Annotations[attachment.NetworksAnnotation] != "a/vf" || pod.Labels[runLabel] != "r" || pod.Labels[NameLabel] != Name:
		t.Errorf("metadata %+v", pod.ObjectMeta)
	case pod.Spec.NodeName != "" || pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields[0].Values[0] != "n1":
		t.Error("it bypasses the scheduler, or is bound to another node")
	case *pod.Spec.ActiveDeadlineSeconds != 360 || *pod.Spec.AutomountServiceAccountToken || pod.Spec.HostNetwork:
		t.Errorf("spec %+v", pod.Spec)
	case !*pod.Spec.SecurityContext.RunAsNonRoot || *security.AllowPrivilegeEscalation || len(security.Capabilities.Add) > 0 || security.Capabilities.Drop[0] != "ALL":
		t.Errorf("it has too many rights: %+v", security)
	case c.Resources.Limits.Name("intel.com/vf", "").Value() != 1 || pod.Spec.ImagePullSecrets[0].Name != "registry":
		t.Errorf("resources %v, secrets %v", c.Resources, pod.Spec.ImagePullSecrets)
	case c.Image != "nadra-node:dev" || !slices.Equal(c.Args, []string{"canary", "serve"}):
		t.Errorf("container %+v", c)
	}
}

func TestUnreachable(t *testing.T) {
	for _, test := range []struct {
		config   string
		sameNode bool
		want     string
	}{
		{macvlan, false, ""},
		{`{"type": "macvlan", "mode": "private"}`, true, "private"},
		{`{"type": "macvlan", "mode": "private"}`, false, ""},
		{`{"type": "bridge", "isGateway": true}`, false, "separate gateway"},
		{`{"type": "bridge", "isDefaultGateway": true}`, false, "separate gateway"},
		{`{"type": "bridge", "isGateway": true}`, true, ""},
		{`{"type": "bridge"}`, false, ""},
		{`{"type": "ptp"}`, false, "ends at the node"},
		{`{"type": "dummy"}`, true, "leads nowhere"},
	} {
		parsed, err := attachment.ParseNetwork(nad("x", test.config))
		if err != nil {
			t.Fatal(err)
		}
		if got := factsOf(parsed).unreachable(test.sameNode); (test.want == "") != (got == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s, same node %v: %q", test.config, test.sameNode, got)
		}
	}
}

func TestDecode(t *testing.T) {
	if i, err := probe.Decode[probe.Inspection]([]byte(`{"apiVersion":"nadra.dev/v1alpha1","kind":"CanaryInspection","links":[{"name":"net1","up":true}]}`), probe.InspectionKind); err != nil || i.Links[0].Name != "net1" {
		t.Errorf("inspection %+v, %v", i, err)
	}
	if pings, err := probe.Decode[probe.Pings]([]byte(`{"apiVersion":"nadra.dev/v1alpha1","kind":"CanaryPings","pings":[{"address":"10.0.0.1","sent":1}]}`), probe.PingsKind); err != nil || pings.Pings[0].Sent != 1 {
		t.Errorf("pings %+v, %v", pings, err)
	}
	for text, says := range map[string]string{
		"exec: not found":                "exec: not found",
		`{"apiVersion":"v1","kind":"X"}`: `kind "X"`,
		`{"apiVersion":"nadra.dev/v1alpha1","kind":"CanaryInspection","links":1}`: "cannot unmarshal",
	} {
		if _, err := probe.Decode[probe.Inspection]([]byte(text), probe.InspectionKind); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: error %v, want %q", text, err, says)
		}
	}
}

// TestNetworksKey checks that a canary which must be nadra's cannot become Multus' beside it.
func TestNetworksKey(t *testing.T) {
	for _, tt := range []struct {
		beside bool
		owner  string
		want   string
	}{
		{false, "", "k8s.v1.cni.cncf.io/networks"},
		{false, "nadra", "k8s.v1.cni.cncf.io/networks"},
		{true, "", "k8s.v1.cni.cncf.io/networks"}, // the webhook decides
		{true, "nadra", "nadra.dev/networks"},
		{true, "multus", "k8s.v1.cni.cncf.io/networks"},
	} {
		p := &Plan{Settings: Settings{BesideMultus: tt.beside, Owner: tt.owner}}
		pod := p.Object(&NetworkPlan{Network: "shop/lan"}, Pod{Namespace: "shop", Name: "c", Node: "n1"})
		if pod.Annotations[tt.want] != "shop/lan" || len(pod.Annotations) != 2 {
			t.Errorf("%+v: %v", tt, pod.Annotations)
		}
	}
}
