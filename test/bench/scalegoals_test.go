//go:build e2e

package bench

import (
	"fmt"
	"math"
)

const (
	// shareGoal is the least rate of pods with networks, as a share of that of pods of the
	// bare driver.
	shareGoal = 0.8
	// flatGoal is the most by which the rate may differ with another number of NADs.
	flatGoal = 0.1
	// memoryGoal is the most memory as a multiple of that without slices.
	memoryGoal = 1.3
)

// with returns the figures of the offer of a driver for a number of NADs.
func (f scaleFigures) with(nads int) *offerFigures {
	return f.titled(nadraOffer(nads, nil).title)
}

// bare returns the figures of the bare driver, and none those of a cluster without slices.
func (f scaleFigures) bare() *offerFigures { return f.titled(bareOffer().title) }
func (f scaleFigures) none() *offerFigures { return f.titled(noOffer().title) }

func (f scaleFigures) titled(title string) *offerFigures {
	for i, o := range f.Offers {
		if o.Title == title {
			return &f.Offers[i]
		}
	}
	return &offerFigures{Title: title}
}

// Rate returns the rate of pods with that many networks, or NaN.
func (f *offerFigures) Rate(networks int) float64 {
	for _, p := range f.Pods {
		if p.Networks == networks {
			return p.Rate()
		}
	}
	return math.NaN()
}

// Share returns the rate of pods with networks divided by that of pods of the bare driver with
// as many devices.
func (f scaleFigures) Share(networks int) float64 {
	return f.with(usualNADs).Rate(networks) / f.bare().Rate(networks)
}

// Difference returns by which share the rate with another number of NADs differs.
func (f scaleFigures) Difference(nads int) float64 {
	return math.Abs(f.with(nads).Rate(1)/f.with(usualNADs).Rate(1) - 1)
}

// Times returns the memory of both components with nadra's slices as multiples of that without
// slices, or NaN.
func (f scaleFigures) Times() (apiServer, scheduler float64) {
	none, usual := f.none().Memory, f.with(usualNADs).Memory
	if none == nil || usual == nil {
		return math.NaN(), math.NaN()
	}
	return usual.APIServer.RSS / none.APIServer.RSS, usual.Scheduler.RSS / none.Scheduler.RSS
}

// scaleGoals adds the goals for large clusters.
func (r *report) scaleGoals(out map[string]goal) {
	for _, f := range r.Scale {
		in := fmt.Sprintf("%d nodes, %d NADs, ", f.Nodes, usualNADs)
		out[in+"pods with 1 network bound a second, share of a bare driver's"] = atLeast(f.Share(1), shareGoal, "")
		out[in+"pods with 3 networks bound a second, share of a bare driver's"] = atLeast(f.Share(3), shareGoal, "")
		for _, nads := range otherNADs {
			out[fmt.Sprintf("%spods with 1 network bound a second, difference to %s", in, countNADs(nads))] = atMost(f.Difference(nads), flatGoal, "")
		}
		apiServer, scheduler := f.Times()
		out[in+"memory of the API server, times that without slices"] = atMost(apiServer, memoryGoal, "")
		out[in+"memory of the scheduler, times that without slices"] = atMost(scheduler, memoryGoal, "")
		out[in+"one NAD is deleted, slice writes"] = atMost(f.Change.PerNode(), 1, " a driver")
		out[in+"one NAD is deleted, size of what a driver writes, as JSON"] = atMost(f.Change.JSON, changeKiB, " KiB")
		out[in+"one NAD is deleted, time in which it is written"] = atMost(f.Change.Sent, changeSeconds, " s")
	}
	if r.Unseen != nil {
		out["one NAD changes in a way that devices do not show, slice writes"] = atMost(float64(*r.Unseen), 0, "")
	}
}
