package operators

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/nadra-dev/nadra/internal/bounded"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// object returns an object named net, in namespace ops unless its kind is cluster-scoped.
func object(t testing.TB, name, spec string) map[string]any {
	t.Helper()
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.Kind == name })
	if i < 0 {
		t.Fatalf("kind %s is not known", name)
	}
	metadata := map[string]any{"name": "net"}
	if !kinds[i].clusterScoped {
		metadata["namespace"] = "ops"
	}
	var fields map[string]any
	if err := yaml.Unmarshal([]byte(spec), &fields); err != nil {
		t.Fatalf("spec %s: %v", spec, err)
	}
	return map[string]any{"apiVersion": kinds[i].APIVersion, "kind": name, "metadata": metadata, "spec": fields}
}

// sriovOptions have everything that would be assumed otherwise.
var sriovOptions = Options{ResourcePrefix: "example.com", OperatorNamespace: "ops"}

func definition(namespace, config string, annotations ...string) *nadv1.NetworkAttachmentDefinition {
	nad := &nadv1.NetworkAttachmentDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: "k8s.cni.cncf.io/v1", Kind: "NetworkAttachmentDefinition"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "net"},
		Spec:       nadv1.NetworkAttachmentDefinitionSpec{Config: config},
	}
	for i := 0; i < len(annotations); i += 2 {
		metav1.SetMetaDataAnnotation(&nad.ObjectMeta, annotations[i], annotations[i+1])
	}
	return nad
}

// ofSriov returns a definition of sriov-network-operator.
func ofSriov(kind, namespace, resource, config string) *nadv1.NetworkAttachmentDefinition {
	return definition(namespace, config,
		"k8s.v1.cni.cncf.io/resourceName", resource,
		"sriovnetwork.openshift.io/owner-ref", kind+".sriovnetwork.openshift.io/ops/net")
}

// sameConfig compares the texts of configurations as JSON values.
var sameConfig = cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Config" }, cmp.Transformer("json", func(config string) any {
	decoder := json.NewDecoder(strings.NewReader(config))
	decoder.UseNumber()
	var tree any
	if err := decoder.Decode(&tree); err != nil {
		return err.Error()
	}
	return tree
}))

