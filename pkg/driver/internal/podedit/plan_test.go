package podedit

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/test/drivertest"
)

const sandbox = "s"

// record returns an attached record of pod web for an element of the annotation, with this
// interface. change makes it one of a claim, a removed one or an added one.
func record(t *testing.T, element, iface string, index int, change ...func(*checkpoint.Record)) checkpoint.Record {
	t.Helper()
	s, err := attachment.ParseSelections(element, "default")
	if err != nil {
		t.Fatal(err)
	}
	a, err := attachment.NewAttachment(attachment.Network{Ref: s[0].Network, Conflist: json.RawMessage(`{"cniVersion":"1.0.0","name":"n","plugins":[{"type":"bridge"}]}`)}, s[0], iface)
	if err != nil {
		t.Fatal(err)
	}
	r := checkpoint.Record{
		Prepared: attachment.Prepared{Pod: drivertest.Web, Request: iface, Index: index, Attachment: a},
		Phase:    checkpoint.Attached, Sandbox: &attachment.Sandbox{ID: sandbox},
	}
	for _, c := range change {
		c(&r)
	}
	return r
}

func claimed(r *checkpoint.Record) {
	r.Claim = attachment.ClaimRef{Namespace: "default", Name: "c", UID: "c-uid"}
}

// adopted makes it one that Multus made, with what Multus passed to the plugins.
func adopted(r *checkpoint.Record) {
	r.Adopted = true
	r.Attachment.CapabilityArgs = map[string]json.RawMessage{"CNIDeviceInfoFile": json.RawMessage(`"/run/info"`)}
}
func live(r *checkpoint.Record)  { r.LiveIn = sandbox }
func moved(r *checkpoint.Record) { r.Moved = true }
func device(r *checkpoint.Record) {
	r.Hardware = &attachment.Hardware{ID: "0000:01:00.1", ResourceName: "example.com/vf"}
}

func whereabouts(text string) func(*checkpoint.Record) {
	return func(r *checkpoint.Record) {
		r.Attachment.Conflist = json.RawMessage(`{"name":"n","plugins":[{"type":"macvlan","ipam":{"type":"whereabouts","range":"` + text + `"}}]}`)
	}
}

func removed(r *checkpoint.Record) {
	r.Removed, r.Phase, r.Sandbox = true, checkpoint.Prepared, nil
}

// text describes a plan in one line.
func (p Plan) text() string {
	var out []string
	for _, r := range p.Remove {
		out = append(out, "-"+r.Attachment.Network.Name+"@"+r.Attachment.Interface)
	}
	for _, r := range p.Back {
		out = append(out, "back "+r.Attachment.Network.Name+"@"+r.Attachment.Interface)
	}
	for _, a := range p.Add {
		out = append(out, fmt.Sprintf("+%s@%s#%d", a.Selection.Network.Name, a.Interface, a.Index))
	}
	var moves []string
	for k, i := range p.Index {
		moves = append(moves, fmt.Sprintf("%s#%d", k.Request, i))
	}
	slices.Sort(moves)
	for _, r := range p.Refused {
		moves = append(moves, fmt.Sprintf("refused %s@%s removing %t", r.Network.Name, r.Interface, r.Removing))
	}
	return strings.Join(append(out, moves...), " ")
}

