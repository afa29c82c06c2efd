package v1alpha1

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestValidate(t *testing.T) {
	list := func(s ...string) *[]string { return &s }
	for _, tc := range []struct {
		name   string
		config AttachmentConfig
		want   []string
	}{
		{"nothing", AttachmentConfig{}, nil},
		{"network", AttachmentConfig{Network: &NetworkReference{Name: "a.b", Namespace: "ns"}}, nil},
		{"network without namespace", AttachmentConfig{Network: &NetworkReference{Name: "a"}}, nil},
		{
			"network without name",
			AttachmentConfig{Network: &NetworkReference{Namespace: "ns"}},
			[]string{`c.network.name: Required value: name a NetworkAttachmentDefinition`},
		},
		{
			"network with slash",
			AttachmentConfig{Network: &NetworkReference{Name: "a/b"}},
			[]string{`c.network.name: Invalid value: "a/b": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`},
		},
		{
			"namespace with dot",
			AttachmentConfig{Network: &NetworkReference{Name: "a", Namespace: "b.c"}},
			[]string{`c.network.namespace: Invalid value: "b.c": must not contain dots`},
		},

		{"interface of 15 bytes", AttachmentConfig{Interface: "abcdefghijklmno"}, nil},
		{"interface with odd characters", AttachmentConfig{Interface: "a_B.1@-é"}, nil},
		{
			"interface of 16 bytes",
			AttachmentConfig{Interface: "abcdefghijklmnop"},
			[]string{`c.interface: Invalid value: "abcdefghijklmnop": must have at most 15 bytes`},
		},
		{
			"interface with slash",
			AttachmentConfig{Interface: "a/b"},
			[]string{`c.interface: Invalid value: "a/b": must not contain '/', ':', white space or control characters`},
		},
		{
			"interface with colon",
			AttachmentConfig{Interface: "a:b"},
			[]string{`c.interface: Invalid value: "a:b": must not contain '/', ':', white space or control characters`},
		},
		{
			"interface with space",
			AttachmentConfig{Interface: "a b"},
			[]string{`c.interface: Invalid value: "a b": must not contain '/', ':', white space or control characters`},
		},
		{"interface dot", AttachmentConfig{Interface: "."}, []string{`c.interface: Invalid value: ".": must not be "." or ".."`}},
		{"interface dots", AttachmentConfig{Interface: ".."}, []string{`c.interface: Invalid value: "..": must not be "." or ".."`}},
		{
			"interface lo",
			AttachmentConfig{Interface: "lo"},
			[]string{`c.interface: Invalid value: "lo": is the loopback interface that every pod has`},
		},

		{"addresses", AttachmentConfig{IPs: []string{"10.0.0.5", "10.0.0.6/24", "fd00::5", "fd00::6/64", "10.0.0.8/31", "10.0.0.9/32", "fd00::8/127"}}, nil},
		{
			"address of a network",
			AttachmentConfig{IPs: []string{"192.168.31.0/24"}},
			[]string{`c.ips[0]: Invalid value: "192.168.31.0/24": is the address of a network: give a host's address in it`},
		},
		{
			"address of a v6 network",
			AttachmentConfig{IPs: []string{"fd00::/64"}},
			[]string{`c.ips[0]: Invalid value: "fd00::/64": is the address of a network: give a host's address in it`},
		},
		{
			"no address",
			AttachmentConfig{IPs: []string{"10.0.0"}},
			[]string{`c.ips[0]: Invalid value: "10.0.0": must be an IP address, e.g. 10.1.2.3 or fd00::3`},
		},
		{
			"no prefix length",
			AttachmentConfig{IPs: []string{"10.0.0.1/33"}},
			[]string{`c.ips[0]: Invalid value: "10.0.0.1/33": must be an IP address with or without a prefix length, e.g. 10.1.2.3/24 or fd00::3`},
		},
		{
			"address with zone",
			AttachmentConfig{IPs: []string{"fe80::1%eth0"}},
			[]string{`c.ips[0]: Invalid value: "fe80::1%eth0": must be an IP address, e.g. 10.1.2.3 or fd00::3`},
		},
		{
			"address with a CNI_ARGS separator",
			AttachmentConfig{IPs: []string{"10.0.0.1;K8S_POD_NAME=x"}},
			[]string{`c.ips[0]: Invalid value: "10.0.0.1;K8S_POD_NAME=x": must be an IP address, e.g. 10.1.2.3 or fd00::3`},
		},
		{
			"address twice",
			AttachmentConfig{IPs: []string{"10.0.0.1", "10.0.0.1/24"}},
			[]string{`c.ips[1]: Duplicate value: "10.0.0.1/24"`},
		},

		{"MAC", AttachmentConfig{MAC: "02:00:5E:10:00:01"}, nil},
		{
			"MAC of 8 bytes",
			AttachmentConfig{MAC: "02:00:5e:10:00:01:00:01"},
			[]string{`c.mac: Invalid value: "02:00:5e:10:00:01:00:01": must be 6 bytes in hexadecimal with colons between them`},
		},
		{
			"MAC with a CNI_ARGS separator",
			AttachmentConfig{MAC: "02:00:5e:10:00:01;IP=10.0.0.1"},
			[]string{`c.mac: Invalid value: "02:00:5e:10:00:01;IP=10.0.0.1": must be 6 bytes in hexadecimal with colons between them`},
		},
		{
			"MAC of a group",
			AttachmentConfig{MAC: "f1:fd:59:0b:bd:2b"},
			[]string{`c.mac: Invalid value: "f1:fd:59:0b:bd:2b": is the address of a group, which no interface can have: the first byte must be even, e.g. 02`},
		},
		{
			"MAC of zeros",
			AttachmentConfig{MAC: "00:00:00:00:00:00"},
			[]string{`c.mac: Invalid value: "00:00:00:00:00:00": must not be zero`},
		},
		{"GUID whose first byte is odd", AttachmentConfig{InfinibandGUID: "01:00:5e:10:00:01:00:01"}, nil},
		{"GUID", AttachmentConfig{InfinibandGUID: "02:00:5e:10:00:01:00:01"}, nil},
		{
			"GUID of 6 bytes",
			AttachmentConfig{InfinibandGUID: "02:00:5e:10:00:01"},
			[]string{`c.infinibandGUID: Invalid value: "02:00:5e:10:00:01": must be 8 bytes in hexadecimal with colons between them`},
		},

		{"CNI args", AttachmentConfig{CNIArgs: map[string]json.RawMessage{"a": json.RawMessage("null")}}, nil},
		{
			"CNI args not JSON",
			AttachmentConfig{CNIArgs: map[string]json.RawMessage{"": json.RawMessage("1"), "a": json.RawMessage("x")}},
			[]string{`c.cniArgs: Required value: a key must not be empty`, `c.cniArgs[a]: Invalid value: "x": must be JSON`},
		},

		{"port mappings", AttachmentConfig{PortMappings: []PortMapping{
			{HostPort: 1, ContainerPort: 65535},
			{HostPort: 1, ContainerPort: 1, Protocol: "SCTP", HostIP: "fd00::1"},
		}}, nil},
		{
			"port mapping wrong everywhere",
			AttachmentConfig{PortMappings: []PortMapping{{HostPort: 65536, Protocol: "icmp", HostIP: "node1"}}},
			[]string{
				`c.portMappings[0].hostPort: Invalid value: 65536: must be between 1 and 65535`,
				`c.portMappings[0].containerPort: Invalid value: 0: must be between 1 and 65535`,
				`c.portMappings[0].protocol: Unsupported value: "icmp": supported values: "tcp", "udp", "sctp"`,
				`c.portMappings[0].hostIP: Invalid value: "node1": must be an IP address, e.g. 10.1.2.3 or fd00::3`,
			},
		},
		{"bandwidth", AttachmentConfig{Bandwidth: &Bandwidth{IngressRate: 1, IngressBurst: 1, EgressRate: 1}}, nil},
		{
			"bandwidth wrong everywhere",
			AttachmentConfig{Bandwidth: &Bandwidth{IngressBurst: 1, EgressRate: -1, EgressBurst: -1}},
			[]string{
				`c.bandwidth.ingressBurst: Invalid value: 1: needs ingressRate`,
				`c.bandwidth.egressRate: Invalid value: -1: must not be negative`,
				`c.bandwidth.egressBurst: Invalid value: -1: must not be negative`,
			},
		},
		{"default route", AttachmentConfig{DefaultRoute: list("10.0.0.1", "fd00::1")}, nil},
		{"empty default route", AttachmentConfig{DefaultRoute: list()}, nil},
		{
			"default route with prefix",
			AttachmentConfig{DefaultRoute: list("10.0.0.1/24")},
			[]string{`c.defaultRoute[0]: Invalid value: "10.0.0.1/24": must be an IP address, e.g. 10.1.2.3 or fd00::3`},
		},
		{"device ID", AttachmentConfig{DeviceID: "0000:03:00.1"}, nil},
		{
			"device ID leaving its directory",
			AttachmentConfig{DeviceID: "../x"},
			[]string{`c.deviceID: Invalid value: "../x": must be the name of one device, without '/' or white space, e.g. 0000:03:00.1`},
		},
		{"IPAM claim", AttachmentConfig{IPAMClaimReference: "vm-1.blue"}, nil},
		{
			"IPAM claim with addresses",
			AttachmentConfig{IPAMClaimReference: "vm", IPs: []string{"10.0.0.1"}},
			[]string{`c.ipamClaimReference: Forbidden: excludes ips: the IPAMClaim decides the addresses`},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			for _, err := range tc.config.Validate(field.NewPath("c")) {
				got = append(got, err.Error())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestOverlay(t *testing.T) {
	base := AttachmentConfig{
		Network:   &NetworkReference{Namespace: "ns", Name: "a"},
		Interface: "x",
		IPs:       []string{"10.0.0.1", "10.0.0.2"},
		CNIArgs:   map[string]json.RawMessage{"a": json.RawMessage("1"), "b": json.RawMessage("2")},
		Bandwidth: &Bandwidth{IngressRate: 1, IngressBurst: 2},
		DeviceID:  "d",
	}
	over := AttachmentConfig{
		TypeMeta:     TypeMeta(),
		IPs:          []string{"10.0.0.3"},
		MAC:          "m",
		CNIArgs:      map[string]json.RawMessage{"b": json.RawMessage("3"), "c": json.RawMessage("4")},
		Bandwidth:    &Bandwidth{EgressRate: 3},
		DefaultRoute: &[]string{},
	}
	before := []*AttachmentConfig{base.DeepCopy(), over.DeepCopy()}
	want := AttachmentConfig{
		TypeMeta:     TypeMeta(),
		Network:      &NetworkReference{Namespace: "ns", Name: "a"},
		Interface:    "x",
		IPs:          []string{"10.0.0.3"},
		MAC:          "m",
		CNIArgs:      map[string]json.RawMessage{"a": json.RawMessage("1"), "b": json.RawMessage("3"), "c": json.RawMessage("4")},
		Bandwidth:    &Bandwidth{EgressRate: 3},
		DefaultRoute: &[]string{},
		DeviceID:     "d",
	}
	got := Overlay(base, over)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Overlay (-want +got):\n%s", diff)
	}
	got.IPs[0], got.CNIArgs["c"][0], got.Bandwidth.EgressRate = "changed", 'x', 9
	if diff := cmp.Diff(before, []*AttachmentConfig{&base, &over}); diff != "" {
		t.Errorf("the result shares something with what it was made of (-before +after):\n%s", diff)
	}
}

func TestDepth(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "1": 0, "[]": 1, `{"a":[{}]}`: 3, `["[[[", "\"[["]`: 1, "[[[": 3, `]]][`: 0, `"[`: 0, `[],[],[[]]`: 2,
	} {
		if got := depth(text); got != want {
			t.Errorf("%s: depth %d, want %d", text, got, want)
		}
	}
}
