package attachment

import (
	"encoding/json"
	"testing"
)

// TestSatisfies checks which requests an attachment meets: those with the same parameters,
// however the parameters are written and stored.
func TestSatisfies(t *testing.T) {
	const ns = "default"
	for _, tt := range []struct {
		name, has, wants string
		byClaim, want    bool
	}{
		{name: "same", has: "blue", wants: "blue", want: true},
		{name: "other network", has: "blue", wants: "red"},
		{name: "other namespace", has: "blue", wants: "ops/blue"},
		{name: "an unnamed request takes any interface", has: "blue@x", wants: "blue", want: true},
		{name: "a named one does not", has: "blue@x", wants: "blue@y"},
		{name: "a name that the position gave", has: "blue", wants: "blue@net1", want: true},
		{name: "same addresses", has: `[{"name":"blue","ips":["10.1.0.9/24"]}]`, wants: `[{"ips":["10.1.0.9/24"],"name":"blue"}]`, want: true},
		{name: "other addresses", has: `[{"name":"blue","ips":["10.1.0.9/24"]}]`, wants: `[{"name":"blue","ips":["10.1.0.8/24"]}]`},
		{name: "no addresses any more", has: `[{"name":"blue","ips":["10.1.0.9/24"]}]`, wants: "blue"},
		{name: "other MAC", has: `[{"name":"blue","mac":"02:00:00:00:00:01"}]`, wants: `[{"name":"blue","mac":"02:00:00:00:00:02"}]`},
		{name: "same arguments", has: `[{"name":"blue","cni-args":{"a":{"b":1,"c":2}}}]`, wants: `[{"name":"blue","cni-args":{"a":{"c":2,  "b":1}}}]`, want: true},
		{name: "other arguments", has: `[{"name":"blue","cni-args":{"a":1}}]`, wants: `[{"name":"blue","cni-args":{"a":2}}]`},
		{name: "default route", has: "blue", wants: `[{"name":"blue","default-route":["10.1.0.1"]}]`},
		{name: "empty default route", has: "blue", wants: `[{"name":"blue","default-route":[]}]`},
		{name: "the allocated device counts", has: `[{"name":"blue","deviceID":"0000:01:00.1"}]`, wants: "blue", byClaim: true, want: true},
		{name: "the device without a claim", has: `[{"name":"blue","deviceID":"0000:01:00.1"}]`, wants: "blue"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			has, err := ParseSelections(tt.has, ns)
			if err != nil {
				t.Fatal(err)
			}
			wants, err := ParseSelections(tt.wants, ns)
			if err != nil {
				t.Fatal(err)
			}
			iface := has[0].Interface
			if iface == "" {
				iface = "net1"
			}
			a, err := NewAttachment(Network{Ref: has[0].Network, Conflist: json.RawMessage(`{"cniVersion":"1.0.0","name":"n","plugins":[{"type":"bridge"}]}`)}, has[0], iface)
			if err != nil {
				t.Fatal(err)
			}
			raw, err := json.Marshal(a)
			if err != nil {
				t.Fatal(err)
			}
			var stored Attachment
			if err := json.Unmarshal(raw, &stored); err != nil {
				t.Fatal(err)
			}
			for _, one := range []Attachment{a, stored} {
				if got := one.Satisfies(wants[0], tt.byClaim); got != tt.want {
					t.Errorf("%+v satisfies %+v: %t, want %t", one, wants[0], got, tt.want)
				}
			}
		})
	}
}

// TestCheckRequests checks which elements of a running pod's annotation contradict each other.
func TestCheckRequests(t *testing.T) {
	for text, valid := range map[string]bool{
		"blue,blue@net1": true, // the first one has another name, or gets one
		"blue@x,red@x":   false,
		"blue@eth0":      false,
		`[{"name":"blue","ips":["10.1.0.9/24"]},{"name":"red","ips":["10.1.0.9/16"]}]`:                           false,
		`[{"name":"blue","default-route":["10.1.0.1"]},{"name":"red","default-route":["10.2.0.1"]}]`:             false,
		`[{"name":"blue","default-route":["10.1.0.1"]},{"name":"red","ips":["10.2.0.1/24"],"interface":"net7"}]`: true,
	} {
		selections, err := ParseSelections(text, "default")
		if err != nil {
			t.Fatal(err)
		}
		if err := CheckRequests(selections); (err == nil) != valid {
			t.Errorf("%s: %v", text, err)
		}
	}
}
