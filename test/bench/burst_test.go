package bench

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nadra-dev/nadra/test/bench/stats"
	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

const (
	// burstTime limits a burst, including the kubelet's retries.
	burstTime = 8 * time.Minute
	// lateAfter is the delay from which a pod counts as late: only waiting for a retry
	// takes that long.
	lateAfter = 30 * time.Second
	// lateBursts of latePods look for late pods, besides the bursts that are compared.
	lateBursts = 3
	latePods   = 30
	// rebooted is the size of the bursts whose node is rebooted afterwards, and crowd the
	// size of the larger ones, for which a node just has room.
	rebooted = 50
	crowd    = 100
	// burstRounds is how often each burst is repeated.
	burstRounds = 3
)

var burstSizes = []int{20, rebooted, crowd}

// burstFigures has the figures of pods that are created at once.
type burstFigures struct {
	Kind string
	Pods int
	// Rounds is the number of bursts of which this is the median one.
	Rounds int
	// Seconds pass from the first create to the last Ready; Ready is that of
	// each, in milliseconds.
	Seconds float64
	Ready   stats.Sample
	// Refused counts pods whose Prepare failed, Late those of them that became Ready only
	// lateAfter after that. Messages are the kubelet's.
	Refused, Late int
	Messages      []string
	// KiB passed through the API server for each pod until all were Ready: the
	// bodies of requests and responses, and the events of watches.
	KiB float64
	// Passed describes the largest parts of KiB.
	Passed string
	// Clients has the same traffic by client, and the clients' requests.
	Clients []clientFigures
	// Back is the time in seconds from a reboot of the node until all pods were Ready
	// again, and BackReady the part of it after the node was Ready; zero without a reboot.
	Back, BackReady float64
	// BackRefused counts pods whose Prepare failed after the reboot, and BackMessages are
	// the kubelet's messages.
	BackRefused  int
	BackMessages []string
}

// Seconds50 returns the median time until a pod is Ready, in seconds, and Seconds99 the
// 99th percentile.
func (f burstFigures) Seconds50() float64 { return f.Ready.Median() / 1000 }
func (f burstFigures) Seconds99() float64 { return f.Ready.Percentile(99) / 1000 }

// Longer returns the time of a burst divided by that of a burst of the same size without
// networks.
func (r *report) Longer(f burstFigures) float64 { return f.Seconds / r.burst("plain", f.Pods).Seconds }

