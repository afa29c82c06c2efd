package driver

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/dynamic-resource-allocation/kubeletplugin"

	"github.com/nadra-dev/nadra/internal/words"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/cniexec"
	"github.com/nadra-dev/nadra/pkg/driver/internal/hwdevices"
)

const (
	// healthEvery is the pause between two checks of the devices' health, which is in memory.
	// Most of it has no event that announces a change.
	healthEvery = 2 * time.Second
	// healthAgain is the pause after which an unchanged health is reported again: the kubelet
	// takes what is older than 30 s for unknown.
	healthAgain = 10 * time.Second
)

// watchHealth reports the health of the devices that claims have: at once, after every change, and again while nothing
// changes, until ctx ends.
func (p *plugin) watchHealth(ctx context.Context, reports chan<- kubeletplugin.DeviceHealthReport) error {
	tick := time.NewTicker(healthEvery)
	defer tick.Stop()
	var reported []kubeletplugin.DeviceHealth
	var last time.Time
	for {
		now := time.Now()
		if devices := healthOf(p.claimed(), p.facts(now)); now.Sub(last) >= healthAgain || !slices.Equal(devices, reported) {
			select {
			case reports <- kubeletplugin.DeviceHealthReport{Devices: dated(devices, now)}:
			case <-ctx.Done():
				return nil
			}
			reported, last = devices, now
		}
		select {
		case <-tick.C:
		case <-p.prepared.C():
		case <-ctx.Done():
			return nil
		}
	}
}

// claimed returns the records that decide the health of the devices that claims have: of a shared device, which the
// kubelet asks about once for all of its pods, one for each network.
func (p *plugin) claimed() (out []checkpoint.Record) {
	type shared struct {
		pool, device string
		network      attachment.NetworkRef
	}
	seen := map[shared]bool{}
	for r := range p.store.Each {
		s := shared{r.Pool, r.Device, r.Attachment.Network}
		if !r.Unclaimed() && (r.ShareID == "" || !seen[s]) {
			seen[s] = true
			out = append(out, *r)
		}
	}
	return out
}

// facts returns what decides the health now.
func (p *plugin) facts(now time.Time) healthFacts {
	return healthFacts{
		withheld: p.networks.View.Withheld, device: p.hardware.View.Lookup, check: p.checker.latest,
		runtimeLost: runtimeLost(p.runtime.state(), p.started, now),
	}
}

// dated returns the same devices with a time.
func dated(devices []kubeletplugin.DeviceHealth, at time.Time) []kubeletplugin.DeviceHealth {
	out := slices.Clone(devices)
	for i := range out {
		out[i].LastUpdated = at
	}
	return out
}

// runtimeLostAfter is how long the runtime may be disconnected before devices are unhealthy:
// it is restarted now and then, and every pod's status would be written twice.
const runtimeLostAfter = 30 * time.Second

// maxHealthMessage is the API's limit for a message, in bytes.
const maxHealthMessage = 1024

// healthFacts has what decides the health of devices (KEP-4680). The driver has all of it in
// memory.
type healthFacts struct {
	// withheld returns why a network is not published, and false if there is no such NAD.
	withheld func(attachment.NetworkRef) (why error, found bool)
	// device returns a hardware device, and false if it was never seen.
	device func(pool, device string) (hwdevices.Device, bool)
	// check returns the error of the latest CHECK of an attachment.
	check func(checkpoint.Record) error
	// runtimeLost is since when the runtime is disconnected, as text, or "".
	runtimeLost string
}

// healthOf returns the health of the devices of records, sorted, each device once.
func healthOf(records []checkpoint.Record, f healthFacts) []kubeletplugin.DeviceHealth {
	type key struct{ pool, device string }
	of := map[key][]finding{}
	for _, r := range records {
		k := key{r.Pool, r.Device}
		of[k] = append(of[k], f.of(r))
	}
	var out []kubeletplugin.DeviceHealth
	for k, findings := range of {
		one := ofDevice(findings)
		out = append(out, kubeletplugin.DeviceHealth{
			PoolName: k.pool, DeviceName: k.device, Health: one.health, Message: words.Short(one.message, maxHealthMessage),
		})
	}
	slices.SortFunc(out, func(a, b kubeletplugin.DeviceHealth) int {
		return cmp.Or(cmp.Compare(a.PoolName, b.PoolName), cmp.Compare(a.DeviceName, b.DeviceName))
	})
	return out
}