func TestRender(t *testing.T) {
	for _, tc := range []struct {
		name, kind, spec string
		want             *nadv1.NetworkAttachmentDefinition
		notes            []string
	}{
		{
			"the least: vlan and vlanQoS are always there, logLevel is the CRD's", "SriovNetwork", `{resourceName: vfs}`,
			ofSriov("SriovNetwork", "ops", "example.com/vfs", `{"cniVersion": "1.0.0", "name": "net", "type": "sriov", "vlan": 0, "vlanQoS": 0, "logLevel": "info", "ipam": {}}`),
			[]string{"Assumed spec.logLevel"},
		},
		{
			"all but plugins after it", "SriovNetwork", `
networkNamespace: blue
resourceName: vfs
capabilities: '{"mac": true, "ips": true}'
ipam: |
  {
    "type": "host-local",
    "ranges": [[{"subnet": "10.7.0.0/24"}]]
  }
vlan: 142
vlanQoS: 3
vlanProto: 802.1ad
spoofChk: "off"
trust: "on"
linkState: enable
minTxRate: 0
maxTxRate: 1000
logLevel: debug
logFile: /var/log/sriov.log`,
			ofSriov("SriovNetwork", "blue", "example.com/vfs", `{"cniVersion": "1.0.0", "name": "net", "type": "sriov",
				"vlan": 142, "vlanQoS": 3, "vlanProto": "802.1ad", "spoofchk": "off", "trust": "on", "link_state": "enable",
				"min_tx_rate": 0, "max_tx_rate": 1000, "capabilities": {"mac": true, "ips": true},
				"ipam": {"type": "host-local", "ranges": [[{"subnet": "10.7.0.0/24"}]]}, "logLevel": "debug", "logFile": "/var/log/sriov.log"}`),
			nil,
		},
		{
			"plugins after it make a list; capabilities stay with the first", "SriovNetwork", `
resourceName: vfs
logLevel: ""
capabilities: '{"ips": true}'
metaPlugins: |
  {"type": "tuning", "sysctl": {"net.ipv4.conf.IFNAME.arp_filter": "1"}},
  {
    "type": "vrf", "vrfname": "red"
  }`,
			ofSriov("SriovNetwork", "ops", "example.com/vfs", `{"cniVersion": "1.0.0", "name": "net", "plugins": [
				{"type": "sriov", "vlan": 0, "vlanQoS": 0, "capabilities": {"ips": true}, "ipam": {}},
				{"type": "tuning", "sysctl": {"net.ipv4.conf.IFNAME.arp_filter": "1"}}, {"type": "vrf", "vrfname": "red"}]}`),
			[]string{"LeftOut spec.logLevel"},
		},
		{
			"InfiniBand", "SriovIBNetwork", `{resourceName: ib, capabilities: '{"infinibandGUID": true}', linkState: auto, ipam: '{"type": "static"}', metaPlugins: '{"type": "rdma"}'}`,
			ofSriov("SriovIBNetwork", "ops", "example.com/ib", `{"cniVersion": "1.0.0", "name": "net", "plugins": [
				{"type": "ib-sriov", "capabilities": {"infinibandGUID": true}, "link_state": "auto", "ipam": {"type": "static"}}, {"type": "rdma"}]}`),
			nil,
		},
		{
			"InfiniBand has no vlan and no log", "SriovIBNetwork", `{resourceName: ib, vlan: 5, logLevel: debug}`,
			ofSriov("SriovIBNetwork", "ops", "example.com/ib", `{"cniVersion": "1.0.0", "name": "net", "type": "ib-sriov", "ipam": {}}`),
			[]string{"Unknown spec.logLevel", "Unknown spec.vlan"},
		},
		{
			"Open vSwitch", "OVSNetwork", `
resourceName: switchdev
networkNamespace: blue
capabilities: '{"mac": true}'
bridge: br-ex
vlan: 200
mtu: 9000
trunk: [{id: 7}, {minID: 100, maxID: 199}, {}]
interfaceType: dpdk
ipam: '{"type": "dhcp"}'
metaPlugins: '{"type": "sbr"}'`,
			ofSriov("OVSNetwork", "blue", "example.com/switchdev", `{"cniVersion": "1.0.0", "name": "net", "plugins": [
				{"type": "ovs", "capabilities": {"mac": true}, "bridge": "br-ex", "vlan": 200, "mtu": 9000,
				 "trunk": [{"id": 7}, {"minID": 100, "maxID": 199}, {}], "interface_type": "dpdk", "ipam": {"type": "dhcp"}}, {"type": "sbr"}]}`),
			nil,
		},
		{
			"Open vSwitch: zero and empty are as good as absent", "OVSNetwork", `{resourceName: r, bridge: "", vlan: 0, mtu: 0, trunk: [], ipam: "", capabilities: null}`,
			ofSriov("OVSNetwork", "ops", "example.com/r", `{"cniVersion": "1.0.0", "name": "net", "type": "ovs", "ipam": {}}`),
			[]string{"LeftOut spec.capabilities", "LeftOut spec.bridge", "LeftOut spec.vlan", "LeftOut spec.mtu", "LeftOut spec.trunk", "LeftOut spec.ipam"},
		},
		{
			"macvlan", "MacvlanNetwork", `{networkNamespace: blue, master: ens2f0, mode: bridge, mtu: 1500, ipam: '{"type": "nv-ipam", "poolName": "p"}', metaPlugins: '{"type": "sbr"}'}`,
			definition("blue", `{"cniVersion": "0.3.1", "name": "net", "plugins": [
				{"type": "macvlan", "master": "ens2f0", "mode": "bridge", "mtu": 1500, "ipam": {"type": "nv-ipam", "poolName": "p"}}, {"type": "sbr"}]}`),
			[]string{"Newer spec.metaPlugins"},
		},
		{
			"macvlan: the least", "MacvlanNetwork", `{mtu: 0}`,
			definition("default", `{"cniVersion": "0.3.1", "name": "net", "type": "macvlan", "ipam": {}}`),
			[]string{"Assumed spec.networkNamespace", "LeftOut spec.mtu"},
		},
		{
			"host device", "HostDeviceNetwork", `{networkNamespace: blue, resourceName: hostdev, ipam: '{"type": "static"}', metaPlugins: '{"type": "sbr"}'}`,
			definition("blue", `{"cniVersion": "0.3.1", "name": "net", "plugins": [{"type": "host-device", "ipam": {"type": "static"}}, {"type": "sbr"}]}`,
				"k8s.v1.cni.cncf.io/resourceName", "nvidia.com/hostdev"),
			[]string{"Newer spec.metaPlugins"},
		},
		{
			"host device: the prefix is there, and not the option's", "HostDeviceNetwork", `{networkNamespace: blue, resourceName: nvidia.com/hostdev}`,
			definition("blue", `{"cniVersion": "0.3.1", "name": "net", "type": "host-device", "ipam": {}}`, "k8s.v1.cni.cncf.io/resourceName", "nvidia.com/hostdev"),
			nil,
		},
		{
			"host device: no resource", "HostDeviceNetwork", `{networkNamespace: blue}`,
			definition("blue", `{"cniVersion": "0.3.1", "name": "net", "type": "host-device", "ipam": {}}`, "k8s.v1.cni.cncf.io/resourceName", "nvidia.com/"),
			[]string{"Unserved spec.resourceName"},
		},
		{
			"IP over InfiniBand", "IPoIBNetwork", `{networkNamespace: blue, master: ibs3f1, ipam: '{"type": "whereabouts", "range": "10.8.0.0/28"}'}`,
			definition("blue", `{"cniVersion": "0.3.1", "name": "net", "type": "ipoib", "master": "ibs3f1", "ipam": {"type": "whereabouts", "range": "10.8.0.0/28"}}`),
			nil,
		},
		{
			"IP over InfiniBand: the master is there even if it is empty", "IPoIBNetwork", `{networkNamespace: blue}`,
			definition("blue", `{"cniVersion": "0.3.1", "name": "net", "type": "ipoib", "master": "", "ipam": {}}`),
			nil,
		},
		{
			"white space within strings of ipam is lost", "MacvlanNetwork", `{networkNamespace: blue, ipam: '{"type": "x", "comment": "two words"}'}`,
			definition("blue", `{"cniVersion": "0.3.1", "name": "net", "type": "macvlan", "ipam": {"type": "x", "comment": "twowords"}}`),
			[]string{"Altered spec.ipam"},
		},
		{
			"but not with host devices, where a line break is a space", "HostDeviceNetwork", "{networkNamespace: blue, resourceName: r, ipam: \"{\\\"type\\\": \\\"x\\\", \\\"comment\\\": \\\"two \\n words, ''q''\\\"}\"}",
			definition("blue", `{"cniVersion": "0.3.1", "name": "net", "type": "host-device", "ipam": {"type": "x", "comment": "two words, 'q'"}}`,
				"k8s.v1.cni.cncf.io/resourceName", "nvidia.com/r"),
			[]string{"Altered spec.ipam"},
		},
		{
			"more than ipam in ipam", "MacvlanNetwork", `{networkNamespace: blue, ipam: '{"type": "static"}, "capabilities": {"ips": true}'}`,
			definition("blue", `{"cniVersion": "0.3.1", "name": "net", "type": "macvlan", "ipam": {"type": "static"}, "capabilities": {"ips": true}}`),
			[]string{"Altered spec.ipam"},
		},
		{
			"numbers stay as they are written", "SriovIBNetwork", `{resourceName: r, ipam: '{"type": "x", "serial": 9007199254740993}'}`,
			ofSriov("SriovIBNetwork", "ops", "example.com/r", `{"cniVersion": "1.0.0", "name": "net", "type": "ib-sriov", "ipam": {"type": "x", "serial": 9007199254740993}}`),
			nil,
		},
		{
			"the operator's documents misspell metaPlugins", "SriovIBNetwork", `{resourceName: r, metaPluginsConfig: '{"type": "rdma"}'}`,
			ofSriov("SriovIBNetwork", "ops", "example.com/r", `{"cniVersion": "1.0.0", "name": "net", "type": "ib-sriov", "ipam": {}}`),
			[]string{"Unknown spec.metaPluginsConfig"},
		},
		{
			"unknown fields below", "OVSNetwork", `{resourceName: r, trunk: [{id: 7, ID: 8, maxID: null}]}`,
			ofSriov("OVSNetwork", "ops", "example.com/r", `{"cniVersion": "1.0.0", "name": "net", "type": "ovs", "trunk": [{"id": 7}], "ipam": {}}`),
			[]string{"LeftOut spec.trunk[0].maxID", "Unknown spec.trunk[0].ID"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			nad, notes, err := Render(object(t, tc.kind, tc.spec), sriovOptions)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, nad, sameConfig); diff != "" {
				t.Errorf("definition (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.notes, brevity(notes), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("notes (-want +got):\n%s\n%v", diff, notes)
			}
			if _, err := attachment.ParseNetwork(nad); err != nil {
				t.Error(err)
			}
		})
	}
}

