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
	// idle describes the time that the kubelet let pass after a failure, if it is as long as its back-off.
	idle string
	// wrong is what is wrong with the pod.
	wrong []string
}

// How long the kubelet lets pass, at least, before it tries again: 10 s after a container and 60 s after anything else,
// less what the whole seconds of events hide.
const (
	containerFailed  = "Failed"
	containerBackOff = 9 * time.Second
	podBackOff       = 45 * time.Second
)

// idle describes the first failure in a pod's events after which none came for the kubelet's back-off; empty if there is
// none. It compares the kubelet's own times, because a busy machine makes a pod slow, too, which is no fault here.
func idle(events []corev1.Event) string {
	for _, failure := range events {
		if !strings.HasPrefix(failure.Reason, "Failed") || failure.Reason == "FailedScheduling" {
			continue
		}
		limit := podBackOff
		if failure.Reason == containerFailed {
			limit = containerBackOff
		}
		var next time.Time
		for _, e := range events {
			if at := e.LastTimestamp.Time; at.After(failure.LastTimestamp.Time) && (next.IsZero() || at.Before(next)) {
				next = at
			}
		}
		if waited := next.Sub(failure.LastTimestamp.Time); !next.IsZero() && waited >= limit {
			return fmt.Sprintf("the kubelet did nothing for %s after %s: %s", waited, failure.Reason, failure.Message)
		}
	}
	return ""
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
