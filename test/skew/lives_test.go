//go:build e2e

package skew

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nadra-dev/nadra/test/lab"
)

// life is how one pod has fared.
type life struct {
	name string
	// began is when the pod was created, and waited how long it took until it was Ready.
	began  time.Time
	waited time.Duration
	// steps are the conditions of the pod with the time after which each was seen first.
	steps []string
	// refused has the kubelet's events of what failed on the way, after which it tries again later.
	refused []string
	// wrong is what is wrong with the pod.
	wrong []string
}

// see notes which conditions of a pod are new, and reports whether it is Ready.
func (l *life) see(pod *corev1.Pod) bool {
	if pod == nil {
		return false
	}
	for _, condition := range pod.Status.Conditions {
		seen := slices.ContainsFunc(l.steps, func(s string) bool { return strings.HasPrefix(s, string(condition.Type)+" ") })
		if condition.Status == corev1.ConditionTrue && !seen {
			l.steps = append(l.steps, fmt.Sprintf("%s %s", condition.Type, time.Since(l.began).Round(time.Millisecond)))
		}
	}
	return lab.IsReady(pod)
}

// median returns the median of the pods' waits.
func median(all []life) time.Duration {
	waits := waitsOf(all)
	if len(waits) == 0 {
		return 0
	}
	return waits[len(waits)/2]
}

// slowest returns the longest wait, and the pod's name.
func slowest(all []life) (longest life) {
	for _, l := range all {
		if l.waited > longest.waited {
			longest = l
		}
	}
	return longest
}

// waitsOf returns the waits of all pods that became Ready, in order.
func waitsOf(all []life) (out []time.Duration) {
	for _, l := range all {
		if l.waited > 0 {
			out = append(out, l.waited)
		}
	}
	slices.Sort(out)
	return out
}

// failures describes the pods with which something is wrong.
func failures(all []life) (out []string) {
	for _, l := range all {
		if len(l.wrong) > 0 {
			out = append(out, fmt.Sprintf("pod %s, created at %s: %s", l.name, l.began.Format(time.TimeOnly), strings.Join(l.wrong, "; ")))
		}
	}
	return out
}
