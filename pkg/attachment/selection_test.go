package attachment

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nadra-dev/nadra/pkg/api/reason"
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
		{"trailing comma (A2-13)", `blue,`, `networks[1] is empty`},
		{"only white space", ` `, `networks[0] is empty`},
		{"two slashes", `a/b/c`, `networks[0]: "a/b/c" … '/' or '@'`},
		{"two ats", `a@b@c`, `networks[0]: "a@b@c" … '/' or '@'`},
		{"no name", `ns/@net1`, `networks[0]: "ns/@net1" … no network`},
		{"capital letter (A1-5)", `a,Blue`, `networks[1]: "Blue" … lower-case … [{"name":`},
		{"blank in the interface", `a@b c`, `networks[0].interface: Invalid value: "b c": … white space`},
		{"long interface", `a@abcdefghijklmnop`, `networks[0].interface: Invalid value: "abcdefghijklmnop": … 15 bytes`},

		{"lone object (corpus 3)", `{"name": "a"}`, `a list … object: … [{"name":`},
		{"string", `"a"`, `a list … string: … [{"name":`},
		{"list of strings", `["a"]`, `networks[0]: "a" is not an object: … {"name":`},
		{"null element", `[{"name": "a"}, null]`, `networks[1]: null is not an object: … {"name":`},
		{"syntax", "[\n  {\"name\": \"a\",}\n]", `line 2, column 16: … remove the comma`},
		{"cut off", `[{"name": "a"}`, `line 1, column 15: … closing bracket or quote missing`},
		{"no name in JSON (A2-13)", `[{"namespace": "a"}]`, `networks[0].name: Required value`},
		{"namespace in the name (corpus 4)", testdata(t, "annotations/slash.json"), `networks[0].name: "a/b" … "namespace": "a", "name": "b"`},
		{"wrong type", `[{"name": "a", "ips": "10.0.0.1"}]`, `networks[0].ips: … a list … string`},
		{"port as text", `[{"name": "a", "portMappings": [{"hostPort": "80"}]}]`, `networks[0].portMappings.hostPort: … int32 … string`},
		{"invalid address (A2-15)", `[{"name": "a", "ips": ["x"]}]`, `networks[0].ips[0]: Invalid value: "x"`},
		{"invalid MAC (A2-17)", `[{"name": "a", "mac": "x"}]`, `networks[0].mac: Invalid value: "x": … 6 bytes`},
		{"invalid GUID (A2-24)", `[{"name": "a", "infiniband-guid": "x"}]`, `networks[0].infiniband-guid: Invalid value: "x": … 8 bytes`},
		{"invalid gateway (A2-22)", `[{"name": "a", "default-route": ["x"]}]`, `networks[0].default-route[0]: Invalid value: "x"`},
		{
			"addresses beside an IPAM claim (A2-25)", `[{"name": "a", "ips": ["10.0.0.1"], "ipam-claim-reference": "c"}]`,
			`networks[0].ipam-claim-reference: Forbidden: … ips`,
		},
		{"interface of the JSON form (A2-18)", `[{"name": "a", "interface": "a/b"}]`, `networks[0].interface: Invalid value: "a/b": … '/'`},
		{"number out of range", `[{"name": "a", "cni-args": {"a": {"b": 1e400}}}]`, `networks[0].cni-args.a: … number 1e400`},
		{"empty key", `[{"name": "a", "cni-args": {"": 1}}]`, `networks[0].cni-args: Required value`},
		{
			"several elements", `[{"name": "a", "mac": "x"}, {"name": "b"}, {"name": "c", "mac": "y"}]`,
			"networks[0].mac: Invalid value: \"x\": … networks[2].mac: Invalid value: \"y\":",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := ParseSelections(tc.annotation, "default")
			checkRefused(t, err, reason.AnnotationInvalid, "parsing the networks annotation: … "+tc.want)
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

// checkConfigRoundTrip checks that a selection survives its config and the config's JSON.
func checkConfigRoundTrip(t *testing.T, s Selection) {
	t.Helper()
	s.Unknown = nil
	config := toConfig(s)
	if diff := cmp.Diff(s, FromConfig(config)); diff != "" {
		t.Errorf("FromConfig(toConfig(s)) (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(config, toConfig(FromConfig(config))); diff != "" {
		t.Errorf("toConfig(FromConfig(c)) (-want +got):\n%s", diff)
	}
	if err := config.Validate(nil).ToAggregate(); err != nil {
		t.Errorf("a selection that parses is not valid in a claim: %v", err)
	}
	decoded := throughJSON(t, config)
	if diff := cmp.Diff(s, FromConfig(decoded)); diff != "" {
		t.Errorf("through JSON (-want +got):\n%s", diff)
	}
}
