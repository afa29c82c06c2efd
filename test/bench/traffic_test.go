package bench

import (
	"fmt"
	"math"
)

// trafficGoal and requestGoal are the most that a pod with networks may cost the API server, as multiples of
// what a pod with the same claims of a bare DRA driver costs.
const (
	trafficGoal = 1.3
	requestGoal = 1.15
)

// trafficGoals adds the goals for bursts beside thick Multus, and for traffic and requests beside
// a bare DRA driver.
func (r *report) trafficGoals(out map[string]goal) {
	for _, size := range burstSizes {
		ours, bare, multus := r.burst("three", size), r.burst("barethree", size), r.burst("thickthree", size)
		if ours == nil || bare == nil || multus == nil {
			continue
		}
		burst, least := fmt.Sprintf("burst of %d pods with 3 networks", size), r.floor(size)
		out[burst+", API traffic over a bare driver's"] = overFloor(atMost, ours.KiB/bare.KiB, least.FloorTraffic, trafficGoal, "")
		out[burst+", beside thick Multus"] = overFloor(atMost, ours.Seconds, least.Floor, multus.Seconds, " s")
		if size == rebooted {
			out[burst+", back after a reboot, beside thick Multus"] = overFloor(atMost, ours.Back, least.Back, multus.Back, " s")
		}
	}
	if times := r.medians(); times["three"] > 0 && times["thickthree"] > 0 {
		out["pod with 3 networks, beside thick Multus, median"] = overFloor(atMost, times["three"], times[floor], times["thickthree"], " ms")
	}
	if ours, bare := r.requestsOf("three"), r.requestsOf("barethree"); ours != nil && bare != nil {
		out["API requests for a pod with 3 networks, over a bare DRA driver's"] = atMost(ours.All.Median()/bare.All.Median(), requestGoal, "")
	}
}

// TrafficGoal and RequestGoal return the goals, for the document.
func (r *report) TrafficGoal() float64 { return trafficGoal }
func (r *report) RequestGoal() float64 { return requestGoal }

// floorFigures compares bursts of one size with what claims and plugins take at least.
type floorFigures struct {
	Pods                int
	Ours, Multus, Floor float64 // seconds
	// Traffic is that of the API server over that of a bare driver. FloorTraffic is the same if a bare driver's pods
	// caused what Multus' pods cause beyond pods without networks.
	Traffic, FloorTraffic float64
	// Back is the floor's time in which all pods are Ready again after a reboot; NaN if it was not measured.
	Back float64
}

// floor returns the figures of a size, all of them NaN if its floor was not measured.
func (r *report) floor(size int) floorFigures {
	none := math.NaN()
	for _, f := range r.Floors() {
		if f.Pods == size {
			return f
		}
	}
	return floorFigures{Floor: none, FloorTraffic: none, Back: none}
}

// Floors returns the sizes whose floor was measured.
func (r *report) Floors() []floorFigures {
	var out []floorFigures
	for _, size := range burstSizes {
		if at := r.burst(floor, size); at != nil {
			seconds, kib, _ := r.bursts(size)
			back := math.NaN()
			if at.Back > 0 {
				back = at.Back
			}
			out = append(out, floorFigures{
				Back: back,
				Pods: size, Ours: seconds["three"], Multus: seconds["thickthree"], Floor: at.Seconds,
				Traffic: kib["three"] / kib["barethree"], FloorTraffic: (kib["barethree"] + kib["thickthree"] - kib["plain"]) / kib["barethree"],
			})
		}
	}
	return out
}

// requestsOf returns the requests for pods of a kind, or nil.
func (r *report) requestsOf(kind string) *requestFigures {
	for i, f := range r.Requests {
		if f.Kind == kindNamed(kind).title {
			return &r.Requests[i]
		}
	}
	return nil
}

// Traffic returns the largest bursts, whose traffic the document shows by client.
func (r *report) Traffic() []burstFigures {
	var out []burstFigures
	for _, f := range r.Bursts {
		if f.Pods == crowd && len(f.Clients) > 0 {
			out = append(out, f)
		}
	}
	return out
}

// Costly returns the clients that cost something.
func (f burstFigures) Costly() []clientFigures {
	var out []clientFigures
	for _, c := range f.Clients {
		if c.Sent+c.Received >= 1 {
			out = append(out, c)
		}
	}
	return out
}
