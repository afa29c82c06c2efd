package attachment

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nadra-dev/nadra/pkg/api/reason"
)

func lookupIn(configs map[string]string) func(NetworkRef) (Network, error) {
	return func(r NetworkRef) (Network, error) {
		config, ok := configs[r.String()]
		if !ok {
			return Network{}, fmt.Errorf("no such network")
		}
		obj := nad(config)
		obj.Namespace, obj.Name = r.Namespace, r.Name
		return ParseNetwork(obj)
	}
}

func TestNewPlan(t *testing.T) {
	selections, err := ParseSelections(`[{"name": "a", "ips": ["10.0.0.1/24", "fd00::1"], "mac": "02:00:00:00:00:01"},
		{"name": "b", "interface": "x", "portMappings": [{"hostPort": 80, "containerPort": 8080}], "bandwidth": {"egressRate": 5}, "deviceID": "0000:03:00.1"},
		{"name": "a", "infiniband-guid": "02:00:00:00:00:00:00:01", "ipam-claim-reference": "c"}]`, "ns")
	if err != nil {
		t.Fatal(err)
	}
	got, err := NewPlan(selections, lookupIn(map[string]string{"ns/a": `{"type": "macvlan"}`, "ns/b": `{"name": "B", "type": "bridge"}`}))
	if err != nil {
		t.Fatal(err)
	}
	raw := func(s string) json.RawMessage { return json.RawMessage(s) }
	want := Plan{
		{
			Network: ref("ns", "a"), Interface: "net1", CNIName: "a", Conflist: raw(`{"name":"a","plugins":[{"type":"macvlan"}]}`),
			CapabilityArgs: map[string]json.RawMessage{"ips": raw(`["10.0.0.1/24","fd00::1"]`), "mac": raw(`"02:00:00:00:00:01"`)},
			CNIArgs:        [][2]string{{"MAC", "02:00:00:00:00:01"}, {"IP", "10.0.0.1/24,fd00::1"}},
		},
		{
			Network: ref("ns", "b"), Interface: "x", CNIName: "B", Conflist: raw(`{"name":"B","plugins":[{"name":"B","type":"bridge"}]}`),
			CapabilityArgs: map[string]json.RawMessage{
				"portMappings": raw(`[{"hostPort":80,"containerPort":8080,"protocol":"tcp"}]`),
				"bandwidth":    raw(`{"ingressRate":0,"ingressBurst":0,"egressRate":5,"egressBurst":0}`),
				"deviceID":     raw(`"0000:03:00.1"`),
			},
		},
		{
			Network: ref("ns", "a"), Interface: "net3", CNIName: "a", Conflist: raw(`{"name":"a","plugins":[{"type":"macvlan"}]}`),
			CapabilityArgs: map[string]json.RawMessage{"infinibandGUID": raw(`"02:00:00:00:00:00:00:01"`)},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestInterfaceNames(t *testing.T) {
	for _, tc := range []struct {
		annotation string
		want       []string
		conflict   string
	}{
		{"", []string{}, ""},
		{"a,b@x,c", []string{"net1", "x", "net3"}, ""},
		{"a,a,a", []string{"net1", "net2", "net3"}, ""},
		{"a@net2,b@net1", []string{"net2", "net1"}, ""},
		{"a@x,b,c@x", nil, `networks[0] (ns/a) … networks[2] (ns/c) … "x"`},
		{"a@net2,b", nil, `networks[0] (ns/a) … networks[1] (ns/b) … "net2"`},
		{"a,b@net1", nil, `networks[0] (ns/a) … networks[1] (ns/b) … "net1"`},
		{"a@eth0", nil, `networks[0] (ns/a) … "eth0"`},
	} {
		t.Run(tc.annotation, func(t *testing.T) {
			selections, err := ParseSelections(tc.annotation, "ns")
			if err != nil {
				t.Fatal(err)
			}
			got, err := InterfaceNames(selections)
			if tc.conflict != "" {
				checkRefused(t, err, reason.InterfaceConflict, tc.conflict)
			} else if err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestNewPlanRefuses(t *testing.T) {
	lookup := lookupIn(map[string]string{
		"ns/a": `{"type": "a"}`, "ns/args": `{"type": "a", "args": 1}`, "ns/file": "",
		"ns/fixed": `{"plugins": [{"type": "a"}, {"type": "b", "ipam": {"type": "static"}}]}`,
	})
	for _, tc := range []struct {
		name, annotation string
		code             reason.Code
		want             string
	}{
		{"missing network", `a,gone`, "", `networks[1] (ns/gone): no such network`},
		{
			"address twice", `[{"name": "a", "ips": ["10.0.0.1/24"]}, {"name": "a", "ips": ["10.0.0.1"]}]`,
			reason.AddressConflict, `networks[0] (ns/a) … networks[1] (ns/a) … 10.0.0.1`,
		},
		{
			"default route twice", `[{"name": "a", "default-route": ["10.0.0.1", "fd00::1"]}, {"name": "a", "default-route": ["FD00::2"]}]`,
			reason.RouteConflict, `networks[0] (ns/a) … networks[1] (ns/a) … IPv6 default route`,
		},
		{"args no object", `[{"name": "args", "cni-args": {"a": 1}}]`, "", `networks[0]: … network ns/args as net1: cni-args: plugins[0]: args: 1 is not an object`},
		{"no prefix length", `[{"name": "fixed", "ips": ["10.0.0.1/24", "10.0.0.2"]}]`, reason.AddressConflict, `networks[0]: … ips[1]: Invalid value: "10.0.0.2"`},
		{"interface name", `a@eth0`, reason.InterfaceConflict, `networks[0] (ns/a) … "eth0"`},
		{"no configuration", `file`, reason.ConfigMissing, `networks[0] (ns/file): … network ns/file: spec.config`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			selections, err := ParseSelections(tc.annotation, "ns")
			if err != nil {
				t.Fatal(err)
			}
			_, err = NewPlan(selections, lookup)
			checkRefused(t, err, tc.code, tc.want)
		})
	}
	_, err := NewPlan([]Selection{{Network: ref("ns", "file")}}, lookup)
	if !errors.Is(err, ErrNoConfig) {
		t.Errorf("%v does not wrap ErrNoConfig", err)
	}
	_, err = NewPlan([]Selection{{Network: ref("ns", "a"), IPs: []string{"x"}}}, lookup)
	checkRefused(t, err, reason.AddressConflict, `networks[0] (ns/a) … "x"`)
}

func TestCNIArgs(t *testing.T) {
	for _, tc := range []struct{ name, config, args, want string }{
		{"none", `{"type": "a"}`, `{}`, `{"name":"blue","plugins":[{"type":"a"}]}`},
		{"new", `{"type": "a"}`, `{"k": 1}`, `{"name":"blue","plugins":[{"args":{"cni":{"k":1}},"type":"a"}]}`},
		{
			"args without cni", `{"type": "a", "args": {"x": 1, "cni": null}}`, `{"k": 1}`,
			`{"name":"blue","plugins":[{"args":{"cni":{"k":1},"x":1},"type":"a"}]}`,
		},
		{
			"the pod's value wins", `{"type": "a", "args": {"cni": {"k": 0, "l": 9007199254740993}}}`, `{"k": {"deep": 1.0}}`,
			`{"name":"blue","plugins":[{"args":{"cni":{"k":{"deep":1.0},"l":9007199254740993}},"type":"a"}]}`,
		},
		{
			"every plugin of the chain", `{"name": "n", "x": 1e400, "plugins": [{"type": "a", "n": 9007199254740993}, {"type": "b"}]}`, `{"k": 1}`,
			`{"name":"n","plugins":[{"args":{"cni":{"k":1}},"n":9007199254740993,"type":"a"},{"args":{"cni":{"k":1}},"type":"b"}],"x":1e400}`,
		},
	} {
		t.Run(tc.name+" (A2-19)", func(t *testing.T) {
			n := Network{Conflist: conflist(t, tc.config)}
			selections, err := ParseSelections(`[{"name": "blue", "cni-args": `+tc.args+`}]`, "default")
			if err != nil {
				t.Fatal(err)
			}
			a, err := NewAttachment(n, selections[0], "net1")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, string(a.Conflist)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// conflist returns a configuration without libcni, which cannot read all numbers of JSON.
func conflist(t *testing.T, config string) json.RawMessage {
	t.Helper()
	list, err := conflistOf([]byte(config))
	if err != nil {
		t.Fatal(err)
	}
	if isNull(list["name"]) {
		list["name"] = mustJSON("blue")
	}
	return mustJSON(list)
}

func TestNewAttachmentRefusesArgumentsThatAreNotJSON(t *testing.T) {
	n := Network{Ref: ref("ns", "a"), Conflist: conflist(t, `{"type": "a"}`)}
	_, err := NewAttachment(n, Selection{CNIArgs: map[string]json.RawMessage{"k": json.RawMessage("x")}}, "net1")
	if err == nil {
		t.Fatal("no error")
	}
}

func TestWithDevice(t *testing.T) {
	n := Network{Ref: ref("ns", "a"), Conflist: conflist(t, `{"plugins": [{"type": "sriov", "vlan": 7}, {"type": "rdma"}]}`)}
	a, err := NewAttachment(n, Selection{DeviceID: "from-the-annotation", MAC: "02:00:00:00:00:01"}, "net1")
	if err != nil {
		t.Fatal(err)
	}
	got, err := a.WithDevice("0000:03:00.1")
	if err != nil {
		t.Fatal(err)
	}
	want := a
	want.Conflist = json.RawMessage(`{"name":"blue","plugins":[{"deviceID":"0000:03:00.1","pciBusID":"0000:03:00.1","type":"sriov","vlan":7},` +
		`{"deviceID":"0000:03:00.1","pciBusID":"0000:03:00.1","type":"rdma"}]}`)
	want.CapabilityArgs = map[string]json.RawMessage{"mac": json.RawMessage(`"02:00:00:00:00:01"`), "deviceID": json.RawMessage(`"0000:03:00.1"`)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if string(a.CapabilityArgs["deviceID"]) != `"from-the-annotation"` {
		t.Errorf("the original changed: %s", a.CapabilityArgs["deviceID"])
	}
	if _, err := a.WithDevice(""); err == nil {
		t.Error("no error for an empty device")
	}
}
