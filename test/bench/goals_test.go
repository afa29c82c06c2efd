package bench

import (
	"fmt"
	"math"

	"github.com/nadra-dev/nadra/test/bench/stats"
)

// goal is a goal with the figure that was measured.
type goal struct {
	Goal string `json:"goal"`
	// Measured is in the goal's unit; nil if it was not measured.
	Measured *float64 `json:"measured"`
	Met      bool     `json:"met"`
	// Floor is what a bare driver that runs the plugins has reached, in the same unit; nil if it was not measured.
	Floor    *float64 `json:"floor,omitempty"`
	FloorMet bool     `json:"floorMet,omitempty"`
}

// Figure returns the measured value as text.
func (g goal) Figure() string {
	if g.Measured == nil {
		return "–"
	}
	return fmt.Sprintf("%.4g", *g.Measured)
}

// OfFloor returns whether the floor meets the goal, as text, or nothing if it was not measured.
func (g goal) OfFloor() string {
	switch {
	case g.Floor == nil:
		return ""
	case g.FloorMet:
		return fmt.Sprintf("floor %.4g, met", *g.Floor)
	}
	return fmt.Sprintf("floor %.4g, missed", *g.Floor)
}

// overFloor returns the goal that limited makes of a figure, and whether the floor meets it; floor is NaN if it was not
// measured.
func overFloor(limited func(measured, limit float64, unit string) goal, measured, floor, limit float64, unit string) goal {
	g, f := limited(measured, limit, unit), limited(floor, limit, unit)
	g.Floor, g.FloorMet = f.Measured, f.Met
	return g
}

// atMost returns the goal that a figure does not exceed a limit. It is not met if nothing
// was measured.
func atMost(measured, limit float64, unit string) goal {
	g := goal{Goal: fmt.Sprintf("at most %.4g%s", limit, unit)}
	if !math.IsNaN(measured) {
		g.Measured, g.Met = &measured, measured <= limit
	}
	return g
}

// atLeast returns the goal that a figure reaches a limit. It is not met if nothing was measured.
func atLeast(measured, limit float64, unit string) goal {
	g := atMost(measured, limit, unit)
	g.Goal = fmt.Sprintf("at least %.4g%s", limit, unit)
	g.Met = g.Measured != nil && measured >= limit
	return g
}

// exactly returns the goal that all figures equal one value.
func exactly(measured stats.Sample, wanted float64) goal {
	worst := wanted
	for _, m := range measured {
		if m != wanted {
			worst = m
		}
	}
	return goal{Goal: fmt.Sprintf("exactly %.4g", wanted), Measured: &worst, Met: worst == wanted && len(measured) > 0}
}

// less returns the goal that a figure is below a limit.
func less(measured, limit float64, unit string) goal {
	g := atMost(measured, limit, unit)
	g.Goal = fmt.Sprintf("less than %.4g%s", limit, unit)
	g.Met = g.Met && measured < limit
	return g
}

// Goals returns all goals for which this run has figures, by name.
func (r *report) Goals() map[string]goal {
	out := map[string]goal{}
	for _, f := range r.Beside {
		out["overhead over bare libcni, "+f.Case] = atMost(f.At("added-ms-nadra"), f.Allowed(), " ms a pod")
		out["share of thick Multus' overhead, "+f.Case] = atMost(f.Ratio(), ratioGoal, "")
	}
	for _, h := range r.Hook {
		if g := h.Goal(); g != "–" {
			out["hook over libcni, "+h.Case] = less(max(h.Outside(), h.Overhead()), hookGoal, " ms an attachment")
		}
	}
	for _, f := range r.Requests {
		if len(f.Path) > 0 {
			out["API requests in the hook, "+f.Kind] = atMost(f.Path.Percentile(100), 0, "")
			out["API requests between Prepare and first container, "+f.Kind] = exactly(f.Beside, 1)
		}
	}
	if len(r.Delay) > 0 {
		out["delay of another pod's sandbox by a plugin that takes "+slowPlugin+", median"] = less(r.Delay[0].Delay.Median(), 5, " ms")
	}
	r.lagGoals(out)
	r.trafficGoals(out)
	if g, ok := r.burstGoal(); ok {
		out[fmt.Sprintf("burst of %d pods with 3 networks", crowd)] = g
	}
	for _, m := range r.Memory {
		if limit := m.Goal(); limit > 0 {
			out["memory of the driver, "+m.State] = atMost(m.RSS, limit, " MiB")
		}
	}
	if r.Gate != nil {
		out["start of a container through the gate, median"] = less(r.Gate.Gate.Median(), gateGoal, " ms")
	}
	if r.Webhook != nil {
		out["webhook, 99th percentile"] = atMost(r.Webhook.Within, webhookGoal, " ms")
	}
	r.scaleGoals(out)
	for _, c := range r.Commands {
		if c.Goal() != "–" {
			out["kubectl nadra "+c.Command+", time"] = less(c.Seconds.Median(), commandSeconds, " s")
			out["kubectl nadra "+c.Command+", memory"] = less(c.MiB.Median(), commandMiB, " MiB")
		}
	}
	return out
}

// burstGoal compares a burst with one of pods without networks, plus the time that the
// plugins alone take for all pods on this machine's cores.
func (r *report) burstGoal() (goal, bool) {
	const networks = 3
	plain, ours := r.burst("plain", crowd), r.burst("three", crowd)
	for _, f := range r.Beside {
		if f.Case == fmt.Sprintf("macvlan-%d", networks) && plain != nil && ours != nil {
			plugins := crowd * f.At("networks-ms-libcni") / 1000 / float64(r.Machine.CPUs)
			return overFloor(atMost, ours.Seconds, r.floor(crowd).Floor, plain.Seconds+plugins, " s"), true
		}
	}
	return goal{}, false
}

// burst returns the burst of a kind and size, or nil.
func (r *report) burst(kind string, size int) *burstFigures {
	for i, f := range r.Bursts {
		if f.Kind == kindNamed(kind).title && f.Pods == size {
			return &r.Bursts[i]
		}
	}
	return nil
}
