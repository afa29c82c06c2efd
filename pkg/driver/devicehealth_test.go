package driver

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/dynamic-resource-allocation/kubeletplugin"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/hwdevices"
	"github.com/nadra-dev/nadra/pkg/inventory"
	"github.com/nadra-dev/nadra/pkg/pools"
	"github.com/nadra-dev/nadra/test/drivertest"
)

// healthRecord returns a record of network blue on device d.
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
	sick := func(text string) error {
		return reason.Errorf(reason.PluginUnhealthy, "a plugin answers STATUS with an error: %s", text)
	}
	function := func(link inventory.LinkState, change ...func(*hwdevices.Device)) *hwdevices.Device {
		pf := &inventory.PF{Name: "lan9", PCIAddress: "0000:01:00.0", Link: link}
		d := &hwdevices.Device{Functions: []inventory.Function{{PF: pf}}}
		for _, c := range change {
			c(d)
		}
		return d
	}
	const healthy, unhealthy, unknown = kubeletplugin.HealthStatusHealthy, kubeletplugin.HealthStatusUnhealthy, kubeletplugin.HealthStatusUnknown
	for name, tt := range map[string]struct {
		record   checkpoint.Record
		deleted  bool  // the NAD
		withheld error // the network
		device   *hwdevices.Device
		check    error
		runtime  string
		want     kubeletplugin.HealthStatus
		code     reason.Code
		says     []string
		saysNone string
	}{
		"all is well":             {record: healthRecord(), want: healthy},
		"not yet attached":        {record: healthRecord(func(r *checkpoint.Record) { r.Phase, r.Sandbox = checkpoint.Prepared, nil }), want: healthy},
		"the master is gone":      {record: healthRecord(), withheld: reason.Errorf(reason.MasterMissing, `interface "lan0" is not on the node`), want: unhealthy, code: reason.MasterMissing, says: []string{"network default/blue ", `"lan0"`}},
		"STATUS says no":          {record: healthRecord(), withheld: sick("the fabric manager is down"), want: unhealthy, code: reason.PluginUnhealthy, says: []string{"network default/blue ", "the fabric manager is down"}},
		"the NAD is gone":         {record: healthRecord(), deleted: true, want: unknown, says: []string{"NetworkAttachmentDefinition default/blue "}},
		"CHECK fails":             {record: healthRecord(exclusive), check: drivertest.Final("no address"), want: unhealthy, says: []string{"network default/blue (net1) ", "no address"}},
		"the node is not nadra's": {record: healthRecord(), withheld: reason.Errorf(reason.NodeNotOwned, "not nadra's"), want: healthy},
		"STATUS is not answered":  {record: healthRecord(), withheld: reason.Errorf(reason.StatusPending, "not yet"), want: healthy},
		"CHECK fails for one of those that share the device": {record: healthRecord(), check: drivertest.Final("no address"), want: healthy},

		"a function with a link":           {record: healthRecord(exclusive, hardware), device: function(inventory.LinkUp), want: healthy},
		"a function without":               {record: healthRecord(exclusive, hardware), device: function(inventory.LinkDown), want: unhealthy, code: reason.LinkDown, says: []string{"lan9 (0000:01:00.0)"}},
		"a function that is gone":          {record: healthRecord(exclusive, hardware), device: function(inventory.LinkUp, func(d *hwdevices.Device) { d.Gone = true }), want: unhealthy},
		"a function that was never seen":   {record: healthRecord(exclusive, hardware), want: unknown},
		"a function without its network":   {record: healthRecord(exclusive, hardware), deleted: true, device: function(inventory.LinkUp), want: unknown, says: []string{"NetworkAttachmentDefinition default/blue "}},
		"unhealthy before unknown":         {record: healthRecord(exclusive, hardware), deleted: true, device: function(inventory.LinkDown), want: unhealthy, code: reason.LinkDown, saysNone: "NetworkAttachmentDefinition"},
		"a device without a network":       {record: healthRecord(exclusive, hardware, deviceOnly), device: function(inventory.LinkUp), want: healthy},
		"a shared device, whatever a link": {record: healthRecord(hardware), device: function(inventory.LinkDown, func(d *hwdevices.Device) { d.Pool.DeviceType = pools.SharedRDMA }), want: healthy},

		"the runtime is away":             {record: healthRecord(), runtime: "NRI is not connected", want: unhealthy, says: []string{"NRI is not connected"}},
		"the runtime is away, and STATUS": {record: healthRecord(), runtime: "NRI is not connected", withheld: sick("down"), want: unhealthy, code: reason.PluginUnhealthy, saysNone: "NRI"},
		"more than a message may have":    {record: healthRecord(), withheld: sick(strings.Repeat("é", maxHealthMessage)), want: unhealthy, code: reason.PluginUnhealthy, says: []string{"…"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := healthFacts{runtimeLost: tt.runtime}
			f.withheld = func(attachment.NetworkRef) (error, bool) { return tt.withheld, !tt.deleted }
			f.check = func(checkpoint.Record) error { return tt.check }
			f.device = func(pool, device string) (hwdevices.Device, bool) {
				if tt.device == nil || pool != "p" || device != "d" {
					return hwdevices.Device{}, false
				}
				return *tt.device, true
			}
			got := healthOf([]checkpoint.Record{tt.record, tt.record}, f)
			if len(got) != 1 || got[0].PoolName != "p" || got[0].DeviceName != "d" {
				t.Fatalf("devices %+v", got)
			}
			g := got[0]
			if g.Health != tt.want || (g.Health == healthy) != (g.Message == "") || len(g.Message) > maxHealthMessage {
				t.Errorf("%s %q, want %s", g.Health, g.Message, tt.want)
			}
			drivertest.WantReasonIn(t, g.Message, tt.code, tt.says...)
			if tt.saysNone != "" && strings.Contains(g.Message, tt.saysNone) {
				t.Errorf("message %q", g.Message)
			}
		})
	}
}

