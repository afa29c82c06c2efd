package operations

import (
	"time"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
)

const (
	// AttachTime limits the attaching of one sandbox with usual networks. It must be
	// shorter than the gate's wait, so that containers learn why they are refused.
	AttachTime = 55 * time.Second
	// DetachTime is the time in which the DELs of a sandbox, or of a claim, with usual
	// networks begin.
	DetachTime = 35 * time.Second
)

// Limits are the times after which one ADD and one DEL are ended.
type Limits struct{ Add, Del time.Duration }

// of returns the limits of one network: at least those of its IPAM plugins.
func (l Limits) of(a attachment.Attachment) Limits {
	for _, p := range attachment.PluginsOf(a.Conflist) {
		own := p.IPAM.Plugin()
		l.Add, l.Del = max(l.Add, own.AddTime), max(l.Del, own.DelTime)
	}
	return l
}

// Attaching returns the limit for attaching a sandbox with these records.
func (l Limits) Attaching(records []checkpoint.Record) time.Duration {
	return l.total(records, AttachTime, func(one Limits) time.Duration { return one.Add })
}

// Slow reports whether attaching a sandbox with these records may take longer than
// usual.
func (l Limits) Slow(records []checkpoint.Record) bool { return l.Attaching(records) > AttachTime }

// Detaching returns the time in which the DELs of these records begin.
func (l Limits) Detaching(records []checkpoint.Record) time.Duration {
	return l.total(records, DetachTime, func(one Limits) time.Duration { return one.Del })
}

// total adds to the usual time the limit of each network that exceeds it.
func (l Limits) total(records []checkpoint.Record, usual time.Duration, limit func(Limits) time.Duration) time.Duration {
	out := usual
	for _, r := range records {
		if own := limit(l.of(r.Attachment)); own > usual {
			out += own
		}
	}
	return out
}