// TestMake compares annotations with what a pod has.
func TestMake(t *testing.T) {
	one := func(element, iface string, index int, change ...func(*checkpoint.Record)) checkpoint.Record {
		return record(t, element, iface, index, change...)
	}
	blueRed := []checkpoint.Record{one("blue", "net1", 0), one("red", "net2", 1)}
	ofMultus := []checkpoint.Record{one("blue", "net1", 0, adopted), one("red", "net2", 1, adopted)}
	byClaim := []checkpoint.Record{one("blue", "net1", 0, claimed), one("red", "net2", 1, claimed)}
	for _, tt := range []struct {
		name                 string
		baseline, annotation string
		records              []checkpoint.Record
		want                 string
	}{
		{"unchanged", "blue,red", "blue,red", blueRed, ""},
		{"only written otherwise", "blue,red", " default/blue , red", blueRed, ""},
		{"a network is added to a pod that had none", "", "blue", nil, "+blue@net1#0"},
		{"at the end", "blue,red", "blue,red,green", blueRed, "+green@net3#2"},
		{"at the beginning: the others keep their interfaces", "blue,red", "green,blue,red", blueRed, "+green@net3#0 net1#1 net2#2"},
		{"the first one is removed", "blue,red", "red", blueRed, "-blue@net1 net2#0"},
		{"all are removed", "blue,red", "[]", blueRed, "-blue@net1 -red@net2"},
		{"the annotation is removed", "blue,red", "", byClaim, "-blue@net1 -red@net2"},
		{"one is replaced, in its interface", "blue,red", "blue,green", blueRed, "-red@net2 +green@net2#1"},
		{"a parameter changes", "blue,red", `[{"name":"blue","ips":["10.1.0.9/24"]},{"name":"red"}]`, blueRed, "-blue@net1 +blue@net1#0"},
		{"an interface is renamed", "blue,red", "blue@wan,red", blueRed, "-blue@net1 +blue@wan#0"},
		{"an interface is named as it is", "blue,red", "blue@net1,red@net2", blueRed, ""},
		{"the order changes", "blue,red", "red,blue", blueRed, "net1#1 net2#0"},
		{"the order changes back", "red,blue", "red,blue", []checkpoint.Record{one("blue", "net2", 0, moved), one("red", "net1", 1)}, "net1#0 net2#1"},
		{"the order of a claim by hand is not that of the annotation", "red,blue", "red,blue", byClaim, ""},
		{"a name that a later element requests", "", "blue,red@net1", nil, "+blue@net2#0 +red@net1#1"},
		{"an interface that another network is to have", "blue@x", "blue,red@x", []checkpoint.Record{one("blue", "x", 0)}, "-blue@x +blue@net1#0 +red@x#1"},
		{"the same network twice", "blue", "blue,blue", blueRed[:1], "+blue@net2#1"},
		{"one of two of the same network", "blue,blue", "blue", []checkpoint.Record{one("blue", "net1", 0), one("blue", "net2", 1)}, "-blue@net2"},
		{"the one without a name stays", "blue@wan,blue", "blue", []checkpoint.Record{one("blue", "wan", 0), one("blue", "net2", 1)}, "-blue@wan net2#0"},
		{"networks are swapped between interfaces", "blue@a,red@b", "red@a,blue@b", []checkpoint.Record{one("blue", "a", 0), one("red", "b", 1)}, "-blue@a -red@b +red@a#0 +blue@b#1"},

		{"an adopted pod is unchanged", "blue,red", "blue,red", ofMultus, ""},
		{"a network is added to an adopted pod", "blue,red", "blue,red,green", ofMultus, "+green@net3#2"},
		{"a network of an adopted pod is removed", "blue,red", "red", ofMultus, "-blue@net1 net2#0"},
		{"Multus had a network from elsewhere", "blue", "blue,green", ofMultus, "+green@net3#2 net1#1 net2#0"},

		{"an added one is removed", "blue", "blue", []checkpoint.Record{one("blue", "net1", 0), one("red", "net2", 1, live)}, "-red@net2"},
		{"a removed one without a claim comes back anew", "blue", "blue", []checkpoint.Record{one("blue", "net1", 0, removed)}, "+blue@net1#0"},
		{"and is there", "blue", "blue", []checkpoint.Record{one("blue", "net1", 0, removed), one("blue", "net1", 0, live)}, ""},
		{"a removed one with a claim comes back", "blue,red", "blue,red", []checkpoint.Record{one("blue", "net1", 0, claimed), one("red", "net2", 1, claimed, removed)}, "back red@net2"},
		{"and was added live", "blue", "[]", []checkpoint.Record{one("blue", "net1", 0, claimed, live)}, "-blue@net1"},
		{"its interface is in use", "blue", "red@net1,blue", []checkpoint.Record{one("blue", "net1", 0, claimed, removed), one("red", "net1", 0, live)}, "+blue@net2#1"},
		{"another element names its interface", "blue", "blue,red@net1", []checkpoint.Record{one("blue", "net1", 0, claimed, removed)}, "+blue@net2#0 +red@net1#1"},
		{"the interface of a removed one is free", "blue,red", "red,green", []checkpoint.Record{one("blue", "net1", 0, claimed, removed), one("red", "net2", 1, claimed)}, "+green@net1#1 net2#0"},
		{"with other parameters", "blue", `[{"name":"blue","mac":"02:00:00:00:00:01"}]`, []checkpoint.Record{one("blue", "net1", 0, claimed, removed)}, "+blue@net1#0"},

		{"claims by hand without an annotation stay", "", "green", byClaim, "+green@net3#2"},
		{"and when that is removed again", "", "", append(slices.Clone(byClaim), one("green", "net3", 2, live)), "-green@net3"},
		{"claims of other networks than the annotation's stay", "green", "green,white", byClaim, "+white@net3#2"},
		{"the annotation names a claim by hand, which keeps its place", "", "red", byClaim, ""},
		{"a claim by hand has more parameters", "blue", "blue,red", []checkpoint.Record{one(`[{"name":"blue","ips":["10.1.0.9/24"]}]`, "net1", 0, claimed)}, "+red@net2#1"},
		{"and is removed", "blue", "[]", []checkpoint.Record{one(`[{"name":"blue","ips":["10.1.0.9/24"]}]`, "net1", 0, claimed)}, "-blue@net1"},
		{"what nadra did not attach is left alone", "blue,white", "blue,white,red", blueRed[:1], "+red@net2#1"},

		{"a device of a pool stays", "blue", "[]", []checkpoint.Record{one("blue", "net1", 0, claimed, device)}, "refused blue@net1 removing true"},
		{"its interface is not free", "blue", "red@net1", []checkpoint.Record{one("blue", "net1", 0, claimed, device)}, "refused red@net1 removing false refused blue@net1 removing true"},
		{
			"whereabouts would free the address of the other", "blue,blue", "blue",
			[]checkpoint.Record{one("blue", "net1", 0, whereabouts("10.1.0.0/24")), one("blue", "net2", 1, whereabouts("10.1.0.0/24"))},
			"refused blue@net2 removing true",
		},
		{
			"whereabouts has another range for the other", "blue,red", "blue",
			[]checkpoint.Record{one("blue", "net1", 0, whereabouts("10.1.0.0/24")), one("red", "net2", 1, whereabouts("10.2.0.0/24"))},
			"-red@net2",
		},
		{
			"whereabouts frees both", "blue,blue", "",
			[]checkpoint.Record{one("blue", "net1", 0, whereabouts("10.1.0.0/24")), one("blue", "net2", 1, whereabouts("10.1.0.0/24"))},
			"-blue@net1 -blue@net2",
		},
		{"a pinned interface is not free", "", "red@net1", byClaim[:1], "refused red@net1 removing false"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			plan := Make(Pod{Namespace: "default", Baseline: tt.baseline, Annotation: tt.annotation, Records: tt.records})
			drivertest.Same(t, "plan", tt.want, plan.text())
			drivertest.Same(t, "empty", tt.want == "", plan.Empty())
		})
	}
}