// TestHealthOfANetworkAmongOthers checks what is reported of a device with several networks, each of which
// several claims have.
func TestHealthOfANetworkAmongOthers(t *testing.T) {
	const healthy, unhealthy, unknown = kubeletplugin.HealthStatusHealthy, kubeletplugin.HealthStatusUnhealthy, kubeletplugin.HealthStatusUnknown
	for name, tt := range map[string]struct {
		sick []string
		want kubeletplugin.HealthStatus
		says []string
	}{
		"none is unhealthy":                {nil, healthy, nil},
		"one is unhealthy":                 {[]string{"red"}, unknown, []string{"network default/red "}},
		"all are unhealthy":                {[]string{"red", "blue"}, unhealthy, []string{"network default/blue ", "network default/red "}},
		"another of the NADs is unhealthy": {[]string{"green"}, healthy, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var records []checkpoint.Record
			for _, network := range []string{"blue", "red", "blue", "red"} {
				records = append(records, healthRecord(func(r *checkpoint.Record) { r.Attachment.Network.Name = network }))
			}
			f := healthFacts{
				check: func(checkpoint.Record) error { return nil },
				withheld: func(ref attachment.NetworkRef) (error, bool) {
					if slices.Contains(tt.sick, ref.Name) {
						return reason.Errorf(reason.MasterMissing, "no master"), true
					}
					return nil, true
				},
			}
			got := healthOf(records, f)
			if len(got) != 1 || got[0].Health != tt.want || (len(tt.says) == 0) != (got[0].Message == "") {
				t.Fatalf("%+v, want %s", got, tt.want)
			}
			drivertest.Same(t, "reasons", len(tt.says), strings.Count(got[0].Message, reason.MasterMissing.Text("")))
			for _, text := range tt.says {
				if strings.Count(got[0].Message, text) != 1 {
					t.Errorf("message %q, want %q once", got[0].Message, text)
				}
			}
		})
	}
}

