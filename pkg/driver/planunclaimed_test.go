package driver

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nadra-dev/nadra/internal/podnet"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/test/drivertest"
)

// TestPlanUnclaimedWithDevices checks which devices of device plugins the networks of a pod without a
// claim get, and when the kubelet is asked for them.
func TestPlanUnclaimedWithDevices(t *testing.T) {
	var devices []string
	var asked error
	d := newDriverWith(t, setup{env: func(e *environment) {
		e.pluginDevices = func(context.Context, attachment.PodRef) (map[string][]string, error) {
			return map[string][]string{"example.com/vf": devices}, asked
		}
	}}, drawing("example.com/vf", nad("vf", blueConf)), nad("blue", blueConf))
	broken := errors.New("no answer")
	for _, tt := range []struct {
		name, networks string
		devices        []string
		asked          error
		want           string // the device of each network
		code           reason.Code
		texts          []string
	}{
		{name: "no network draws from a pool", networks: "blue", asked: broken, want: "-"},
		{name: "one each", networks: "vf,blue,vf", devices: []string{"0000:3b:02.0", "0000:3b:02.1"}, want: "0000:3b:02.0 - 0000:3b:02.1"},
		{name: "more devices than networks", networks: "vf", devices: []string{"0000:3b:02.0", "0000:3b:02.1"}, want: "0000:3b:02.0"},
		{name: "none", networks: "vf", code: reason.NoClaim, texts: []string{"default/vf", "example.com/vf", "spec.nodeName", "limits"}},
		{name: "too few", networks: "vf,vf", devices: []string{"0000:3b:02.0"}, code: reason.NoClaim, texts: []string{"default/vf", "example.com/vf"}},
		{name: "the kubelet does not answer", networks: "vf", asked: broken, code: reason.PodNotRead, texts: []string{"no answer", "default/web"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			devices, asked = tt.devices, tt.asked
			networks, err := attachment.ParseSelections(tt.networks, "default")
			if err != nil {
				t.Fatal(err)
			}
			plan, err := d.planner.planUnclaimed(t.Context(), drivertest.Web, networks, false)
			if tt.code != "" {
				drivertest.WantReason(t, err, tt.code, tt.texts...)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, one := range plan {
				id := deviceOfPlan(one)
				if id != "" && !strings.Contains(string(one.Attachment.Conflist), `"deviceID":"`+id+`"`) {
					t.Errorf("the plugins do not get device %s: %s", id, one.Attachment.Conflist)
				}
				if id == "" {
					id = "-"
				}
				got = append(got, id)
			}
			drivertest.Same(t, "devices", tt.want, strings.Join(got, " "))
		})
	}
}

// TestDeviceHeld checks that a pod does not get a device that another pod on the node has, or has not
// given back yet.
func TestDeviceHeld(t *testing.T) {
	use := func(uid, pool, device string) attachment.Prepared {
		p := attachment.Prepared{Pod: attachment.PodRef{Namespace: "default", Name: "pod-" + uid, UID: uid}}
		p.Attachment.ResourceName = pool
		if device != "" {
			p.Attachment.CapabilityArgs = map[string]json.RawMessage{"deviceID": json.RawMessage(`"` + device + `"`)}
		}
		return p
	}
	byClaim := use("2", "example.com/vf", "")
	byClaim.Claim, byClaim.Hardware = attachment.ClaimRef{UID: "c"}, &attachment.Hardware{ID: "vf-1"}
	shared, ofOther := byClaim, byClaim
	shared.ShareID, ofOther.Pod.UID = "s", "3"
	named, onOther := use("2", "", "vf-1"), use("2", "", "vf-1")
	named.Claim, onOther.Claim = byClaim.Claim, byClaim.Claim
	onOther.Attachment.On = &attachment.OtherDriverDevice{Driver: "vf.example.com", ID: "vf-1"}
	for name, c := range map[string]struct {
		plan, there attachment.Prepared
		held        bool
	}{
		"by a claim":        {use("1", "example.com/vf", "vf-1"), byClaim, true},
		"without one":       {use("1", "example.com/vf", "vf-1"), use("2", "example.com/vf", "vf-1"), true},
		"another device":    {use("1", "example.com/vf", "vf-2"), byClaim, false},
		"the pod's own":     {use("2", "example.com/vf", "vf-1"), byClaim, false},
		"no device":         {use("1", "", ""), use("2", "", ""), false},
		"named by the user": {use("1", "", "vf-1"), byClaim, false},
		"a claim's":         {byClaim, use("1", "example.com/vf", "vf-1"), true},
		"a claim's, shared": {shared, use("1", "example.com/vf", "vf-1"), false},
		"both by claims":    {byClaim, ofOther, false},

		"the other pod's user names it":            {use("1", "example.com/vf", "vf-1"), use("2", "", "vf-1"), false},
		"the other pod's user names it in a claim": {use("1", "example.com/vf", "vf-1"), named, false},
		"the other pod's user names a claim's":     {byClaim, use("1", "", "vf-1"), false},
		"a device of another driver":               {use("1", "example.com/vf", "vf-1"), onOther, true},
		"named in a claim, of a device plugin":     {named, use("1", "example.com/vf", "vf-1"), true},
		"both named by users":                      {use("1", "", "vf-1"), use("2", "", "vf-1"), false},
	} {
		for of, err := range map[string]error{
			"record":      deviceHeld([]attachment.Prepared{c.plan}, holding([]checkpoint.Record{{Prepared: c.there}})),
			"pending DEL": deviceHeld([]attachment.Prepared{c.plan}, holding(nil, checkpoint.PendingDEL{Record: checkpoint.Record{Prepared: c.there}})),
		} {
			if (err != nil) != c.held || c.held && reason.Of(err) != reason.DeviceInUse {
				t.Errorf("%s, %s: got %v", name, of, err)
			}
		}
	}
}

// TestDeviceOfAnotherPod gives a pod without a claim, by a device plugin, the function that another pod still has by a
// claim of nadra's: it would take it out of the running pod.
func TestDeviceOfAnotherPod(t *testing.T) {
	const vf = "0000:3b:02.0"
	d := newDriverWith(t, setup{cfg: func(c *Config) { c.Ownership = Ownership{Unclaimed: AttachUnclaimed} }, env: func(e *environment) {
		e.pluginDevices = func(context.Context, attachment.PodRef) (map[string][]string, error) {
			return map[string][]string{"example.com/vf": {vf}}, nil
		}
	}}, drawing("example.com/vf", nad("vf", blueConf)))
	held := attachment.Prepared{
		Claim: attachment.ClaimRef{Namespace: "default", Name: "c", UID: "c-uid"}, Pod: drivertest.Web, Request: "vf", Pool: "p", Device: "d",
		Attachment: attachment.Attachment{Interface: "net1"}, Hardware: &attachment.Hardware{ID: vf},
	}
	if err := d.store.Put([]attachment.Prepared{held}); err != nil {
		t.Fatal(err)
	}
	err := newHooks(d, time.Minute).RunPodSandbox(t.Context(), asking("solo", "vf"))
	drivertest.WantReason(t, err, reason.DeviceInUse, vf, "pod default/solo", "pod default/web")
	drivertest.Same(t, "plugins", nil, kernelOf(d).Calls)
}

// TestDeviceIsTakenOnce gives a function to a pod with a claim and to one without at the same time: one of them gets it.
func TestDeviceIsTakenOnce(t *testing.T) {
	const vf = "0000:3b:02.0"
	d := newDriverWith(t, setup{cfg: func(c *Config) { c.Ownership = Ownership{Unclaimed: AttachUnclaimed} }, env: func(e *environment) {
		e.pluginDevices = func(context.Context, attachment.PodRef) (map[string][]string, error) {
			return map[string][]string{"example.com/vf": {vf}}, nil
		}
	}}, drawing("example.com/vf", nad("vf", blueConf)))
	claimed := attachment.Prepared{
		Claim: attachment.ClaimRef{Namespace: "default", Name: "c", UID: "c-uid"}, Pod: drivertest.Web, Request: "vf", Pool: "p", Device: "d",
		Attachment: attachment.Attachment{Interface: "net1"}, Hardware: &attachment.Hardware{ID: vf},
	}
	solo := sandboxOf(asking("solo", "vf"), nowhere)
	selected := []attachment.Selection{{Network: attachment.NetworkRef{Namespace: "default", Name: "vf"}}}
	for range 50 {
		planned, errs := make(chan struct{}), make(chan error)
		kernelOf(d).Namespace = func(string) (podnet.Namespace, error) { close(planned); return podnet.Namespace{Cookie: 1}, nil }
		go func() { errs <- d.unclaimed.record(t.Context(), solo, selected, false) }()
		<-planned
		err := errors.Join(d.preparer.take(nil, nil, [][]attachment.Prepared{{claimed}}), <-errs)
		drivertest.WantReason(t, err, reason.DeviceInUse, vf)
		drivertest.Same(t, "records", 1, len(d.store.All()))
		if err := errors.Join(d.store.DeleteClaim("c-uid", drivertest.Web.UID), d.store.DeleteClaim(solo.Pod.UID, solo.Pod.UID)); err != nil {
			t.Fatal(err)
		}
	}
}
