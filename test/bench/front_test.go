package bench

import (
	"fmt"
	"math"
	"strings"
)

// front has the figures of docs/reference/performance.md: pods with three networks, under nadra, under thick Multus
// ("Thick"), and without networks ("Plain").
type front struct {
	// Crowd and Rebooted are the sizes of bursts, NADs the number of networks of a large cluster.
	Crowd, Rebooted, NADs int
	// Slower is the time by which the networks delay one pod, in milliseconds, SlowerBare that of a claim of the bare
	// driver, and Attach the time of the attach.
	Slower, SlowerThick, SlowerBare, Attach float64
	// Burst is the time in which Crowd pods are Ready, in seconds.
	Burst, BurstThick, BurstPlain float64
	// Traffic is that of the API server, as a multiple of that with Multus.
	Traffic float64
	// Lag is the time until network-status of one pod is stored, in milliseconds, LagCrowd that of a pod of a burst.
	Lag, LagThick, LagCrowd, LagCrowdThick float64
	// Back is the time in which Rebooted pods are Ready again, in seconds.
	Back, BackThick float64
	Beside          besideFigures
	// Driver is the state with attachments, Memory the states of the table.
	Driver memoryFigures
	Memory []memoryFigures
	// Met counts the goals that are met.
	Met int
}

// Front returns the figures of the short page.
func (r *report) Front() front {
	out := front{Crowd: crowd, Rebooted: rebooted, NADs: usualNADs}
	ready := r.medians()
	out.Slower, out.SlowerThick = ready["three"]-ready["plain"], ready["thickthree"]-ready["thickplain"]
	out.SlowerBare = ready["barethree"] - ready["bareplain"]
	for _, p := range r.Pods {
		if p.Kind == kindNamed("three").title {
			out.Attach = p.Hook.Median()
		}
	}
	seconds, kib, _ := r.bursts(crowd)
	out.Burst, out.BurstThick, out.BurstPlain = seconds["three"], seconds["thickthree"], seconds["plain"]
	out.Traffic = kib["three"] / kib["thickthree"]
	_, _, back := r.bursts(rebooted)
	out.Back, out.BackThick = back["three"], back["thickthree"]
	lag := func(name string, size int) float64 {
		if l := r.lagOf(name, size); l != nil {
			return l.Lag.Median()
		}
		return 0
	}
	out.Lag, out.LagThick = lag("nadra", 1), lag("thick", 1)
	out.LagCrowd, out.LagCrowdThick = lag("nadra", crowd), lag("thick", crowd)
	for _, f := range r.Beside {
		if f.Case == "macvlan-3" {
			out.Beside = f
		}
	}
	for _, m := range r.Memory {
		if m.Attachments > 0 && out.Driver.Attachments == 0 {
			out.Driver = m
		}
		if m.NADs == 0 || m == out.Driver || m.NADs == 10_000 {
			out.Memory = append(out.Memory, m)
		}
	}
	for _, g := range r.Goals() {
		if g.Met {
			out.Met++
		}
	}
	return out
}

// Short returns the name of a goal for the short page, where bursts are of pods with three networks.
func (*report) Short(goal string) string {
	if strings.HasPrefix(goal, "burst ") {
		return strings.Replace(goal, " pods with 3 networks", " pods", 1)
	}
	return goal
}

// medians returns the times to Ready of pods that start one at a time, in milliseconds, by kind.
func (r *report) medians() map[string]float64 {
	out := map[string]float64{}
	for _, k := range podKinds {
		out[k.name] = math.NaN()
		for _, p := range r.Pods {
			if p.Kind == k.title {
				out[k.name] = p.Ready.Median()
			}
		}
	}
	return out
}

// bursts returns the figures of bursts of a size, by kind: seconds until all pods are Ready, KiB of API traffic a
// pod, and seconds until they are Ready again.
func (r *report) bursts(size int) (seconds, kib, back map[string]float64) {
	seconds, kib, back = map[string]float64{}, map[string]float64{}, map[string]float64{}
	for _, k := range podKinds {
		if f := r.burst(k.name, size); f != nil {
			seconds[k.name], kib[k.name], back[k.name] = f.Seconds, f.KiB, f.Back
		}
	}
	return seconds, kib, back
}

// Usual returns the figures of nodes of one profile with the usual number of NADs, and Bare those of the bare driver.
func (f scaleFigures) Usual() *offerFigures { return f.shared(usualNADs) }
func (f scaleFigures) Bare() *offerFigures  { return f.bare() }

// shown lists the kinds of pods in the picture, with their labels and colours.
var shown = []struct{ kind, label, fill string }{
	{"plain", "no networks", "#9aa5b1"},
	{"barethree", "bare DRA driver", "#62a0d8"},
	{"thickthree", "thick Multus", "#d69e2e"},
	{"three", "nadra", "#2f9e68"},
}

// chart is a part of the picture: a title with a bar for each kind of pods.
type chart struct {
	Title string
	X, Y  int
	Bars  []bar
}

// bar is a bar with its texts. Coordinates are those of the picture.
type bar struct {
	Label, Value, Fill string
	LabelX, X, ValueX  int
	Y, TextY, Width    int
}

const (
	chartWidth, chartHeight = 370, 138
	labelWidth, barWidth    = 122, 180
	barStep                 = 22
)

// Charts returns the parts of the picture, two beside each other. The longest bar of each has the whole width.
func (r *report) Charts() []chart {
	seconds, kib, _ := r.bursts(crowd)
	requests := map[string]float64{}
	for _, s := range shown {
		if f := r.requestsOf(s.kind); f != nil {
			requests[s.kind] = f.All.Median()
		}
	}
	var out []chart
	for i, c := range []struct {
		title, unit string
		figures     map[string]float64
	}{
		{"One pod: Ready after", "ms", r.medians()},
		{fmt.Sprintf("%d pods on one node: Ready after", crowd), "s", seconds},
		{"API requests for a pod", "", requests},
		{fmt.Sprintf("API traffic a pod, of %d", crowd), "KiB", kib},
	} {
		out = append(out, newChart(c.title, c.unit, c.figures, 20+i%2*chartWidth, 30+i/2*chartHeight))
	}
	return out
}

func newChart(title, unit string, figures map[string]float64, x, y int) chart {
	out := chart{Title: title, X: x, Y: y}
	most := 0.0
	for _, s := range shown {
		most = max(most, figures[s.kind])
	}
	for i, s := range shown {
		b := bar{Label: s.label, Fill: s.fill, LabelX: x + labelWidth - 8, X: x + labelWidth, Y: y + 10 + i*barStep}
		b.Value = strings.TrimSpace(fmt.Sprintf("%.0f %s", figures[s.kind], unit))
		b.Width = int(math.Round(barWidth * figures[s.kind] / most))
		b.ValueX, b.TextY = b.X+b.Width+6, b.Y+13
		out.Bars = append(out.Bars, b)
	}
	return out
}

// Alt returns the picture in words.
func (r *report) Alt() string {
	var charts []string
	for _, c := range r.Charts() {
		var bars []string
		for _, b := range c.Bars {
			bars = append(bars, b.Label+" "+b.Value)
		}
		charts = append(charts, c.Title+": "+strings.Join(bars, ", "))
	}
	return strings.Join(charts, ". ")
}
