package attachment

import (
	"encoding/json"
	"errors"
	"os"
	"testing"

	"github.com/containernetworking/cni/libcni"
	"github.com/google/go-cmp/cmp"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/pkg/api/reason"
)

func nad(config string) *nadv1.NetworkAttachmentDefinition {
	return &nadv1.NetworkAttachmentDefinition{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "blue"},
		Spec:       nadv1.NetworkAttachmentDefinitionSpec{Config: config},
	}
}

func testdata(t testing.TB, name string) string {
	t.Helper()
	raw, err := os.ReadFile("../../testdata/attachment/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestParseNetwork(t *testing.T) {
	for _, tc := range []struct {
		name, config string
		want         Network
	}{
		{"single plugin, name from the object (A1-8)", testdata(t, "networks/macvlan.json"), Network{
			CNIName: "blue", CNIVersion: "0.3.1",
			Conflist: json.RawMessage(`{"cniVersion":"0.3.1","name":"blue","plugins":[{"cniVersion":"0.3.1","type":"macvlan","master":"enp3s0","mode":"bridge",` +
				`"capabilities":{"ips":true,"mac":false},"ipam":{"type":"host-local","subnet":"10.7.0.0/24","rangeStart":"10.7.0.10","rangeEnd":"10.7.0.20","gateway":"10.7.0.1"}}]}`),
			Plugins: []Plugin{{
				Type: "macvlan", Capabilities: []string{"ips"}, Master: "enp3s0", Mode: "bridge",
				IPAM: IPAM{Type: "host-local", Sets: [][]Range{{{Subnet: "10.7.0.0/24", Start: "10.7.0.10", End: "10.7.0.20", Gateway: "10.7.0.1"}}}},
			}},
		}},
		{"list, its own name, numbers beyond 2^53, unknown keys", testdata(t, "networks/chain.json"), Network{
			CNIName: "chained", CNIVersion: "1.0.0",
			Conflist: json.RawMessage(`{"cniVersion":"1.0.0","name":"chained","plugins":[{"type":"bridge","bridge":"br7","vlan":7,"serial":9007199254740993,"ipam":{}},` +
				`{"type":"tuning","capabilities":{"mac":true},"sysctl":{"net.ipv4.conf.all.arp_filter":"1"}},{"type":"sbr"}]}`),
			Plugins: []Plugin{{Type: "bridge", VLAN: 7}, {Type: "tuning", Capabilities: []string{"mac"}}, {Type: "sbr"}},
		}},
		{"empty name (A1-8)", `{"name": "", "type": "a"}`, Network{
			CNIName: "blue", Conflist: json.RawMessage(`{"name":"blue","plugins":[{"name":"","type":"a"}]}`), Plugins: []Plugin{{Type: "a"}},
		}},
		{"no cniVersion stays so", `{"name": "n", "plugins": [{"type": "a"}]}`, Network{
			CNIName: "n", Conflist: json.RawMessage(`{"name":"n","plugins":[{"type":"a"}]}`), Plugins: []Plugin{{Type: "a"}},
		}},
		{"several versions", `{"cniVersions": ["0.3.1", "1.1.0", "99.0.0"], "plugins": [{"type": "a"}]}`, Network{
			CNIName: "blue", CNIVersion: "1.1.0",
			Conflist: json.RawMessage(`{"cniVersions":["0.3.1","1.1.0","99.0.0"],"name":"blue","plugins":[{"type":"a"}]}`), Plugins: []Plugin{{Type: "a"}},
		}},
		{"type beside plugins is a single plugin", `{"type": "a", "plugins": [{"type": "b"}]}`, Network{
			CNIName: "blue", Conflist: json.RawMessage(`{"name":"blue","plugins":[{"type":"a","plugins":[{"type":"b"}]}]}`), Plugins: []Plugin{{Type: "a"}},
		}},
		{"capabilities beside plugins have no effect", `{"capabilities": {"ips": true}, "plugins": [{"type": "a"}]}`, Network{
			CNIName: "blue", Conflist: json.RawMessage(`{"capabilities":{"ips":true},"name":"blue","plugins":[{"type":"a"}]}`), Plugins: []Plugin{{Type: "a"}},
		}},
		{"a master in the pod is not on the host", `{"type": "macvlan", "master": "net1", "linkInContainer": true}`, Network{
			CNIName: "blue", Conflist: json.RawMessage(`{"name":"blue","plugins":[{"type":"macvlan","master":"net1","linkInContainer":true}]}`), Plugins: []Plugin{{Type: "macvlan"}},
		}},
		{"duplicate keys: the last counts", `{"type": "a", "type": "b", "mode": "x", "mode": "y"}`, Network{
			CNIName: "blue", Conflist: json.RawMessage(`{"name":"blue","plugins":[{"type":"a","type":"b","mode":"x","mode":"y"}]}`), Plugins: []Plugin{{Type: "b", Mode: "y"}},
		}},
		{"values of unexpected types count as absent", `{"type": "a", "master": 5, "vlan": "7", "ipam": {"type": "host-local", "ranges": 1}}`, Network{
			CNIName: "blue", Conflist: json.RawMessage(`{"name":"blue","plugins":[{"type":"a","master":5,"vlan":"7","ipam":{"type":"host-local","ranges":1}}]}`),
			Plugins: []Plugin{{Type: "a", IPAM: IPAM{Type: "host-local"}}},
		}},
		{"host-local's two spellings together", `{"type": "vlan", "vlanId": 9, "ipam": {"type": "host-local", "dataDir": "/d", "subnet": "10.1.0.0/24", "ranges": [[{"subnet": "fd00::/64"}]]}}`, Network{
			CNIName:  "blue",
			Conflist: json.RawMessage(`{"name":"blue","plugins":[{"type":"vlan","vlanId":9,"ipam":{"type":"host-local","dataDir":"/d","subnet":"10.1.0.0/24","ranges":[[{"subnet":"fd00::/64"}]]}}]}`),
			Plugins: []Plugin{{
				Type: "vlan", VLAN: 9,
				IPAM: IPAM{Type: "host-local", DataDir: "/d", Sets: [][]Range{{{Subnet: "10.1.0.0/24"}}, {{Subnet: "fd00::/64"}}}},
			}},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := ParseNetwork(nad(tc.config))
			if err != nil {
				t.Fatal(err)
			}
			tc.want.Ref = NetworkRef{Namespace: "default", Name: "blue"}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseNetworkReadsTheResourceName(t *testing.T) {
	obj := nad(`{"type": "sriov"}`)
	obj.Annotations = map[string]string{"k8s.v1.cni.cncf.io/resourceName": "intel.com/sriov"}
	n, err := ParseNetwork(obj)
	if err != nil || n.ResourceName != "intel.com/sriov" {
		t.Errorf("got %q, %v", n.ResourceName, err)
	}
}

func TestParseNetworkRefuses(t *testing.T) {
	const comments = "line 2, column 21: … '#' … remove the comment"
	for _, tc := range []struct{ name, config, want string }{
		{"white space", " \n", `white space`},
		{"comment", testdata(t, "networks/comment.json"), comments},
		{"slashes as comment", "{\n\"type\": \"é\" // x\n}", `line 2, column 13: … remove the comment`},
		{"trailing comma", "{\"type\": \"a\",\n}", `line 2, column 1: … remove the comma`},
		{"missing comma", `{"type": "a" "b": 1}`, `line 1, column 14: … comma or bracket missing`},
		{"missing colon", `{"ipam": {"ippools" ["a"]}}`, `line 1, column 21: … colon missing`},
		{"missing brace inside", `{"plugins": [{"type": "a", {"type": "b"}]}`, `line 1, column 28: … closing bracket missing`},
		{"missing brace", `{"type": "a"`, `line 1, column 13: … closing bracket or quote missing`},
		{"single quotes", `{'type': 'a'}`, `line 1, column 2: … double quotes`},
		{"no object", `["a"]`, `an object … array`},
		{"null", `null`, `null`},
		{"neither type nor plugins", `{"name": "n"}`, `"type" … "plugins"`},
		{"no plugins", `{"plugins": []}`, `plugins is empty`},
		{"plugins no list", `{"plugins": {}}`, `plugins: … a list … object`},
		{"plugin without type", `{"plugins": [{"type": "a"}, {"name": "b"}]}`, `plugins[1]: type`},
		{"null plugin", `{"plugins": [null]}`, `plugins[0]: type`},
		{"type no string", `{"type": 5}`, `type: … a string … number`},
		{"type with separator", `{"type": "../../bin/sh"}`, `plugins[0]: type: "../../bin/sh" … path separator`},
		{"capabilities no object", `{"type": "a", "capabilities": ["ips"]}`, `plugins[0]: capabilities: … an object … array`},
		{"name CNI cannot take", `{"type": "a", "name": "my net"}`, `name: "my net" … '_', '.' and '-'`},
		{"name no string", `{"type": "a", "name": 7}`, `name: … a string … number`},
		{"no version", `{"type": "a", "cniVersion": "latest"}`, `cniVersion: "latest" … 0.1.0, 0.2.0, 0.3.0, 0.3.1, 0.4.0, 1.0.0, 1.1.0`},
		{"version of the future", `{"plugins": [{"type": "a"}], "cniVersion": "4.0.0"}`, `cniVersion: "4.0.0" … 0.1.0, 0.2.0, 0.3.0, 0.3.1, 0.4.0, 1.0.0, 1.1.0`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := ParseNetwork(nad(tc.config))
			checkRefused(t, err, reason.NetworkInvalid, "network default/blue: spec.config: … "+tc.want)
			if errors.Is(err, ErrNoConfig) {
				t.Errorf("%v is ErrNoConfig", err)
			}
		})
	}
	_, err := ParseNetwork(nad(""))
	checkRefused(t, err, reason.ConfigMissing, "network default/blue: spec.config")
	if !errors.Is(err, ErrNoConfig) {
		t.Errorf("%v is not ErrNoConfig", err)
	}
}

// TestSinglePluginAsLibcniDoes compares the list with libcni's own conversion.
func TestSinglePluginAsLibcniDoes(t *testing.T) {
	config := `{"name": "n", "cniVersion": "0.4.0", "type": "macvlan", "capabilities": {"ips": true}, "disableCheck": true}`
	single, err := libcni.NetworkPluginConfFromBytes([]byte(config))
	if err != nil {
		t.Fatal(err)
	}
	want, err := libcni.ConfListFromConf(single) //nolint:staticcheck // deprecated, and what Multus does with such a NAD
	if err != nil {
		t.Fatal(err)
	}
	n, err := ParseNetwork(nad(config))
	if err != nil {
		t.Fatal(err)
	}
	got, err := libcni.NetworkConfFromBytes(n.Conflist)
	if err != nil {
		t.Fatal(err)
	}
	want.Bytes, got.Bytes = nil, nil // the order of keys
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