// TestDescribed edits the annotation of pods for which the webhook has written it, from their claims by hand.
func TestDescribed(t *testing.T) {
	byClaim := []checkpoint.Record{record(t, "blue", "data0", 0, claimed), record(t, "red", "net2", 1, claimed)}
	green := record(t, "green", "net1", 2, live)
	for _, tt := range []struct {
		name, annotation string
		records          []checkpoint.Record
		want             string
	}{
		{"KubeVirt empties it", "", byClaim, ""},
		{"it names one of two", "red", byClaim, ""},
		{"it has another order", "red,blue@data0", byClaim, ""},
		{"it names another network, too", "green,blue@data0,red", byClaim, "+green@net1#2"},
		{"and not any more", "blue@data0,red", append(slices.Clone(byClaim), green), "-green@net1"},
		{"it names only another network", "green", byClaim, "+green@net1#2"},
		{"it renames a claim's network", "blue@wan,red", byClaim, "refused blue@wan removing false"},
		{"it gives a claim's network another parameter", `[{"name":"blue","interface":"data0","mac":"02:00:00:00:00:01"},{"name":"red"}]`, byClaim, "refused blue@data0 removing false"},
		{"it gives one without a name another parameter", `[{"name":"blue","interface":"data0"},{"name":"red","mac":"02:00:00:00:00:01"}]`, byClaim, "refused red@ removing false"},
		{"it names a claim's network once more", "blue@data0,red,blue@wan", byClaim, "+blue@wan#2"},
		{"it takes the interface of a claim's network", "green@data0", byClaim, "refused green@data0 removing false"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			plan := Make(Pod{Namespace: "default", Baseline: "blue@data0,red", Annotation: tt.annotation, Described: true, Records: tt.records})
			drivertest.Same(t, "plan", tt.want, plan.text())
		})
	}
}

