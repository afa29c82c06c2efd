package upgrade

import (
	"fmt"
	"time"

	"github.com/nadra-dev/nadra/internal/words"
)

// Adopted are the pods on nadra's nodes whose networks Multus attached. They have no claims
// until they are recreated.
type Adopted struct {
	Pods      int `json:"pods"`
	Workloads int `json:"workloads"`
	// Oldest is the time at which the oldest pod was created.
	Oldest time.Time `json:"oldest,omitzero"`
}

// Adopted counts the adopted pods.
func (f *Facts) Adopted() Adopted {
	var pods []Pod
	var out Adopted
	for _, p := range f.Pods {
		if p.Nadra || p.Unclaimed || !f.isNadra(p.Node) {
			continue
		}
		pods = append(pods, p)
		if out.Oldest.IsZero() || p.Started.Before(out.Oldest) {
			out.Oldest = p.Started
		}
	}
	out.Pods, out.Workloads = len(pods), len(countBy(pods))
	return out
}

// isNadra reports whether nadra serves a node.
func (f *Facts) isNadra(node string) bool {
	for _, n := range f.Nodes {
		if n.Name == node {
			return n.Nadra
		}
	}
	return false
}

// Text describes the adopted pods at a time.
func (a Adopted) Text(now time.Time) string {
	if a.Pods == 0 {
		return "No pod on nadra's nodes has networks that Multus attached."
	}
	verb := "have"
	if a.Pods == 1 {
		verb = "has"
	}
	return fmt.Sprintf("%s still %s networks that Multus attached, of %s; the oldest is %s old. nadra detaches them when the pods end.",
		words.Count(a.Pods, "pod"), verb, words.Count(a.Workloads, "workload"), age(now.Sub(a.Oldest)))
}

// age returns a duration in its largest unit.
func age(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return words.Count(int(d/(24*time.Hour)), "day")
	case d >= 2*time.Hour:
		return words.Count(int(d/time.Hour), "hour")
	}
	return words.Count(int(d/time.Minute), "minute")
}
