package bench

import (
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/test/bench/stats"
	"github.com/nadra-dev/nadra/test/lab"
)

// schedulingTime limits the wait for pods to be bound: the rate of a slower scheduler is
// known by then.
const schedulingTime = time.Minute

// settlingTime limits the wait for the first pod, which does not count. After a restart of the API server the claim
// controller may see nothing for a minute: it watches again after 30 s and up to twice that (client-go's reflector).
const settlingTime = 3 * time.Minute

// SchedulingTime returns the limit of scheduling, for the document.
func (r *report) SchedulingTime() string { return schedulingTime.String() }

// podRates has the figures of pods with a number of networks, or devices of the bare driver, in
// all rounds.
type podRates struct {
	Networks, Pods int
	Rounds         []bound
}

// bound has the figures of pods that are created at once and bound to nodes.
type bound struct {
	// Bound pods were bound within schedulingTime.
	Bound int
	// Seconds is the time from the first create to the last binding.
	Seconds float64
}

// Rate returns the number of pods that are bound per second.
func (f bound) Rate() float64 { return float64(f.Bound) / f.Seconds }

// rates returns the rates of all rounds.
func (f podRates) rates() stats.Sample {
	var out stats.Sample
	for _, r := range f.Rounds {
		out = append(out, r.Rate())
	}
	return out
}

// Rate returns the number of pods that are bound per second, the median of the rounds, and
// Slowest and Fastest those of the extreme rounds.
func (f podRates) Rate() float64    { return f.rates().Median() }
func (f podRates) Slowest() float64 { return f.rates().Percentile(0) }
func (f podRates) Fastest() float64 { return f.rates().Percentile(100) }

// String returns the rate, with those of the extreme rounds.
func (f podRates) String() string {
	return fmt.Sprintf("%.1f (%.1f–%.1f)", f.Rate(), f.Slowest(), f.Fastest())
}

// schedule creates pods, waits until they are bound, and deletes them. A first pod, which does
// not count, must run on the node that has published last: it is bound when the scheduler knows
// all slices. The profile of the scheduler has the name that is given, if any.
func (s *scale) schedule(b *testing.B, r request, profile string) (f bound) {
	w := watchPods(b, s.fleet.kube, scaleNamespace)
	defer w.Stop()
	events := buffered(w.ResultChan())
	first := r.pod("first")
	first.Spec.NodeSelector = map[string]string{corev1.LabelHostname: s.fleet.lastNode()}
	if f := s.bind(b, events, settlingTime, first); f.Bound == 0 {
		b.Fatalf("the first pod was not bound in %s: %q", settlingTime, s.Events(b.Context(), scaleNamespace, first.Name))
	}
	var pods []*corev1.Pod
	for i := range scalePods {
		pods = append(pods, r.pod(fmt.Sprintf("pod-%04d", i)))
	}
	s.profiled(b, profile, func() { f = s.bind(b, events, schedulingTime, pods...) })
	s.clear(b)
	return f
}

// bind creates pods and waits until all are bound, or the time limit has passed.
func (s *scale) bind(b *testing.B, events <-chan watch.Event, limit time.Duration, pods ...*corev1.Pod) (f bound) {
	start := time.Now()
	over := time.After(limit)
	waiting := map[string]bool{}
	var creating errgroup.Group
	creating.SetLimit(20)
	for _, p := range pods {
		waiting[p.Name] = true
		creating.Go(func() error {
			_, err := s.fleet.kube.CoreV1().Pods(scaleNamespace).Create(b.Context(), p, metav1.CreateOptions{})
			return err
		})
	}
	defer func() { must(b, creating.Wait()) }()
	for len(waiting) > 0 {
		select {
		case e, open := <-events:
			p, isPod := e.Object.(*corev1.Pod)
			if !open || !isPod {
				b.Fatal("watching pods: the server ended the watch")
			}
			if waiting[p.Name] && p.Spec.NodeName != "" {
				delete(waiting, p.Name)
				f.Bound++
				f.Seconds = time.Since(start).Seconds()
			}
		case <-over:
			return f
		}
	}
	return f
}

// clear deletes all pods, which no kubelet does, and returns when their claims
// are gone too.
func (s *scale) clear(b *testing.B) {
	must(b, s.fleet.kube.CoreV1().Pods(scaleNamespace).DeleteCollection(b.Context(),
		metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}, metav1.ListOptions{}))
	must(b, lab.Eventually(b.Context(), writingTime, func(ctx context.Context) error {
		pods, err := s.fleet.kube.CoreV1().Pods(scaleNamespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		claims, err := s.fleet.kube.ResourceV1().ResourceClaims(scaleNamespace).List(ctx, metav1.ListOptions{})
		if err == nil && len(pods.Items)+len(claims.Items) > 0 {
			err = fmt.Errorf("%d pods and %d claims are left", len(pods.Items), len(claims.Items))
		}
		return err
	}))
}
