package driver

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nadra-dev/nadra/internal/metrics"
	"github.com/nadra-dev/nadra/pkg/driver/internal/background"
	"github.com/nadra-dev/nadra/pkg/driver/internal/slicewriter"
)

func TestReadiness(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	good := func() *readiness {
		r := &readiness{
			now: start.Add(time.Hour), started: start, nadsRead: true, owned: true, kubelet: &registration{at: start.Add(time.Second)},
			queues: map[string]metrics.Queue{queueAttach: {}, queueDetach: {}, queueClaimStatus: {Length: 9, Oldest: time.Hour}},
		}
		r.nri.up, r.nri.since = true, start.Add(2*time.Second)
		return r
	}
	for _, tt := range []struct {
		name   string
		change func(*readiness)
		says   []string // a line for each check that is of interest
	}{
		{name: "all well", change: func(*readiness) {}, says: []string{
			"+kubelet: registered since 2026-01-02T03:04:06Z", "+nri: connected and synchronised since 2026-01-02T03:04:07Z",
			"+slices: published", "+queue: 0 pods are being attached, 0 detached",
		}},
		{name: "a new driver", change: func(r *readiness) {
			r.kubelet, r.nri.up, r.nri.since, r.slices = nil, false, time.Time{}, slicewriter.Failure{Since: start, Err: slicewriter.ErrNotPublished}
		}, says: []string{
			"-kubelet: not registered since 2026-01-02T03:04:05Z: the kubelet has not answered", "-nri: not connected since 2026-01-02T03:04:05Z; is NRI enabled",
			"-slices: not published since 2026-01-02T03:04:05Z: nothing was published yet",
		}},
		{name: "an API server that is away", change: func(r *readiness) {
			r.nadsRead, r.kubelet, r.nri.up, r.nri.since, r.slices = false, nil, false, time.Time{}, slicewriter.Failure{Since: start, Err: slicewriter.ErrNotPublished}
		}, says: []string{
			"-kubelet: not yet: the NetworkAttachmentDefinitions are being read since 2026-01-02T03:04:05Z", "-nri: not yet: ", "-slices: not yet: ", "+queue: 0 pods",
		}},
		{name: "a kubelet that refuses", change: func(r *readiness) { r.kubelet.refused = "unknown version" }, says: []string{"-kubelet: refused by the kubelet at 2026-01-02T03:04:06Z: unknown version"}},
		{name: "the runtime went", change: func(r *readiness) { r.nri.up, r.nri.err = false, errors.New("connection refused") }, says: []string{
			"-nri: not connected since 2026-01-02T03:04:07Z: connection refused",
		}},
		{name: "NRI is off", change: func(r *readiness) {
			r.nri.up, r.nri.since, r.nri.err = false, time.Time{}, errors.New("no such file")
		}, says: []string{"-nri: not connected since 2026-01-02T03:04:05Z: no such file; is NRI enabled in the runtime's configuration?"}},
		{name: "slices that could not be written", change: func(r *readiness) { r.slices = slicewriter.Failure{Since: start, Err: errors.New("forbidden")} }, says: []string{
			"-slices: not published since 2026-01-02T03:04:05Z: forbidden",
		}},
		{name: "a node of another", change: func(r *readiness) {
			r.owned, r.slices = false, slicewriter.Failure{Since: start, Err: errors.New("forbidden")}
		}, says: []string{
			"+kubelet: registered", "+nri: connected", "+slices: nothing to publish: the node's networks are not nadra's", "+queue: ",
		}},
		{name: "a node of another, without its runtime", change: func(r *readiness) { r.owned, r.nri.up = false, false }, says: []string{"-nri: not connected", "+slices: "}},
		{name: "operations that run", change: func(r *readiness) {
			r.queues[queueAttach], r.queues[queueDetach] = metrics.Queue{Length: 2, Oldest: 3 * time.Second}, metrics.Queue{Length: 1, Oldest: 89 * time.Second}
		}, says: []string{"+queue: 2 pods are being attached, 1 detached, the oldest for 1m29s; 0 are stuck"}},
		{name: "a stuck detach", change: func(r *readiness) {
			r.queues[queueDetach] = metrics.Queue{Length: 1, Oldest: 2 * time.Minute, Stuck: 1}
		}, says: []string{
			"-queue: 0 pods are being attached, 1 detached, the oldest for 2m0s; 1 are stuck",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := good()
			tt.change(r)
			var lines []string
			for _, c := range r.checks() {
				sign := "-"
				if c.OK {
					sign = "+"
				}
				lines = append(lines, sign+c.Name+": "+c.Detail)
			}
			text := strings.Join(lines, "\n")
			for _, want := range tt.says {
				if !strings.Contains(text, want) {
					t.Errorf("lacks %q:\n%s", want, text)
				}
			}
			failing := 0
			for _, want := range tt.says {
				if want[0] == '-' {
					failing++
				}
			}
			if got := strings.Count("\n"+text, "\n-"); got != failing {
				t.Errorf("%d checks fail, want %d:\n%s", got, failing, text)
			}
		})
	}
}

// TestLoopsTurn checks that a loop which has not begun is not dead, and that a silent one
// is.
func TestLoopsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p background.Heartbeat
		if _, began := p.Silence(time.Now()); began {
			t.Error("it has begun")
		}
		p.Beat()
		time.Sleep(silentAfter - time.Second)
		silence, began := p.Silence(time.Now())
		if c := turns("sweep", silence); !began || !c.OK || c.Detail != "last turn 4m59s ago, at most 5m0s" {
			t.Errorf("%v, %+v", began, c)
		}
		time.Sleep(time.Second)
		silence, _ = p.Silence(time.Now())
		if turns("sweep", silence).OK {
			t.Errorf("alive after %s", silence)
		}
	})
}