// TestOrderSettles makes plans of one edit again and again, each with the records as the last one left them. Two networks are
// equal, so that an element without an interface may mean either.
func TestOrderSettles(t *testing.T) {
	for name, pod := range map[string]Pod{
		"a claim by hand":                 {Annotation: "green"},
		"a claim that has its annotation": {Baseline: "green,green", Annotation: "green", Described: true},
		"other order":                     {Baseline: "green,green", Annotation: "green@net2,green@net1"},
	} {
		t.Run(name, func(t *testing.T) {
			pod.Namespace = "default"
			pod.Records = []checkpoint.Record{record(t, "green", "net1", 0, claimed), record(t, "green", "net2", 1, claimed)}
			for range 3 {
				plan := Make(pod)
				if plan.Empty() {
					return
				}
				for i := range pod.Records {
					if at, moves := plan.Index[pod.Records[i].Key()]; moves {
						pod.Records[i].Index = at
					}
				}
				slices.SortFunc(pod.Records, func(a, b checkpoint.Record) int { return a.Index - b.Index })
			}
			t.Errorf("the third plan still changes something: %s", Make(pod).text())
		})
	}
}

// TestMakeRefuses checks which annotations change nothing at all, and why.
func TestMakeRefuses(t *testing.T) {
	blue := []checkpoint.Record{record(t, "blue", "net1", 0)}
	multus := []nadv1.NetworkStatus{{Name: "default/white", Interface: "net1"}}
	for _, tt := range []struct {
		name                 string
		baseline, annotation string
		records              []checkpoint.Record
		shown                []nadv1.NetworkStatus
		want                 reason.Code
	}{
		{"invalid JSON", "blue", `[{"name"`, blue, nil, reason.AnnotationInvalid},
		{"invalid JSON from the start", `[{"name"`, `[{"name"`, nil, nil, ""},
		{"an interface twice", "blue", "blue@x,red@x", blue, nil, reason.InterfaceConflict},
		{"an address twice", "blue", `[{"name":"blue","ips":["10.1.0.9/24"]},{"name":"red","ips":["10.1.0.9/24"]}]`, blue, nil, reason.AddressConflict},
		{"Multus has attached another", "white", "white,red", nil, multus, reason.EditRefused},
		{"Multus has attached the one that is removed", "white", "[]", nil, multus, reason.EditRefused},
		{"Multus has attached it, and nothing changes", "white", "white", nil, multus, ""},
		{"the status is nadra's", "blue", "blue", blue, []nadv1.NetworkStatus{{Name: "default/blue", Interface: "net1"}}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			plan := Make(Pod{Namespace: "default", Baseline: tt.baseline, Annotation: tt.annotation, Records: tt.records, Shown: tt.shown})
			refused := plan.Refused
			plan.Refused = nil
			switch {
			case tt.want == "" && len(refused) == 0:
			case len(refused) != 1 || tt.want == "" || reason.Of(refused[0].Err) != tt.want || !plan.Empty():
				t.Errorf("refused %v, plan %q, want %s", refused, plan.text(), tt.want)
			}
		})
	}
}