func brevity(notes []Note) []string {
	var out []string
	for _, n := range notes {
		out = append(out, string(n.Reason)+" "+n.Path)
	}
	return out
}

// TestMetadata checks names, namespaces and annotations.
func TestMetadata(t *testing.T) {
	const owner = "sriovnetwork.openshift.io/owner-ref"
	for _, tc := range []struct {
		name, kind, spec string
		metadata         map[string]any
		opts             Options
		want             metav1.ObjectMeta
		notes            []string
	}{
		{
			"the default prefix is reported", "SriovIBNetwork", `{resourceName: r}`,
			map[string]any{"name": "net", "namespace": "a"},
			Options{},
			metav1.ObjectMeta{Namespace: "a", Name: "net", Annotations: map[string]string{attachment.ResourceNameAnnotation: "openshift.io/r", owner: "SriovIBNetwork.sriovnetwork.openshift.io/a/net"}},
			[]string{"Assumed spec.resourceName"},
		},
		{
			"no namespace", "SriovIBNetwork", `{resourceName: r}`,
			map[string]any{"name": "net"},
			Options{ResourcePrefix: "nvidia.com"},
			metav1.ObjectMeta{Name: "net", Annotations: map[string]string{attachment.ResourceNameAnnotation: "nvidia.com/r"}},
			[]string{"Assumed metadata.namespace"},
		},
		{
			"the namespace for objects without", "OVSNetwork", `{resourceName: r}`,
			map[string]any{"name": "net"},
			Options{ResourcePrefix: "nvidia.com", Namespace: "b"},
			metav1.ObjectMeta{Namespace: "b", Name: "net", Annotations: map[string]string{attachment.ResourceNameAnnotation: "nvidia.com/r", owner: "OVSNetwork.sriovnetwork.openshift.io/b/net"}},
			nil,
		},
		{
			"only objects in the operator's namespace may choose another", "SriovIBNetwork", `{resourceName: r, networkNamespace: c}`,
			map[string]any{"name": "net", "namespace": "a"},
			sriovOptions,
			metav1.ObjectMeta{Namespace: "c", Name: "net", Annotations: map[string]string{attachment.ResourceNameAnnotation: "example.com/r", owner: "SriovIBNetwork.sriovnetwork.openshift.io/a/net"}},
			[]string{"NotMade spec.networkNamespace"},
		},
		{
			"a prefix is added to a name with the prefix", "SriovIBNetwork", `{resourceName: example.com/r}`,
			map[string]any{"name": "net", "namespace": "a"},
			sriovOptions,
			metav1.ObjectMeta{Namespace: "a", Name: "net", Annotations: map[string]string{attachment.ResourceNameAnnotation: "example.com/example.com/r", owner: "SriovIBNetwork.sriovnetwork.openshift.io/a/net"}},
			[]string{"Unserved spec.resourceName"},
		},
		{
			"a namespace of a cluster-scoped kind, and names that YAML parses as numbers", "MacvlanNetwork", `{networkNamespace: "7"}`,
			map[string]any{"name": "100", "namespace": "a"},
			Options{},
			metav1.ObjectMeta{Namespace: "7", Name: "100"},
			[]string{"NotMade metadata.name", "LeftOut metadata.namespace", "NotMade spec.networkNamespace"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			obj := object(t, tc.kind, tc.spec)
			obj["metadata"] = tc.metadata
			nad, notes, err := Render(obj, tc.opts)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, nad.ObjectMeta); diff != "" {
				t.Errorf("metadata (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.notes, brevity(notes), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("notes (-want +got):\n%s\n%v", diff, notes)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	for _, tc := range []struct {
		name, kind, spec string
		want             []string
	}{
		{"no resource", "SriovNetwork", `{}`, []string{`rendering SriovNetwork ops/net: spec.resourceName: Required value: write the resourceName of the SriovNetworkNodePolicy`}},
		{"numbers", "SriovNetwork", `{resourceName: r, vlan: 4095, vlanQoS: "7", minTxRate: -1, maxTxRate: 1.5}`, []string{
			`spec.vlan: Invalid value: "4095": must be a whole number from 0 to 4094`,
			`spec.vlanQoS: Invalid value: "7": must be a whole number from 0 to 7: remove the quotes`,
			`spec.minTxRate: Invalid value: "-1": must be a whole number, 0 or more`,
			`spec.maxTxRate: Invalid value: "1.5": must be a whole number`,
		}},
		{"on without quotes is true", "SriovNetwork", `{resourceName: r, trust: on}`, []string{`spec.trust: Invalid value: "true": must be a string: put it in quotes; YAML`}},
		{"values of a list", "SriovNetwork", `{resourceName: r, spoofChk: "yes"}`, []string{`spec.spoofChk: Unsupported value: "yes": supported values: "on", "off"`}},
		{"ipam as YAML", "SriovNetwork", `{resourceName: r, ipam: {type: static}}`, []string{`spec.ipam: Invalid value: "map[type:static]": must be a string: `, `after "|"`}},
		{"a comma too many in ipam, squeezed", "SriovIBNetwork", "resourceName: r\nipam: |\n  {\n    \"type\": \"nv-ipam\",\n    \"poolName\": \"my-pool\",\n  }\n", []string{
			`spec.ipam: Invalid value: `, `line 4, column 1: invalid character '}' looking for beginning of object key string: remove the comma before it`,
		}},
		{"a bracket missing", "MacvlanNetwork", `{ipam: '{"type": "static"'}`, []string{`spec.ipam`, `line 1, column 18: unexpected end of JSON input: is a closing bracket or quote missing?`}},
		{"only white space", "MacvlanNetwork", `{ipam: '  '}`, []string{`spec.ipam`, `line 1, column 3: unexpected end of JSON input`}},
		{"capabilities without brackets", "OVSNetwork", `{resourceName: r, capabilities: mac}`, []string{`spec.capabilities: Invalid value: "mac": line 1, column 1: invalid character 'm' looking for beginning of value`}},
		{"capabilities that libcni cannot read", "OVSNetwork", `{resourceName: r, capabilities: '{"mac": "yes"}'}`, []string{`spec.capabilities`, `must be an object`, `{"mac": true}`}},
		{"ipam that is a list", "IPoIBNetwork", `{ipam: '[]'}`, []string{`spec.ipam: Invalid value: "[]": must be an object`}},
		{"metaPlugins: the second", "HostDeviceNetwork", "networkNamespace: a\nmetaPlugins: |\n  {\"type\": \"sbr\"},\n  {\"type\" \"tuning\"}\n", []string{
			`spec.metaPlugins`, `line 2, column 9: invalid character '"' after object key: is a colon missing before it?`,
		}},
		{"metaPlugins: a comma at the end", "MacvlanNetwork", `{metaPlugins: '{"type": "sbr"},'}`, []string{`spec.metaPlugins`, `line 1, column 17`, `remove the comma before it`}},
		{"metaPlugins with brackets", "MacvlanNetwork", `{metaPlugins: '[{"type": "sbr"}]'}`, []string{`spec.metaPlugins`, `plugin 1 has no type`, `without brackets`, `{"type": "tuning"}, {"type": "sbr"}`}},
		{"a single quote", "MacvlanNetwork", "{metaPlugins: \"{\\\"type\\\": \\\"sbr\\\",\\n \\\"c\\\": \\\"it's\\\"}\"}", []string{`spec.metaPlugins`, `line 2, column 10: a single quote ends the YAML string of the operator's template`, `\u0027`}},
		{"a quote in a name", "MacvlanNetwork", `{master: 'e"0'}`, []string{`spec.master: Invalid value: "e\"0": line 1, column 3`}},
		{"an ipam that makes the configuration invalid", "MacvlanNetwork", `{ipam: '{}, "type": 7'}`, []string{`rendering MacvlanNetwork net: `, `[NetworkInvalid]`, `type: must be a string`}},
		{"host devices have no default namespace", "HostDeviceNetwork", `{resourceName: r}`, []string{`rendering HostDeviceNetwork net: spec.networkNamespace: Required value`}},
		{"an invalid namespace", "MacvlanNetwork", `{networkNamespace: A b}`, []string{`spec.networkNamespace: Invalid value: "A b"`}},
		{"trunk", "OVSNetwork", `{resourceName: r, trunk: [7, {id: 4096}]}`, []string{`spec.trunk[0]: Invalid value: "7": must be {id} or {minID, maxID}`, `spec.trunk[1].id: Invalid value: "4096"`}},
		{"trunk is no list", "OVSNetwork", `{resourceName: r, trunk: {id: 1}}`, []string{`spec.trunk: Invalid value: "map[id:1]": must be a list`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			nad, _, err := Render(object(t, tc.kind, tc.spec), sriovOptions)
			if err == nil {
				t.Fatalf("no error, but %v", nad)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("want %q in:\n%v", want, err)
				}
			}
		})
	}
}

func TestObjects(t *testing.T) {
	for _, tc := range []struct{ name, obj, want string }{
		{"another kind", `{apiVersion: v1, kind: Pod}`, `use one of sriovnetwork.openshift.io/v1 SriovNetwork, `},
		{"another version", `{apiVersion: sriovnetwork.openshift.io/v2, kind: SriovNetwork}`, `rendering sriovnetwork.openshift.io/v2 "SriovNetwork": `},
		{"no metadata", `{apiVersion: mellanox.com/v1alpha1, kind: MacvlanNetwork}`, `metadata: Required value`},
		{"no name", `{apiVersion: mellanox.com/v1alpha1, kind: MacvlanNetwork, metadata: {}}`, `metadata.name: Required value`},
		{"a number as a name", `{apiVersion: mellanox.com/v1alpha1, kind: MacvlanNetwork, metadata: {name: 5}}`, `metadata.name: Invalid value: 5: must be a string: put it in quotes`},
		{"no name at all", `{apiVersion: mellanox.com/v1alpha1, kind: MacvlanNetwork, metadata: {name: A_b}}`, `metadata.name: Invalid value: "A_b"`},
		{"an invalid spec", `{apiVersion: mellanox.com/v1alpha1, kind: MacvlanNetwork, metadata: {name: a}, spec: []}`, `spec: Invalid value: "[]": must be an object`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var obj map[string]any
			if err := yaml.Unmarshal([]byte(tc.obj), &obj); err != nil {
				t.Fatal(err)
			}
			if _, _, err := Render(obj, Options{}); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("want %q in: %v", tc.want, err)
			}
		})
	}
}

