package operations

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/test/drivertest"
)

// TestLimits checks that a network has the time that its IPAM plugin takes by itself, and
// several such networks the time of all of them.
func TestLimits(t *testing.T) {
	flags := Limits{Add: 30 * time.Second, Del: 30 * time.Second}
	network := func(ipam string) checkpoint.Record {
		var r checkpoint.Record
		r.Attachment = attachment.Attachment{Conflist: json.RawMessage(fmt.Sprintf(`{"plugins":[{"type":"macvlan","ipam":{"type":%q}},{"type":"tuning"}]}`, ipam))}
		return r
	}
	usual, slow := network("host-local"), network("whereabouts")
	own := Limits{Add: 130 * time.Second, Del: 70 * time.Second}
	are := func(name string, want, got Limits) {
		if want != got {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	are("a usual network", flags, flags.of(usual.Attachment))
	are("whereabouts", own, flags.of(slow.Attachment))
	are("whereabouts, and the flags allow more", Limits{Add: time.Hour, Del: time.Hour}, Limits{Add: time.Hour, Del: time.Hour}.of(slow.Attachment))
	are("no configuration", flags, flags.of(attachment.Attachment{Conflist: json.RawMessage(`[`)}))
	for _, tt := range []struct {
		name           string
		records        []checkpoint.Record
		attach, detach time.Duration
	}{
		{"none", nil, AttachTime, DetachTime},
		{"usual networks", []checkpoint.Record{usual, usual}, AttachTime, DetachTime},
		{"one of whereabouts", []checkpoint.Record{usual, slow}, AttachTime + own.Add, DetachTime + own.Del},
		{"two of whereabouts", []checkpoint.Record{slow, slow}, AttachTime + 2*own.Add, DetachTime + 2*own.Del},
	} {
		drivertest.Same(t, tt.name+", attaching", tt.attach, flags.Attaching(tt.records))
		drivertest.Same(t, tt.name+", detaching", tt.detach, flags.Detaching(tt.records))
	}
	drivertest.Same(t, "usual networks are slow", false, flags.Slow([]checkpoint.Record{usual}))
	drivertest.Same(t, "whereabouts is slow", true, flags.Slow([]checkpoint.Record{usual, slow}))
	if own.Add <= 2*time.Minute || own.Del <= time.Minute {
		t.Errorf("whereabouts waits for 2 minutes and for 1 by itself, and is ended after %s and %s", own.Add, own.Del)
	}
}
