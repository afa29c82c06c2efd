package driver

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/dynamic-resource-allocation/kubeletplugin"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/drivertest"
	"github.com/nadra-dev/nadra/pkg/inventory"
	"github.com/nadra-dev/nadra/pkg/pools"
)

// healthRecord is one of network blue on device d.
func healthRecord(change ...func(*checkpoint.Record)) checkpoint.Record {
	r := checkpoint.Record{Prepared: attachment.Prepared{
		Claim: attachment.ClaimRef{Namespace: "default", Name: "a", UID: "a-uid"}, Pod: drivertest.Web, Request: "req0", Pool: "p", Device: "d", ShareID: "s",
		Attachment: attachment.Attachment{Network: attachment.NetworkRef{Namespace: "default", Name: "blue"}, Interface: "net1"},
	}, Phase: checkpoint.Attached, Sandbox: &attachment.Sandbox{ID: "sandbox-1"}}
	for _, c := range change {
		c(&r)
	}
	return r
}

func TestHealthOfADevice(t *testing.T) {
	hardware := func(r *checkpoint.Record) { r.Hardware = &attachment.Hardware{} }
	deviceOnly := func(r *checkpoint.Record) { r.DeviceOnly = true }
	exclusive := func(r *checkpoint.Record) { r.ShareID = "" }
	blue := candidate{definition: &definition{}}
	function := func(link inventory.LinkState, change ...func(*hardwareDevice)) *hardwareDevice {
		pf := &inventory.PF{Name: "lan9", PCIAddress: "0000:01:00.0", Link: link}
		d := &hardwareDevice{Functions: []inventory.Function{{PF: pf}}}
		for _, c := range change {
			c(d)
		}
		return d
	}
	const healthy, unhealthy, unknown = kubeletplugin.HealthStatusHealthy, kubeletplugin.HealthStatusUnhealthy, kubeletplugin.HealthStatusUnknown
	for name, tt := range map[string]struct {
		record         checkpoint.Record
		network        *candidate
		device         *hardwareDevice
		status, check  error
		runtime        string
		want           kubeletplugin.HealthStatus
		says, saysNone string
	}{
		"all is well":        {record: healthRecord(), network: &blue, want: healthy},
		"not yet attached":   {record: healthRecord(func(r *checkpoint.Record) { r.Phase, r.Sandbox = checkpoint.Prepared, nil }), network: &blue, want: healthy},
		"the master is gone": {record: healthRecord(), network: &candidate{blue.definition, errors.New(`interface "lan0" is not on the node`)}, want: unhealthy, says: `network default/blue cannot be attached on this node: interface "lan0"`},
		"STATUS says no":     {record: healthRecord(), network: &blue, status: drivertest.Final("the fabric manager is down"), want: unhealthy, says: "STATUS: the fabric manager is down (CNI code 999)"},
		"the NAD is gone":    {record: healthRecord(), want: unknown, says: "NetworkAttachmentDefinition default/blue was deleted"},
		"CHECK fails":        {record: healthRecord(exclusive), network: &blue, check: drivertest.Final("no address"), want: unhealthy, says: "CHECK of network default/blue (net1) fails: no address"},
		"CHECK fails for one of those that share the device": {record: healthRecord(), network: &blue, check: drivertest.Final("no address"), want: healthy},

		"a function with a link":           {record: healthRecord(exclusive, hardware), network: &blue, device: function(inventory.LinkUp), want: healthy},
		"a function without":               {record: healthRecord(exclusive, hardware), network: &blue, device: function(inventory.LinkDown), want: unhealthy, says: "the link of its PF lan9 (0000:01:00.0) is down"},
		"a function that is gone":          {record: healthRecord(exclusive, hardware), network: &blue, device: function(inventory.LinkUp, func(d *hardwareDevice) { d.Gone = true }), want: unhealthy, says: "not on the node any more"},
		"a function that was never seen":   {record: healthRecord(exclusive, hardware), network: &blue, want: unknown, says: "not seen since"},
		"a function without its network":   {record: healthRecord(exclusive, hardware), device: function(inventory.LinkUp), want: unknown, says: "was deleted"},
		"ill before unknown":               {record: healthRecord(exclusive, hardware), device: function(inventory.LinkDown), want: unhealthy, says: "link", saysNone: "deleted"},
		"a device without a network":       {record: healthRecord(exclusive, hardware, deviceOnly), device: function(inventory.LinkUp), want: healthy},
		"a shared device, whatever a link": {record: healthRecord(hardware), network: &blue, device: function(inventory.LinkDown, func(d *hardwareDevice) { d.Pool.DeviceType = pools.SharedRDMA }), want: healthy},

		"the runtime is away":             {record: healthRecord(), network: &blue, runtime: "NRI is not connected", want: unhealthy, says: "NRI"},
		"the runtime is away, and STATUS": {record: healthRecord(), network: &blue, runtime: "NRI is not connected", status: drivertest.Final("down"), want: unhealthy, says: "STATUS", saysNone: "NRI"},
		"more than a message may have":    {record: healthRecord(), network: &blue, status: drivertest.Final(strings.Repeat("é", maxHealthMessage)), want: unhealthy, says: "…"},
	} {
		t.Run(name, func(t *testing.T) {
			f := healthFacts{runtime: tt.runtime}
			f.network = func(attachment.NetworkRef) (candidate, bool) {
				if tt.network == nil {
					return candidate{}, false
				}
				return *tt.network, true
			}
			f.status = func(json.RawMessage) error { return tt.status }
			f.check = func(checkpoint.Record) error { return tt.check }
			f.hardware = func(pool, device string) (hardwareDevice, bool) {
				if tt.device == nil || pool != "p" || device != "d" {
					return hardwareDevice{}, false
				}
				return *tt.device, true
			}
			got := healthOf([]checkpoint.Record{tt.record, tt.record}, f)
			if len(got) != 1 || got[0].PoolName != "p" || got[0].DeviceName != "d" {
				t.Fatalf("devices %+v", got)
			}
			g := got[0]
			if g.Health != tt.want || !strings.Contains(g.Message, tt.says) || (tt.says == "") != (g.Message == "") || len(g.Message) > maxHealthMessage {
				t.Errorf("%s %q, want %s %q", g.Health, g.Message, tt.want, tt.says)
			}
			if tt.saysNone != "" && strings.Contains(g.Message, tt.saysNone) {
				t.Errorf("message %q", g.Message)
			}
		})
	}
}