// specs has all fields of each kind, from the CRDs of the versions in the package comment.
var specs = map[string]map[string]any{
	"SriovNetwork": {
		"networkNamespace": "blue", "resourceName": "vfs", "capabilities": `{"mac":true}`, "ipam": `{"type":"static"}`, "vlan": 5, "vlanQoS": 1,
		"vlanProto": "802.1q", "spoofChk": "on", "trust": "off", "linkState": "auto", "minTxRate": 1, "maxTxRate": 2,
		"metaPlugins": `{"type":"sbr"}`, "logLevel": "error", "logFile": "/f",
	},
	"SriovIBNetwork": {
		"networkNamespace": "blue", "resourceName": "vfs", "capabilities": `{"mac":true}`, "ipam": `{"type":"static"}`, "linkState": "auto",
		"metaPlugins": `{"type":"sbr"}`,
	},
	"OVSNetwork": {
		"networkNamespace": "blue", "resourceName": "vfs", "capabilities": `{"mac":true}`, "ipam": `{"type":"static"}`, "metaPlugins": `{"type":"sbr"}`,
		"bridge": "br0", "vlan": 5, "mtu": 1500, "trunk": []any{map[string]any{"id": 3}}, "interfaceType": "system",
	},
	"MacvlanNetwork": {
		"networkNamespace": "blue", "master": "eth1", "mode": "vepa", "mtu": 1500, "ipam": `{"type":"static"}`, "metaPlugins": `{"type":"sbr"}`,
	},
	"HostDeviceNetwork": {"networkNamespace": "blue", "resourceName": "r", "ipam": `{"type":"static"}`, "metaPlugins": `{"type":"sbr"}`},
	"IPoIBNetwork":      {"networkNamespace": "blue", "master": "ib0", "ipam": `{"type":"static"}`},
}

