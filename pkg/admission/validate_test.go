package admission

import (
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"sigs.k8s.io/yaml"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

const head = `{apiVersion: nadra.dev/v1alpha1, kind: AttachmentConfig, `

func config(requests, parameters string) string {
	return "{requests: [" + requests + "], opaque: {driver: net.nadra.dev, parameters: " + head + parameters + "}}}"
}

const (
	lan  = "{name: a, exactly: {deviceClassName: lan.shop.nad.nadra.dev}}"
	wan  = "{name: b, exactly: {deviceClassName: wan.infra.nad.nadra.dev}}"
	nic  = "{name: d, exactly: {deviceClassName: nic.example.com}}"
	best = "{name: h, firstAvailable: [{name: x, deviceClassName: nic.example.com}, {name: y, deviceClassName: lan.shop.nad.nadra.dev}]}"
	gpu  = "{name: g, exactly: {deviceClassName: gpu.example.com, adminAccess: true}}"
	free = "{name: f, firstAvailable: [{name: x, deviceClassName: lan.shop.nad.nadra.dev}, {name: z, deviceClassName: wan.infra.nad.nadra.dev}]}"
)

func TestClaim(t *testing.T) {
	alone := attachment.Isolation{On: true}
	shared := attachment.Isolation{On: true, Global: []string{"infra"}}
	for name, c := range map[string]struct {
		requests, config string
		isolation        attachment.Isolation
		want             []string
	}{
		"nothing":                  {},
		"no config":                {requests: lan},
		"its network":              {requests: lan, config: config("a", "network: {namespace: shop, name: lan}")},
		"its network, in short":    {requests: lan, config: config("", "network: {name: lan}")},
		"no network":               {requests: lan + "," + wan, config: config("", "interface: data0")},
		"another driver's":         {requests: lan, config: "{opaque: {driver: gpu.example.com, parameters: {a: b}}}"},
		"beside another driver's":  {requests: gpu + "," + lan, config: config("", "network: {name: lan}")},
		"class of a user":          {requests: "{name: a, exactly: {deviceClassName: fast}}", config: config("", "network: {name: lan}")},
		"a device's request":       {requests: nic + "," + lan, config: config("a", "deviceFrom: d")},
		"one for all requests":     {requests: nic + "," + lan, config: config("", "deviceFrom: d")},
		"an alternative's":         {requests: best + "," + lan, config: config("a", "deviceFrom: h")},
		"no such request":          {requests: nic + "," + lan, config: config("a", "deviceFrom: disk"), want: []string{`parameters.deviceFrom: Invalid value: "disk": the claim has no request "disk": use one of d, a`}},
		"the network's own":        {requests: nic + "," + lan, config: config("a", "deviceFrom: a"), want: []string{`parameters.deviceFrom: Invalid value: "a": `, "nadra's own"}},
		"a pool of nadra's":        {requests: "{name: p, exactly: {deviceClassName: sriov.intel.com.pool.nadra.dev}}," + lan, config: config("a", "deviceFrom: p"), want: []string{"nadra's own"}},
		"several devices":          {requests: "{name: d, exactly: {deviceClassName: nic.example.com, count: 2}}," + lan, config: config("a", "deviceFrom: d"), want: []string{"has 2 devices"}},
		"an administrator's":       {requests: gpu + "," + lan, config: config("a", "deviceFrom: g"), want: []string{"adminAccess"}},
		"for no network":           {requests: nic + "," + lan, config: config("d", "deviceFrom: d"), want: []string{"requests d, none of which is for a network"}},
		"for alternatives only":    {requests: best + "," + lan, config: config("h/x", "deviceFrom: h"), want: []string{"requests h/x, none"}},
		"no such field":            {requests: lan, config: config("a", "iface: x"), want: []string{`spec.devices.config[0].opaque.parameters: Invalid value: unknown field "iface"`}},
		"no such version":          {requests: lan, config: "{opaque: {driver: net.nadra.dev, parameters: {apiVersion: nadra.dev/v2, kind: AttachmentConfig}}}", want: []string{`apiVersion: "nadra.dev/v2"`}},
		"no parameters":            {requests: lan, config: "{opaque: {driver: net.nadra.dev}}", want: []string{"spec.devices.config[0].opaque.parameters: Invalid value"}},
		"no address":               {requests: lan, config: config("a", "ips: [10.0.0.300]"), want: []string{"spec.devices.config[0].opaque.parameters.ips[0]: Invalid value"}},
		"another network":          {requests: lan, config: config("a", "network: {name: wan}"), want: []string{`parameters.network: Invalid value: "shop/wan": `, `class lan.shop.nad.nadra.dev`, `class wan.shop.nad.nadra.dev`}},
		"another network for all":  {requests: lan + "," + wan, config: config("", "network: {name: lan}"), want: []string{`Invalid value: "shop/lan": `, "class wan.infra"}},
		"another request's":        {requests: lan + "," + wan, config: config("b", "network: {namespace: infra, name: wan}")},
		"one alternative's":        {requests: free, config: config("f/x", "network: {name: lan}")},
		"another alternative's":    {requests: free, config: config("f/z", "network: {name: lan}"), want: []string{`Invalid value: "shop/lan": `, "class wan.infra"}},
		"all alternatives'":        {requests: free, config: config("f", "network: {name: lan}"), want: []string{`Invalid value: "shop/lan": `, "class wan.infra"}},
		"a request of that prefix": {requests: "{name: f, exactly: {deviceClassName: lan.shop.nad.nadra.dev}}, {name: fx, exactly: {deviceClassName: wan.infra.nad.nadra.dev}}", config: config("f", "network: {name: lan}")},
		"administrative access": {
			requests: "{name: a, exactly: {deviceClassName: lan.shop.nad.nadra.dev, adminAccess: true}}",
			want:     []string{"spec.devices.requests[0].exactly.adminAccess: Forbidden"},
		},
		"isolated":             {requests: lan + "," + wan, isolation: alone, want: []string{"spec.devices.requests[1].exactly.deviceClassName: Forbidden: [NamespaceIsolation] ", "network infra/wan"}},
		"isolated alternative": {requests: free, isolation: alone, want: []string{"spec.devices.requests[0].firstAvailable[1].deviceClassName: Forbidden"}},
		"isolated first alternative": {
			requests:  "{name: f, firstAvailable: [{name: z, deviceClassName: wan.infra.nad.nadra.dev}, {name: x, deviceClassName: lan.shop.nad.nadra.dev}]}",
			isolation: alone, want: []string{"spec.devices.requests[0].firstAvailable[0].deviceClassName: Forbidden"},
		},
		"shared":                  {requests: lan + "," + wan, isolation: shared},
		"isolated by config":      {requests: "{name: a, exactly: {deviceClassName: fast}}", config: config("", "network: {namespace: infra, name: wan}"), isolation: alone, want: []string{"parameters.network: Forbidden"}},
		"isolated, a dotted name": {requests: "{name: a, exactly: {deviceClassName: a.b.infra.nad.nadra.dev}}", isolation: alone, want: []string{"[NamespaceIsolation] ", "network infra/a.b"}},
	} {
		var spec resourceapi.ResourceClaimSpec
		if err := yaml.UnmarshalStrict([]byte("devices: {requests: ["+c.requests+"], config: ["+c.config+"]}"), &spec); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		compare(t, name, Claim(spec, "shop", c.isolation).ToAggregate(), c.want)
		var inTemplate []string
		for _, w := range c.want {
			inTemplate = append(inTemplate, strings.ReplaceAll(w, "spec.devices", "spec.spec.devices"))
		}
		compare(t, name, Template(resourceapi.ResourceClaimTemplateSpec{Spec: spec}, "shop", c.isolation).ToAggregate(), inTemplate)
	}
}

func TestClass(t *testing.T) {
	long := attachment.NetworkRef{Namespace: "shop", Name: strings.Repeat("n", 250)}
	for name, c := range map[string]struct {
		class, config string
		want          []string
	}{
		"no config":              {class: "lan.shop.nad.nadra.dev"},
		"its network":            {class: "lan.shop.nad.nadra.dev", config: config("", "network: {namespace: shop, name: lan}")},
		"a cut name":             {class: attachment.DeviceClassName(long), config: config("", "network: {namespace: shop, name: "+long.Name+"}")},
		"another network":        {class: "lan.shop.nad.nadra.dev", config: config("", "network: {namespace: shop, name: wan}"), want: []string{"spec.config[0].opaque.parameters.network: Invalid value: \"shop/wan\""}},
		"no namespace":           {class: "lan.shop.nad.nadra.dev", config: config("", "network: {name: lan}"), want: []string{"spec.config[0].opaque.parameters.network.namespace: Required value"}},
		"class of a user":        {class: "fast", config: config("", "network: {name: lan}")},
		"no such field":          {class: "fast", config: config("", "mtu: 9000"), want: []string{`unknown field "mtu"`}},
		"another driver's":       {class: "fast", config: "{opaque: {driver: gpu.example.com, parameters: {a: b}}}"},
		"two, the second is bad": {class: "fast", config: config("", "interface: a") + "," + config("", "interface: lo"), want: []string{"spec.config[1].opaque.parameters.interface: Invalid value"}},
	} {
		text := strings.ReplaceAll("{metadata: {name: "+c.class+"}, spec: {config: ["+c.config+"]}}", "requests: [], ", "")
		class := &resourceapi.DeviceClass{}
		if err := yaml.UnmarshalStrict([]byte(text), class); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		compare(t, name, Class(class).ToAggregate(), c.want)
	}
}

// compare checks that an error has all texts, or that there is no error if there are no texts.
func compare(t *testing.T, name string, err error, want []string) {
	t.Helper()
	if len(want) == 0 && err != nil {
		t.Errorf("%s: got %v", name, err)
	}
	for _, w := range want {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("%s: got %v, want %s", name, err, w)
		}
	}
}
