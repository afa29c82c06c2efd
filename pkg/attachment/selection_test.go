package attachment

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func ref(namespace, name string) NetworkRef { return NetworkRef{Namespace: namespace, Name: name} }

func TestParseSelections(t *testing.T) {
	for _, tc := range []struct {
		name, annotation string
		want             []Selection
	}{
		{"nothing", ``, nil},
		{"empty list", `[]`, nil},
		{"name (A2-11)", `blue`, []Selection{{Network: ref("default", "blue")}}},
		{"namespace and interface", `storage/red@data0`, []Selection{{Network: ref("storage", "red"), Interface: "data0"}}},
		{"same network twice (A2-26)", `blue,blue`, []Selection{{Network: ref("default", "blue")}, {Network: ref("default", "blue")}}},
		{"white space (corpus 3)", testdata(t, "annotations/names.txt"), []Selection{
			{Network: ref("default", "blue")}, {Network: ref("storage", "red"), Interface: "data0"}, {Network: ref("default", "blue")},
		}},
		{"white space within", " storage / red @ data0 \n", []Selection{{Network: ref("storage", "red"), Interface: "data0"}}},
		{"empty parts", `/blue@`, []Selection{{Network: ref("default", "blue")}}},

		{"every field", testdata(t, "annotations/elements.json"), []Selection{
			{Network: ref("default", "blue"), IPs: []string{"10.7.0.12/24", "fd07::12"}, MAC: "02:00:5e:10:00:01"},
			{Network: ref("storage", "red"), Interface: "data0", Unknown: []string{"gateway"}},
			{
				Network: ref("default", "green.v2"), InfinibandGUID: "02:00:5e:10:00:01:00:01", DeviceID: "0000:03:00.1",
				CNIArgs: map[string]json.RawMessage{
					"color": json.RawMessage(`"\u003cblue\u003e"`), "n": json.RawMessage(`9007199254740993`),
					"nested": json.RawMessage(`{"a":[1,2]}`), "none": json.RawMessage(`null`),
				},
				PortMappings: []PortMapping{
					{HostPort: 8080, ContainerPort: 80, Protocol: "tcp"},
					{HostPort: 53, ContainerPort: 53, Protocol: "UDP", HostIP: "192.0.2.7"},
				},
				Bandwidth:    &Bandwidth{IngressRate: 1000000, IngressBurst: 2000000},
				DefaultRoute: &[]string{},
			},
			{Network: ref("default", "vm"), IPAMClaimReference: "vm-1.blue"},
		}},
		{
			"old spelling (A2-28)", `[{"name": "a", "interfaceRequest": "x"}, {"name": "a", "interfaceRequest": "x", "interface": "y"}]`,
			[]Selection{{Network: ref("default", "a"), Interface: "x"}, {Network: ref("default", "a"), Interface: "y"}},
		},
		{"keys in any case, as for Multus", `[{"Name": "a", "IPs": ["10.0.0.1"]}]`, []Selection{{Network: ref("default", "a"), IPs: []string{"10.0.0.1"}}}},
		{"unknown keys (A2-12)", `[{"name": "a", "example.org/x": 1, "b": null}]`, []Selection{{Network: ref("default", "a"), Unknown: []string{"b", "example.org/x"}}}},
		{"empty and null are absent", `[{"name": "a", "ips": [], "cni-args": {}, "portMappings": null, "default-route": null}]`, []Selection{{Network: ref("default", "a")}}},
		{"gateways", `[{"name": "a", "default-route": ["10.0.0.1"]}]`, []Selection{{Network: ref("default", "a"), DefaultRoute: &[]string{"10.0.0.1"}}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := ParseSelections(tc.annotation, "default")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseSelectionsRefuses(t *testing.T) {
	for _, tc := range []struct{ name, annotation, want string }{
		{"trailing comma (A2-13)", `blue,`, `networks[1]: is empty: remove the comma beside it, or name a network`},
		{"only white space", ` `, `networks[0]: is empty: remove the comma beside it, or name a network`},
		{"two slashes", `a/b/c`, `networks[0]: "a/b/c" has a second '/' or '@': write namespace/name@interface`},
		{"two ats", `a@b@c`, `networks[0]: "a@b@c" has a second '/' or '@': write namespace/name@interface`},
		{"no name", `ns/@net1`, `networks[0]: "ns/@net1" names no network: write namespace/name@interface`},
		{"capital letter (A1-5)", `a,Blue`, `networks[1]: "Blue" is no name in this form: use lower-case letters, digits and '-', or the JSON form: [{"name": "…", "namespace": "…"}]`},
		{"blank in the interface", `a@b c`, `networks[0].interface: Invalid value: "b c": must not contain '/', ':', white space or control characters`},
		{"long interface", `a@abcdefghijklmnop`, `networks[0].interface: Invalid value: "abcdefghijklmnop": must have at most 15 bytes`},

		{"lone object (corpus 3)", `{"name": "a"}`, `must be a list, not object: write a list: [{"name": "…"}]`},
		{"string", `"a"`, `must be a list, not string: write a list: [{"name": "…"}]`},
		{"list of strings", `["a"]`, `networks[0]: "a" is not an object: write {"name": "…"}`},
		{"null element", `[{"name": "a"}, null]`, `networks[1]: null is not an object: write {"name": "…"}`},
		{"syntax", "[\n  {\"name\": \"a\",}\n]", `line 2, column 16: invalid character '}' looking for beginning of object key string: remove the comma before it`},
		{"cut off", `[{"name": "a"}`, `line 1, column 15: unexpected end of JSON input: is a closing bracket or quote missing?`},
		{"no name in JSON (A2-13)", `[{"namespace": "a"}]`, `networks[0].name: Required value: name a NetworkAttachmentDefinition`},
		{
			"namespace in the name (corpus 4)", testdata(t, "annotations/slash.json"),
			`networks[0].name: "a/b" has a namespace in it, which only the comma form takes: write "namespace": "a", "name": "b"`,
		},
		{"wrong type", `[{"name": "a", "ips": "10.0.0.1"}]`, `networks[0].ips: must be a list, not string`},
		{"port as text", `[{"name": "a", "portMappings": [{"hostPort": "80"}]}]`, `networks[0].portMappings.hostPort: must be a number of type int32, not string`},
		{"invalid address (A2-15)", `[{"name": "a", "ips": ["x"]}]`, `networks[0].ips[0]: Invalid value: "x": must be an IP address, e.g. 10.1.2.3 or fd00::3`},
		{"invalid MAC (A2-17)", `[{"name": "a", "mac": "x"}]`, `networks[0].mac: Invalid value: "x": must be 6 bytes in hexadecimal with colons between them`},
		{"invalid GUID (A2-24)", `[{"name": "a", "infiniband-guid": "x"}]`, `networks[0].infiniband-guid: Invalid value: "x": must be 8 bytes in hexadecimal with colons between them`},
		{"invalid gateway (A2-22)", `[{"name": "a", "default-route": ["x"]}]`, `networks[0].default-route[0]: Invalid value: "x": must be an IP address, e.g. 10.1.2.3 or fd00::3`},
		{
			"addresses beside an IPAM claim (A2-25)", `[{"name": "a", "ips": ["10.0.0.1"], "ipam-claim-reference": "c"}]`,
			`networks[0].ipam-claim-reference: Forbidden: excludes ips: the IPAMClaim decides the addresses`,
		},
		{
			"interface of the JSON form (A2-18)", `[{"name": "a", "interface": "a/b"}]`,
			`networks[0].interface: Invalid value: "a/b": must not contain '/', ':', white space or control characters`,
		},
		{"empty key", `[{"name": "a", "cni-args": {"": 1}}]`, `networks[0].cni-args: Required value: a key must not be empty`},
		{
			"several elements", `[{"name": "a", "mac": "x"}, {"name": "b"}, {"name": "c", "mac": "y"}]`,
			"networks[0].mac: Invalid value: \"x\": must be 6 bytes in hexadecimal with colons between them\n" +
				"networks[2].mac: Invalid value: \"y\": must be 6 bytes in hexadecimal with colons between them",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := ParseSelections(tc.annotation, "default")
			if err == nil {
				t.Fatalf("got %+v", got)
			}
			if diff := cmp.Diff("parsing annotation k8s.v1.cni.cncf.io/networks: "+tc.want, err.Error()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestConfigIsTheSelection(t *testing.T) {
	selections, err := ParseSelections(testdata(t, "annotations/elements.json"), "default")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range selections {
		checkConfigRoundTrip(t, s)
	}
}

// checkConfigRoundTrip: a selection is its config, and passes through the
// config's JSON unchanged.
func checkConfigRoundTrip(t *testing.T, s Selection) {
	t.Helper()
	s.Unknown = nil
	config := ToConfig(s)
	if diff := cmp.Diff(s, FromConfig(config)); diff != "" {
		t.Errorf("FromConfig(ToConfig(s)) (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(config, ToConfig(FromConfig(config))); diff != "" {
		t.Errorf("ToConfig(FromConfig(c)) (-want +got):\n%s", diff)
	}
	if err := config.Validate(nil).ToAggregate(); err != nil {
		t.Errorf("a selection that parses is not valid in a claim: %v", err)
	}
	decoded := throughJSON(t, config)
	if diff := cmp.Diff(s, FromConfig(decoded)); diff != "" {
		t.Errorf("through JSON (-want +got):\n%s", diff)
	}
}
