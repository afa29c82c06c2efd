package v1alpha1

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/nadra-dev/nadra/test/bounded"
)

const header = `"apiVersion": "nadra.dev/v1alpha1", "kind": "AttachmentConfig"`

func TestDecode(t *testing.T) {
	raw, err := os.ReadFile("../../../testdata/attachment/configs/full.json")
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	want := &AttachmentConfig{
		TypeMeta:       TypeMeta(),
		Network:        &NetworkReference{Namespace: "storage", Name: "red"},
		Interface:      "data0",
		IPs:            []string{"10.7.0.12/24", "fd07::12"},
		MAC:            "02:00:5e:10:00:01",
		InfinibandGUID: "02:00:5e:10:00:01:00:01",
		CNIArgs: map[string]json.RawMessage{
			"color":  json.RawMessage(`"<blue>"`),
			"n":      json.RawMessage(`9007199254740993`),
			"nested": json.RawMessage(`{"a": [1, 2]}`),
			"none":   json.RawMessage(`null`),
		},
		PortMappings: []PortMapping{{HostPort: 8080, ContainerPort: 80, Protocol: "tcp"}},
		Bandwidth:    &Bandwidth{IngressRate: 1000000, IngressBurst: 2000000},
		DefaultRoute: &[]string{"10.7.0.1"},
		DeviceID:     "0000:03:00.1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Decode (-want +got):\n%s", diff)
	}
}

func TestDecodeKeepsAnEmptyDefaultRoute(t *testing.T) {
	for raw, want := range map[string]*[]string{
		`{` + header + `}`:                                 nil,
		`{` + header + `, "defaultRoute": null}`:           nil,
		`{` + header + `, "defaultRoute": []}`:             {},
		`{` + header + `, "defaultRoute": ["192.0.2.1"] }`: {"192.0.2.1"},
	} {
		c, err := Decode([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, c.DefaultRoute); diff != "" {
			t.Errorf("%s (-want +got):\n%s", raw, diff)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	for _, tc := range []struct{ name, raw, want string }{
		{"unknown field", `{` + header + `, "vlan": 7}`, `unknown field "vlan"`},
		{"unknown nested field", `{` + header + `, "network": {"name": "a", "path": "/x"}}`, `unknown field "network.path"`},
		{"raw CNI configuration", `{` + header + `, "config": {"type": "macvlan"}}`, `unknown field "config"`},
		{"other spelling", `{` + header + `, "MAC": "02:00:5e:10:00:01"}`, `unknown field "MAC"`},
		{"duplicate", `{` + header + `, "mac": "a", "mac": "b"}`, `duplicate field "mac"`},
		{"two mistakes", `{` + header + `, "a": 1, "b": 2}`, "unknown field \"a\"\nunknown field \"b\""},
		{"wrong type", `{` + header + `, "mac": 5}`, `mac: must be of type string, not number`},
		{
			"number too big", `{` + header + `, "portMappings": [{"hostPort": 5000000000}]}`,
			`portMappings.hostPort: must be of type int32, not number 5000000000`,
		},
		{
			"other version", `{"apiVersion": "nadra.dev/v1", "kind": "AttachmentConfig", "new": 1}`,
			`apiVersion: "nadra.dev/v1" is not known: use "nadra.dev/v1alpha1"`,
		},
		{"no version", `{}`, `apiVersion: "" is not known: use "nadra.dev/v1alpha1"`},
		{"other kind", `{"apiVersion": "nadra.dev/v1alpha1", "kind": "Pod"}`, `kind: "Pod" is not known: use "AttachmentConfig"`},
		{"nothing", ``, `decoding JSON: unexpected end of JSON input`},
		{"no object", `[]`, `decoding JSON: json: cannot unmarshal array into Go value of type v1alpha1.AttachmentConfig`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Decode([]byte(tc.raw))
			if err == nil || err.Error() != tc.want {
				t.Errorf("got error %v\nwant      %s", err, tc.want)
			}
		})
	}
}

func TestSchemeKnowsTheKind(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	obj, err := scheme.New(GroupVersion.WithKind(Kind))
	if _, ok := obj.(*AttachmentConfig); !ok || err != nil {
		t.Errorf("got %T, %v", obj, err)
	}
}

// FuzzDecodeAttachmentConfig: what decodes can be encoded, validated and
// overlaid, and decodes to the same again.
func FuzzDecodeAttachmentConfig(f *testing.F) {
	files, _ := filepath.Glob("../../../testdata/attachment/configs/*.json")
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		bounded.Run(t, len(raw), func() {
			c, err := Decode(raw)
			if err != nil {
				return
			}
			first := encode(t, c)
			again, err := Decode(first)
			if err != nil {
				t.Fatalf("decoding %s: %v", first, err)
			}
			if diff := cmp.Diff(string(first), string(encode(t, again))); diff != "" {
				t.Errorf("encoding (-first +second):\n%s", diff)
			}
			if diff := cmp.Diff(c.Validate(nil).ToAggregate() == nil, again.Validate(nil).ToAggregate() == nil); diff != "" {
				t.Errorf("validity (-first +second):\n%s", diff)
			}
			over := Overlay(AttachmentConfig{}, *c)
			if diff := cmp.Diff(string(first), string(encode(t, &over))); diff != "" {
				t.Errorf("overlay on nothing (-want +got):\n%s", diff)
			}
		})
	})
}

func encode(t *testing.T, c *AttachmentConfig) []byte {
	t.Helper()
	raw, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestDecodeGrowth checks that parameters with many addresses are not decoded and judged with the square of their number.
func TestDecodeGrowth(t *testing.T) {
	bounded.Growth(t, 4000, func(n int) func() {
		raw := []byte(`{"apiVersion":"` + GroupVersion.String() + `","kind":"AttachmentConfig","ips":[` + strings.Repeat(`"10.0.0.1/8",`, n) + `"10.0.0.1/8"]}`)
		return func() {
			if c, err := Decode(raw); err == nil {
				c.Validate(nil)
			}
		}
	})
}