// TestRecordsOfDevices checks which records decide what is reported: one of each network of a shared device, all of other
// devices, and none without a claim.
func TestRecordsOfDevices(t *testing.T) {
	d := newDriver(t)
	put := func(uid, device, share, network string) {
		r := healthRecord(func(r *checkpoint.Record) {
			r.Claim.UID, r.Pod.UID, r.Device, r.ShareID, r.Attachment.Network.Name = uid, uid+"-pod", device, share, network
		})
		if err := d.store.Put([]attachment.Prepared{r.Prepared}); err != nil {
			t.Fatal(err)
		}
	}
	put("a", "shared", "1", "blue")
	put("b", "shared", "2", "blue")
	put("c", "shared", "3", "red")
	put("d", "own", "", "blue")
	put("e", "own", "", "blue")
	without := healthRecord(func(r *checkpoint.Record) { r.Claim, r.Pod.UID = attachment.ClaimRef{}, "f" })
	if err := d.store.PutUnclaimed([]attachment.Prepared{without.Prepared}, attachment.Sandbox{ID: "sandbox-1"}); err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, r := range d.plugin.claimed() {
		got[r.Device+" "+r.Attachment.Network.Name]++
	}
	drivertest.Same(t, "records", map[string]int{"shared blue": 1, "shared red": 1, "own blue": 2}, got)
}

// TestRuntimeLost checks that a restart of the runtime does not change the pods' status.
func TestRuntimeLost(t *testing.T) {
	begun := time.Unix(1000, 0)
	for name, tt := range map[string]struct {
		up         bool
		since, now time.Time
		want       bool
	}{
		"up":                             {true, begun.Add(time.Hour), begun.Add(2 * time.Hour), false},
		"never yet, the driver is young": {false, time.Time{}, begun.Add(runtimeLostAfter - 1), false},
		"never yet":                      {false, time.Time{}, begun.Add(runtimeLostAfter), true},
		"just lost":                      {false, begun.Add(time.Hour), begun.Add(time.Hour + runtimeLostAfter - 1), false},
		"lost":                           {false, begun.Add(time.Hour), begun.Add(time.Hour + runtimeLostAfter), true},
	} {
		if got := runtimeLost(linkState{up: tt.up, since: tt.since}, begun, tt.now); (got != "") != tt.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestLatestCheck checks that the result of a CHECK holds for the sandbox that was checked, and
// as long as the record exists.
func TestLatestCheck(t *testing.T) {
	d, _ := attachedDriver(t)
	c, one := d.checker, d.store.All()[0]
	other := healthRecord(func(r *checkpoint.Record) { r.Device = "e" })
	c.record([]checkpoint.Record{one, other}, map[checkpoint.Key]checkResult{one.Key(): {err: drivertest.Final("no address")}, other.Key(): {err: drivertest.Final("no link")}})
	drivertest.WantError(t, c.latest(one), "no address")
	next := one
	next.Sandbox = &attachment.Sandbox{ID: "sandbox-2"}
	if err := c.latest(next); err != nil {
		t.Errorf("in the next sandbox: %v", err)
	}
	c.record([]checkpoint.Record{one}, nil)
	if err := c.latest(one); err != nil {
		t.Errorf("after it was repaired: %v", err)
	}
	if len(c.failed) > 0 {
		t.Errorf("of a record that is gone: %v", c.failed)
	}
}

// TestHealthIsReported checks that health is reported at once, after every change, and in between
// often enough to stay valid.
func TestHealthIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver(t, nad("blue", blueConf))
		ctx, cancel := context.WithCancel(t.Context())
		reports := make(chan kubeletplugin.DeviceHealthReport)
		ended := make(chan error, 1)
		go func() { ended <- d.plugin.WatchHealthStatus(ctx, reports) }()
		next := func() (devices []kubeletplugin.DeviceHealth, after time.Duration) {
			began := time.Now()
			r := <-reports
			for _, one := range r.Devices {
				if !one.LastUpdated.Equal(time.Now()) {
					t.Errorf("dated %s, reported at %s", one.LastUpdated, time.Now())
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
		nads := d.nads.(nadCache)
		_ = nads.Delete(nad("blue", ""))
		refresh(t, d)
		changes(kubeletplugin.HealthStatusUnknown, healthEvery)
		_ = nads.Add(nad("blue", blueConf))
		refresh(t, d)
		changes(kubeletplugin.HealthStatusHealthy, healthEvery)
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("at the end: %v", err)
		}
	})
}