// TestOwnStatusIsNotForeign checks that an entry which nadra wrote, for a network that it has removed since,
// keeps no edit from being made: the driver was killed before it wrote network-status again.
func TestOwnStatusIsNotForeign(t *testing.T) {
	pod := Pod{
		Namespace: "default", Baseline: "blue", Annotation: "blue,green", Records: []checkpoint.Record{record(t, "blue", "net1", 0)},
		Shown: []nadv1.NetworkStatus{{Name: "default/blue", Interface: "net1"}, {Name: "default/red", Interface: "net2"}},
	}
	if plan := Make(pod); len(plan.Refused) != 1 {
		t.Errorf("the status of another program: plan %q", plan.text())
	}
	pod.OwnStatus = true
	if plan := Make(pod); plan.text() != "+green@net2#1" {
		t.Errorf("its own status: plan %q", plan.text())
	}
}

// TestMakeGrows checks that the work of comparing a pod's networks grows at most with the square of their number: its
// author is a tenant. An edit has removed half of the networks, and the next one names them with other parameters, some of
// the others, and not the rest.
func TestMakeGrows(t *testing.T) {
	work := func(networks int) float64 {
		pod := Pod{Namespace: drivertest.Web.Namespace}
		var baseline, wanted []string
		for i := range networks {
			element := fmt.Sprintf(`{"name":"blue","interface":"i%d"}`, i)
			change := []func(*checkpoint.Record){claimed, whereabouts(fmt.Sprintf("10.%d.0.0/24", i))}
			switch {
			case i < networks/2:
				change = append(change, removed)
				wanted = append(wanted, fmt.Sprintf(`{"name":"blue","interface":"i%d","mac":"02:00:00:00:00:%02x"}`, i, i))
			case i < networks*3/4:
				wanted = append(wanted, element)
			}
			baseline = append(baseline, element)
			pod.Records = append(pod.Records, record(t, "["+element+"]", fmt.Sprintf("i%d", i), i, change...))
		}
		pod.Baseline, pod.Annotation = "["+strings.Join(baseline, ",")+"]", "["+strings.Join(wanted, ",")+"]"
		if plan := Make(pod); len(plan.Remove) != networks/4 || len(plan.Add) != networks/2 {
			t.Fatalf("%d networks: %s", networks, plan.text())
		}
		return testing.AllocsPerRun(1, func() { Make(pod) })
	}
	if few, many := work(16), work(64); many > 16*few {
		t.Errorf("%.0f allocations for 16 networks, and %.0f for 64", few, many)
	}
}

// TestMostNetworks checks that those of claims, which the annotation does not name, count among a pod's networks.
func TestMostNetworks(t *testing.T) {
	pod := Pod{Namespace: "default", Annotation: "green,green,green"}
	for i := range v1alpha1.MaxNetworks - 2 {
		pod.Records = append(pod.Records, record(t, "blue", fmt.Sprintf("net%d", i+1), i, claimed))
	}
	refused := func(plan Plan) []reason.Code {
		var out []reason.Code
		for _, r := range plan.Refused {
			out = append(out, reason.Of(r.Err))
		}
		return out
	}
	plan := Make(pod)
	drivertest.Same(t, "added", 2, len(plan.Add))
	drivertest.Same(t, "refused", []reason.Code{reason.LimitExceeded}, refused(plan))

	pod.Annotation = "green,green,white"
	pod.Baseline = pod.Annotation
	pod.Records = append(pod.Records, record(t, "green", "a", 62, live), record(t, "green", "b", 63, live), record(t, "white", "c", 64, claimed, removed))
	plan = Make(pod)
	drivertest.Same(t, "brought back", 0, len(plan.Back))
	drivertest.Same(t, "refused", []reason.Code{reason.LimitExceeded}, refused(plan))
}
