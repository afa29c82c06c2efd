package driver

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
)

// A network has the time that its IPAM plugin takes by itself; what waits for
// several such networks has the time of all of them.
func TestLimits(t *testing.T) {
	flags := limits{add: 30 * time.Second, del: 10 * time.Second}
	network := func(ipam string) checkpoint.Record {
		var r checkpoint.Record
		r.Attachment = attachment.Attachment{Conflist: json.RawMessage(fmt.Sprintf(`{"plugins":[{"type":"macvlan","ipam":{"type":%q}},{"type":"tuning"}]}`, ipam))}
		return r
	}
	usual, slow := network("host-local"), network("whereabouts")
	own := ownLimits["whereabouts"]
	are := func(name string, want, got limits) {
		if want != got {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	are("a usual network", flags, flags.of(usual.Attachment))
	are("whereabouts", own, flags.of(slow.Attachment))
	are("whereabouts, and the flags allow more", limits{add: time.Hour, del: time.Hour}, limits{add: time.Hour, del: time.Hour}.of(slow.Attachment))
	are("no configuration", flags, flags.of(attachment.Attachment{Conflist: json.RawMessage(`[`)}))
	for _, tt := range []struct {
		name                     string
		records                  []checkpoint.Record
		attach, detach, rollback time.Duration
	}{
		{"none", nil, attachTime, detachTime, rollbackTime},
		{"usual networks", []checkpoint.Record{usual, usual}, attachTime, detachTime, rollbackTime},
		{"one of whereabouts", []checkpoint.Record{usual, slow}, attachTime + own.add, detachTime + own.del, rollbackTime + own.del},
		{"two of whereabouts", []checkpoint.Record{slow, slow}, attachTime + 2*own.add, detachTime + 2*own.del, rollbackTime + 2*own.del},
	} {
		same(t, tt.name+", attaching", tt.attach, flags.attaching(tt.records))
		same(t, tt.name+", detaching", tt.detach, flags.detaching(tt.records))
		same(t, tt.name+", rolling back", tt.rollback, flags.rollback(tt.records))
	}
	gate := &gateHook{limits: flags}
	same(t, "the gate's wait for usual networks", gateWait, gate.wait([]checkpoint.Record{usual}))
	same(t, "the gate's wait with whereabouts", slowGateWait, gate.wait([]checkpoint.Record{usual, slow}))
	if slowGateWait+gateMargin >= 2*time.Minute {
		t.Errorf("the kubelet gives up starting a container after 2 minutes, the gate after %s", slowGateWait+gateMargin)
	}
	if own.add <= 2*time.Minute || own.del <= time.Minute {
		t.Errorf("whereabouts waits for 2 minutes and for 1 by itself, and is ended after %s and %s", own.add, own.del)
	}
}