// finding is the health of a device as far as one of its networks goes.
type finding struct {
	health  kubeletplugin.HealthStatus
	message string
}

// ofDevice returns the health of a device with these findings about the networks that claims have with it.
// The kubelet knows a device only by its name, and writes its health into the status of all these pods. So
// if networks differ, the health is unknown, and the message names those that are not healthy.
func ofDevice(findings []finding) finding {
	var messages []string
	for _, f := range findings {
		if f.message != "" && !slices.Contains(messages, f.message) {
			messages = append(messages, f.message)
		}
	}
	slices.Sort(messages)
	out := finding{findings[0].health, strings.Join(messages, "; ")}
	for _, f := range findings {
		if f.health != out.health {
			out.health = kubeletplugin.HealthStatusUnknown
			out.message += "; the device has other networks, which are not concerned"
			break
		}
	}
	return out
}

// of returns the health by one record: unhealthy if any check finds so, and otherwise unknown
// if any check cannot tell.
func (f *healthFacts) of(r checkpoint.Record) finding {
	unknown := ""
	for _, check := range []func(checkpoint.Record) (unhealthy, unknown string){f.ofHardware, f.ofNetwork, f.ofAttachment} {
		unhealthy, not := check(r)
		if unhealthy != "" {
			return finding{kubeletplugin.HealthStatusUnhealthy, unhealthy}
		}
		unknown = cmp.Or(unknown, not)
	}
	switch {
	case f.runtimeLost != "":
		return finding{kubeletplugin.HealthStatusUnhealthy, f.runtimeLost}
	case unknown != "":
		return finding{kubeletplugin.HealthStatusUnknown, unknown}
	}
	return finding{health: kubeletplugin.HealthStatusHealthy}
}

// ofHardware checks the device's function. A shared device has several functions, and is
// healthy while it exists.
func (f *healthFacts) ofHardware(r checkpoint.Record) (unhealthy, unknown string) {
	if r.Hardware == nil {
		return "", ""
	}
	d, known := f.device(r.Pool, r.Device)
	switch {
	case !known:
		return "", "it was not seen since the driver was started"
	case d.Gone:
		return "its function is not on the node any more, or no resource pool has it", ""
	}
	if err := d.LinkDown(); err != nil {
		return err.Error(), ""
	}
	return "", ""
}

// ofNetwork checks whether the network could be attached now. For a deleted NAD that is
// unknown. It ignores reasons not to publish a network that do not concern pods which have it.
func (f *healthFacts) ofNetwork(r checkpoint.Record) (unhealthy, unknown string) {
	if r.DeviceOnly {
		return "", ""
	}
	ref := r.Attachment.Network
	withheld, found := f.withheld(ref)
	if !found {
		return "", fmt.Sprintf("NetworkAttachmentDefinition %s was deleted; the pod keeps the network", ref)
	}
	switch reason.Of(withheld) {
	case "", reason.PoolDevice, reason.NodeNotOwned, reason.StatusPending:
		return "", ""
	}
	return fmt.Sprintf("network %s cannot be attached on this node: %v", ref, withheld), ""
}

// ofAttachment checks the latest CHECK. The kubelet knows a device only by its name: the CHECK
// of one claim's attachment says nothing about a device that others share.
func (f *healthFacts) ofAttachment(r checkpoint.Record) (unhealthy, unknown string) {
	if r.DeviceOnly || r.ShareID != "" {
		return "", ""
	}
	if err := f.check(r); err != nil {
		return fmt.Sprintf("CHECK of network %s (%s) fails: %s", r.Attachment.Network, r.Attachment.Interface, cniexec.Message(err)), ""
	}
	return "", ""
}

// runtimeLost returns since when the runtime is disconnected, as text. It returns "" if the
// runtime is connected, or was lost only a moment ago.
func runtimeLost(link linkState, started, now time.Time) string {
	since := link.since
	if since.Before(started) {
		since = started
	}
	if link.up || now.Sub(since) < runtimeLostAfter {
		return ""
	}
	return "the container runtime's NRI is not connected since " + timestamp(since) + ": no container of the pod can be started until it is"
}