// RefusalTexts returns all of the kubelet's messages about a failed Prepare.
func (r *report) RefusalTexts() []string {
	all := map[string]bool{}
	for _, f := range slices.Concat(r.Bursts, r.LatePods) {
		for _, text := range f.Messages {
			all[text] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// BenchmarkBurst creates many pods at once, and deletes them all before the next burst.
func BenchmarkBurst(b *testing.B) {
	figures.begin(b, "burst")
	s := newStarter(b, threeNodes(b), "burst")
	kinds := []podKind{kindNamed("plain"), kindNamed("three"), kindNamed("thickthree"), kindNamed("barethree"), kindNamed(floor)}
	for _, size := range burstSizes {
		rounds := map[string][]burstFigures{}
		for range burstRounds {
			for _, kind := range kinds {
				f := s.burst(b, kind, size)
				if size == rebooted && kind.node != bareNode {
					s.reboot(b, kind.node, &f)
				}
				s.clear(b, size)
				must(b, freeAddresses(b.Context(), s.Cluster.Node(kind.node)))
				rounds[kind.name] = append(rounds[kind.name], f)
				b.Logf("%d pods, %s: %.1f s, %.0f KiB each (%s), Prepare failed for %d, %d late; back %.1f s after a reboot, Prepare failed for %d: %q",
					size, f.Kind, f.Seconds, f.KiB, f.Passed, f.Refused, f.Late, f.Back, f.BackRefused, f.BackMessages)
			}
		}
		for _, kind := range kinds {
			f := medianBurst(rounds[kind.name])
			figures.Bursts = append(figures.Bursts, f)
			b.ReportMetric(f.Seconds, fmt.Sprintf("s-%d-%s", size, kind.name))
		}
	}
	b.ReportMetric(0, "ns/op")
}

// freeAddresses removes host-local's reservations on a node whose pods are gone. Multus (4.3.0) leaves those of pods that ran
// when the node lost its power. It also leaves all of the cluster's own network, whose configuration it has reduced before
// its DEL ("no IP ranges specified"): after three rounds its node would have no address for a pod.
func freeAddresses(ctx context.Context, node *cluster.Node) error {
	_, err := node.Exec(ctx, "sh", "-ec", "rm -f /var/lib/cni/networks/*/[0-9]*; if test -e /etc/cni/net.d/00-multus.conf; then rm -f /run/cni-addresses/*/[0-9]*; fi")
	return err
}

// reserved returns host-local's reservations on a node, one file for each address.
func reserved(node *cluster.Node) ([]string, error) {
	networks, err := node.HostPath("/var/lib/cni/networks")
	if err != nil {
		return nil, err
	}
	return filepath.Glob(filepath.Join(networks, "*", "[0-9]*"))
}

// awaitAttached waits until the pods of the floor have their addresses: their containers start earlier.
func (s *starter) awaitAttached(ctx context.Context, kind podKind, size int) error {
	return lab.Eventually(ctx, podTime, func(context.Context) error {
		files, err := reserved(s.Cluster.Node(kind.node))
		if err == nil && len(files) < size*kind.networks {
			err = fmt.Errorf("%d pods have %d addresses, want %d for each", size, len(files), kind.networks)
		}
		return err
	})
}

// medianBurst returns the round with the median time, with the way back of the round in which that has the median time.
func medianBurst(rounds []burstFigures) burstFigures {
	middle := func(seconds func(burstFigures) float64) burstFigures {
		return slices.SortedFunc(slices.Values(rounds), func(a, b burstFigures) int { return cmp.Compare(seconds(a), seconds(b)) })[len(rounds)/2]
	}
	f, back := middle(func(f burstFigures) float64 { return f.Seconds }), middle(func(f burstFigures) float64 { return f.Back })
	f.Back, f.BackReady, f.BackRefused, f.BackMessages = back.Back, back.BackReady, back.BackRefused, back.BackMessages
	f.Rounds = len(rounds)
	return f
}

// Rebooted returns the size of the bursts whose node is rebooted, for the document.
func (r *report) Rebooted() int { return rebooted }

// BenchmarkSecondTries counts the pods that wait for a retry of the kubelet.
func BenchmarkSecondTries(b *testing.B) {
	figures.begin(b, "late pods")
	s := newStarter(b, threeNodes(b), "late")
	refused, late := 0, 0
	for range lateBursts {
		f := s.burst(b, kindNamed("one"), latePods)
		s.clear(b, latePods)
		figures.LatePods = append(figures.LatePods, f)
		refused, late = refused+f.Refused, late+f.Late
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(refused), "refused")
	b.ReportMetric(float64(late), "late")
}

func kindNamed(name string) podKind {
	return podKinds[slices.IndexFunc(podKinds, func(k podKind) bool { return k.name == name })]
}

// burst creates pods and returns when all are Ready.
func (s *starter) burst(b *testing.B, kind podKind, size int) burstFigures {
	f := burstFigures{Kind: kind.title, Pods: size}
	bytes, wire := s.apiBytes(b), s.connections(b)
	started := time.Now()
	created := make([]time.Time, size)
	var creating errgroup.Group
	creating.SetLimit(20)
	for i := range size {
		creating.Go(func() error {
			created[i] = time.Now()
			_, err := s.CreatePod(b.Context(), s.pod(kind, burstPod(kind, i)))
			return err
		})
	}
	must(b, creating.Wait())
	ready := s.awaitAll(b, size, func(e watch.Event) bool { return e.Type != watch.Deleted && isReady(e) })
	f.Seconds = slices.MaxFunc(slices.Collect(maps.Values(ready)), time.Time.Compare).Sub(started).Seconds()
	passed := s.apiBytes(b).since(bytes, size)
	f.KiB, f.Passed = passed.sum(), passed.most(6)
	f.Clients = s.clientsSince(b, wire, started, size)
	for i := range size {
		f.Ready.Add(ready[burstPod(kind, i)].Sub(created[i]))
	}
	s.check(b, kind, burstPod(kind, 0))
	if kind.name == floor {
		must(b, s.awaitAttached(b.Context(), kind, size))
	}
	f.Refused, f.Late, f.Messages = s.refusals(b, ready)
	return f
}

func burstPod(kind podKind, i int) string { return fmt.Sprintf("%s-%03d", kind.name, i) }

// refusals counts the pods whose Prepare has failed since the last count, and
// those of them that were Ready only long after it.
func (s *starter) refusals(b *testing.B, ready map[string]time.Time) (refused, late int, messages []string) {
	list, err := s.Kube.CoreV1().Events(s.namespace).List(b.Context(), metav1.ListOptions{FieldSelector: "reason=FailedPrepareDynamicResources"})
	must(b, err)
	first := map[string]corev1.Event{}
	texts := map[string]bool{}
	for _, e := range list.Items {
		if old, ok := first[e.InvolvedObject.Name]; !ok || e.FirstTimestamp.Before(&old.FirstTimestamp) {
			first[e.InvolvedObject.Name] = e
		}
		// Messages differ from pod to pod in the claim's name, which begins with the pod's.
		texts[claimOfPod.ReplaceAllString(strings.ReplaceAll(e.Message, e.InvolvedObject.Name, "POD"), "POD-networks-…")] = true
	}
	for pod, e := range first {
		if ready[pod].Sub(e.FirstTimestamp.Time) >= lateAfter {
			late++
		}
	}
	must(b, s.Kube.CoreV1().Events(s.namespace).DeleteCollection(b.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	return len(first), late, slices.Sorted(maps.Keys(texts))
}

// claimOfPod finds the name of a claim whose pod's name was replaced by POD.
var claimOfPod = regexp.MustCompile(`POD-networks-[a-z0-9]+`)

// clear deletes all pods and returns when they are gone.
func (s *starter) clear(b *testing.B, size int) {
	must(b, s.Kube.CoreV1().Pods(s.namespace).DeleteCollection(b.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	s.awaitAll(b, size, func(e watch.Event) bool { return e.Type == watch.Deleted })
}

// awaitAll waits until size pods had an event that satisfies ok, and returns the time of
// each pod's first such event.
func (s *starter) awaitAll(b *testing.B, size int, ok func(watch.Event) bool) map[string]time.Time {
	ctx, cancel := context.WithTimeout(b.Context(), burstTime)
	defer cancel()
	seen := map[string]time.Time{}
	for len(seen) < size {
		select {
		case e, open := <-s.events:
			pod, isPod := e.Object.(*corev1.Pod)
			if !open || !isPod {
				b.Fatal("watching pods: the server ended the watch")
			}
			if _, before := seen[pod.Name]; !before && ok(e) {
				seen[pod.Name] = time.Now()
			}
		case <-ctx.Done():
			b.Fatalf("waiting for %d pods: there are %d: %v", size, len(seen), ctx.Err())
		}
	}
	return seen
}

// reboot cuts the node's power, boots it and waits until all pods are Ready again.
func (s *starter) reboot(b *testing.B, number int, f *burstFigures) {
	node := s.Cluster.Node(number)
	started := time.Now()
	must(b, node.Reboot(b.Context()))
	nodeReady := time.Now()
	back := s.awaitAll(b, f.Pods, func(e watch.Event) bool {
		for _, c := range e.Object.(*corev1.Pod).Status.ContainerStatuses {
			if c.State.Running == nil || c.State.Running.StartedAt.Time.Before(started) {
				return false
			}
		}
		return isReady(e)
	})
	last := slices.MaxFunc(slices.Collect(maps.Values(back)), time.Time.Compare)
	f.Back, f.BackReady = last.Sub(started).Seconds(), last.Sub(nodeReady).Seconds()
	f.BackRefused, _, f.BackMessages = s.refusals(b, back)
}