// TestEveryField checks that every field changes the definition or has a note, and that an object
// with all fields has no notes.
func TestEveryField(t *testing.T) {
	for _, k := range kinds {
		all := specs[k.Kind]
		if diff := cmp.Diff(slices.Sorted(maps.Keys(all)), slices.Sorted(slices.Values(k.fields))); diff != "" {
			t.Errorf("%s: fields (-CRD +package):\n%s", k.Kind, diff)
		}
		render := func(spec map[string]any) (*nadv1.NetworkAttachmentDefinition, []Note, error) {
			obj := object(t, k.Kind, "{}")
			obj["spec"] = spec
			return Render(obj, sriovOptions)
		}
		whole, notes, err := render(all)
		notes = slices.DeleteFunc(notes, func(n Note) bool { return n.Reason == Newer })
		if err != nil || len(notes) > 0 {
			t.Errorf("%s with all fields: %v, %v", k.Kind, err, notes)
			continue
		}
		for name := range all {
			spec := maps.Clone(all)
			delete(spec, name)
			without, _, err := render(spec)
			if err == nil && cmp.Equal(whole, without) {
				t.Errorf("%s: spec.%s makes no difference", k.Kind, name)
			}
			for _, nothing := range []any{"", 0, nil, []any{}} {
				spec[name] = nothing
				nad, notes, err := render(spec)
				noted := slices.ContainsFunc(notes, func(n Note) bool { return n.Path == "spec."+name && n.Reason != Newer })
				if err == nil && cmp.Equal(without, nad) && !noted && !written(nad, nothing) {
					t.Errorf("%s: spec.%s: %#v is neither in the definition nor noted", k.Kind, name, nothing)
				}
			}
		}
	}
}

