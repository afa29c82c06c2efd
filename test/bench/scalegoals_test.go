package bench

import (
	"fmt"
	"math"
	"slices"
)

const (
	// shareGoal is the least rate of pods with networks, as a share of that of pods of the
	// bare driver.
	shareGoal = 0.95
	// flatGoal is the most by which the rate may differ from one number of NADs to another.
	flatGoal = 0.05
	// memoryGoal is the most memory as a multiple of that without slices.
	memoryGoal = 1.1
)

// own returns the figures of nodes with slices of their own, and shared those of nodes of one profile with a number of NADs.
func (f scaleFigures) own() *offerFigures { return f.titled(nadraOffer(usualNADs, nil).title) }

func (f scaleFigures) shared(nads int) *offerFigures {
	return f.titled(nadraOffer(nads, nil, profile{}).title)
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
	return f.shared(usualNADs).Rate(networks) / f.bare().Rate(networks)
}

// Difference returns by which share of the highest rate the lowest differs, over the numbers of NADs.
func (f scaleFigures) Difference() float64 {
	var rates []float64
	for _, nads := range sharedNADs {
		rates = append(rates, f.shared(nads).Rate(1))
	}
	return 1 - slices.Min(rates)/slices.Max(rates)
}

// Times returns the memory of both components with the slices of a profile as multiples of that without
// slices, or NaN.
func (f scaleFigures) Times() (apiServer, scheduler float64) {
	none, usual := f.none().Memory, f.shared(usualNADs).Memory
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
		out[fmt.Sprintf("%d nodes, pods with 1 network bound a second, difference between %d and %d NADs",
			f.Nodes, sharedNADs[0], sharedNADs[len(sharedNADs)-1])] = atMost(f.Difference(), flatGoal, "")
		apiServer, scheduler := f.Times()
		out[in+"memory of the API server, times that without slices"] = atMost(apiServer, memoryGoal, "")
		out[in+"memory of the scheduler, times that without slices"] = atMost(scheduler, memoryGoal, "")
		out[in+"one NAD is deleted, slice writes in all"] = atMost(float64(f.SharedChange.Writes), 1, "")
		out[in+"one NAD is deleted, sent to all watches, times that of slices of each node"] = atMost(f.SharedChange.WatchedPerNode()/f.Change.WatchedPerNode(), 1, "")
		in = fmt.Sprintf("%d nodes with slices of their own, %d NADs, ", f.Nodes, usualNADs)
		out[in+"one NAD is deleted, slice writes"] = atMost(f.Change.PerNode(), 1, " a driver")
		out[in+"one NAD is deleted, size of what a driver writes, as JSON"] = atMost(f.Change.JSON, changeKiB, " KiB")
		out[in+"one NAD is deleted, time in which it is written"] = atMost(f.Change.Sent, changeSeconds, " s")
	}
	if r.RealWrites != nil {
		out["one NAD is deleted and created again, slice writes of a real driver and controller"] = atMost(float64(r.RealWrites.Recreated), 2, "")
		out["one NAD changes in a way that devices do not show, slice writes"] = atMost(float64(r.RealWrites.Unseen), 0, "")
	}
}