// A runtime that is restarted is no matter for pods' status.
func TestRuntimeAway(t *testing.T) {
	begun := time.Unix(1000, 0)
	for name, tt := range map[string]struct {
		up         bool
		since, now time.Time
		want       bool
	}{
		"up":                             {true, begun.Add(time.Hour), begun.Add(2 * time.Hour), false},
		"never yet, the driver is young": {false, time.Time{}, begun.Add(runtimePatience - 1), false},
		"never yet":                      {false, time.Time{}, begun.Add(runtimePatience), true},
		"just lost":                      {false, begun.Add(time.Hour), begun.Add(time.Hour + runtimePatience - 1), false},
		"lost":                           {false, begun.Add(time.Hour), begun.Add(time.Hour + runtimePatience), true},
	} {
		if got := runtimeAway(tt.up, tt.since, begun, tt.now); (got != "") != tt.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// What CHECK has found holds for the sandbox that it was found in, and as long
// as there is a record of it.
func TestFoundByCheck(t *testing.T) {
	c := newChecker()
	one, other := healthRecord(), healthRecord(func(r *checkpoint.Record) { r.Device = "e" })
	both := []checkpoint.Record{one, other}
	c.note(both, map[checkpoint.Key]checkResult{one.Key(): {err: drivertest.Final("no address")}, other.Key(): {err: drivertest.Final("no link")}}, both)
	drivertest.WantError(t, c.found(one), "no address")
	if err := c.found(healthRecord(func(r *checkpoint.Record) { r.Sandbox.ID = "sandbox-2" })); err != nil {
		t.Errorf("in the next sandbox: %v", err)
	}
	c.note([]checkpoint.Record{one}, nil, []checkpoint.Record{one})
	if err := c.found(one); err != nil {
		t.Errorf("after it was mended: %v", err)
	}
	if len(c.failed) > 0 {
		t.Errorf("of a record that is gone: %v", c.failed)
	}
}

// The kubelet is told at once, of every change, and in between often enough for
// it not to take what it knows for old.
func TestHealthIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver(t, nad("blue", blueConf))
		d.publisher = &publisher{health: newHealth(&d.quiet, nil)}
		d.begun, d.prepared = time.Now(), make(chan struct{}, 1)
		ctx, cancel := context.WithCancel(t.Context())
		reports := make(chan kubeletplugin.DeviceHealthReport)
		ended := make(chan error, 1)
		go func() { ended <- plugin{d}.WatchHealthStatus(ctx, reports) }()
		next := func() (devices []kubeletplugin.DeviceHealth, after time.Duration) {
			began := time.Now()
			r := <-reports
			for _, one := range r.Devices {
				if !one.LastUpdated.Equal(time.Now()) {
					t.Errorf("dated %s, told at %s", one.LastUpdated, time.Now())
				}
			}
			return r.Devices, time.Since(began)
		}
		if devices, after := next(); len(devices) != 0 || after != 0 {
			t.Errorf("at first %+v after %s", devices, after)
		}
		prepare(t, d, claim("a", "blue"))
		changes := func(want kubeletplugin.HealthStatus, within time.Duration) {
			t.Helper()
			devices, after := next()
			if len(devices) != 1 || devices[0].Health != want || after > within {
				t.Errorf("%+v after %s, want %s", devices, after, want)
			}
		}
		changes(kubeletplugin.HealthStatusHealthy, 0)
		for range 3 {
			if devices, after := next(); len(devices) != 1 || after != healthAgain {
				t.Errorf("while nothing changes: %+v after %s", devices, after)
			}
		}
		was := d.networks.byRef
		d.networks.set(nil)
		changes(kubeletplugin.HealthStatusUnknown, healthEvery)
		d.networks.set(was)
		changes(kubeletplugin.HealthStatusHealthy, healthEvery)
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("at the end: %v", err)
		}
	})
}