// written reports whether a definition has a zero that the template always writes: vlan or vlanQoS
// of sriov.
func written(nad *nadv1.NetworkAttachmentDefinition, value any) bool {
	return value == 0 && (strings.Contains(nad.Spec.Config, `"vlan": 0`) || strings.Contains(nad.Spec.Config, `"vlanQoS": 0`))
}

func TestKnows(t *testing.T) {
	for _, k := range Kinds() {
		if !Knows(k.APIVersion, k.Kind) {
			t.Errorf("%v is not known", k)
		}
	}
	if len(Kinds()) != 6 || Knows("mellanox.com/v1alpha1", "SriovNetwork") || Knows("", "") {
		t.Error("Knows accepts another kind")
	}
}

// FuzzRender checks that any object gives a valid definition or an error.
func FuzzRender(f *testing.F) {
	for _, k := range kinds {
		f.Add(string(mustJSON(map[string]any{
			"apiVersion": k.APIVersion, "kind": k.Kind, "metadata": map[string]any{"name": "net", "namespace": "a"}, "spec": specs[k.Kind],
		})))
	}
	f.Fuzz(func(t *testing.T, text string) {
		bounded.Run(t, len(text), func() {
			var obj map[string]any
			if yaml.Unmarshal([]byte(text), &obj) != nil {
				return
			}
			checkRender(t, obj)
		})
	})
}

