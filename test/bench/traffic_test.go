package bench

import "fmt"

// trafficGoal is the most that a pod with networks may cost the API server, as a multiple of
// what a pod with the same claims of a bare DRA driver costs.
const trafficGoal = 1.5

// trafficGoals adds the goals for bursts beside thick Multus, and for traffic and requests beside
// a bare DRA driver.
func (r *report) trafficGoals(out map[string]goal) {
	for _, size := range []int{rebooted, crowd} {
		ours, bare, multus := r.burst("three", size), r.burst("barethree", size), r.burst("thickthree", size)
		if ours == nil || bare == nil || multus == nil {
			continue
		}
		burst := fmt.Sprintf("burst of %d pods with 3 networks", size)
		out[burst+", KiB of API traffic over a bare DRA driver's"] = atMost(ours.KiB/bare.KiB, trafficGoal, "")
		out[burst+", beside thick Multus"] = atMost(ours.Seconds, multus.Seconds, " s")
		if size == rebooted {
			out[burst+", back after a reboot, beside thick Multus"] = atMost(ours.Back, multus.Back, " s")
		}
	}
	if ours, bare := r.requestsOf("three"), r.requestsOf("barethree"); ours != nil && bare != nil {
		out["API requests for a pod with 3 networks, over a bare DRA driver's"] = atMost(ours.All.Median()/bare.All.Median(), trafficGoal, "")
	}
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