// FuzzTexts checks the same for any text in a field that is inserted as it is.
func FuzzTexts(f *testing.F) {
	f.Add(0, `{"type": "static"}`, `{"mac": true}`, `{"type": "sbr"}`, "eth0")
	f.Add(1, `{}, "mtu": 9`, `{"a": true}, "b": 1`, `{"type": "a"}], "z": [1`, `a","y":"z`)
	f.Add(4, "{\"c\": \"it''s\n two\\u0027\"\r\n}", "{\n}", "{},\n\n\t{}", "'")
	f.Add(5, "\u00a0{} \u2028", "é", "\xff", "\x00")
	f.Fuzz(func(t *testing.T, kind int, ipam, capabilities, metaPlugins, name string) {
		bounded.Run(t, len(ipam)+len(capabilities)+len(metaPlugins)+len(name), func() {
			k := kinds[uint(kind)%uint(len(kinds))]
			checkRender(t, map[string]any{
				"apiVersion": k.APIVersion, "kind": k.Kind, "metadata": map[string]any{"name": "net"},
				"spec": map[string]any{
					"networkNamespace": "a", "resourceName": name, "ipam": ipam, "capabilities": capabilities, "metaPlugins": metaPlugins,
					"master": name, "bridge": name, "logFile": name,
				},
			})
		})
	})
}

func checkRender(t *testing.T, obj map[string]any) {
	nad, notes, err := Render(obj, Options{})
	if (nad == nil) != (err != nil) {
		t.Fatalf("definition %v, error %v", nad, err)
	}
	for _, n := range notes {
		if n.Path == "" || n.Reason == "" || n.Why == "" {
			t.Errorf("note %+v", n)
		}
	}
	if err != nil {
		return
	}
	if _, err := attachment.ParseNetwork(nad); err != nil {
		t.Error(err)
	}
	if !json.Valid([]byte(nad.Spec.Config)) {
		t.Errorf("invalid JSON: %s", nad.Spec.Config)
	}
}
