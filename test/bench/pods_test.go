//go:build e2e

package bench

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nadra-dev/nadra/test/bench/stats"
	"github.com/nadra-dev/nadra/test/lab"
)

const (
	// podRounds is how often each kind of pod is started, after some rounds
	// that warm up.
	podRounds = 25
	podWarmUp = 2
	// podTime is more than any pod may take, so that a hanging run ends.
	podTime = 3 * time.Minute
)

// podFigures are one kind of pod.
type podFigures struct {
	Kind  string
	Ready stats.Sample // from create to Ready
	Hook  stats.Sample // of that, in the driver's RunPodSandbox, by its log
}

// podKind is a pod with that many networks in one claim, or without a claim.
type podKind struct {
	name, title string
	networks    int
}

var podKinds = []podKind{
	{"plain", "no claim", 0},
	{"one", "a claim for 1 macvlan network", 1},
	{"three", "a claim for 3 macvlan networks", 3},
}

// BenchmarkPods starts pods one after another, the kinds in turn, each round
// beginning with another one.
func BenchmarkPods(b *testing.B) {
	figures.noteLoad("pods")
	l := setup(b, "pods", "pod0")
	s := newStarter(b, l)
	ready := make([]stats.Sample, len(podKinds))
	for round := range podWarmUp + podRounds {
		for i := range podKinds {
			kind := (round + i) % len(podKinds)
			took := s.startOne(b, podKinds[kind], round)
			if round >= podWarmUp {
				ready[kind].Add(took)
			}
		}
	}
	hooks := hookTimes(b, l)
	b.ReportMetric(0, "ns/op")
	for i, kind := range podKinds {
		figures.Pods = append(figures.Pods, podFigures{kind.title, ready[i], hooks[kind.name]})
		b.ReportMetric(ready[i].Median(), "ms-"+kind.name+"-p50")
		b.ReportMetric(ready[i].Percentile(90), "ms-"+kind.name+"-p90")
	}
}

// starter starts pods in one namespace and sees them through one watch.
type starter struct {
	*lab.Lab
	events <-chan watch.Event
}

func newStarter(b *testing.B, l *lab.Lab) *starter {
	var wants []lab.Want
	for i := range 3 {
		must(b, l.CreateNAD(b.Context(), "pods", networkNo(i), macvlan("pod0", i)))
		must(b, l.Published(b.Context(), "pods/"+networkNo(i)))
		wants = append(wants, lab.Want{Network: networkNo(i)})
	}
	for _, kind := range podKinds {
		if kind.networks > 0 {
			must(b, l.CreateTemplate(b.Context(), lab.Template("pods", kind.name, wants[:kind.networks]...)))
		}
	}
	w, err := l.Kube.CoreV1().Pods("pods").Watch(b.Context(), metav1.ListOptions{})
	must(b, err)
	b.Cleanup(w.Stop)
	return &starter{l, w.ResultChan()}
}

// startOne returns the time until the pod was seen to be Ready, and takes the
// pod away again.
func (s *starter) startOne(b *testing.B, kind podKind, round int) time.Duration {
	pod := lab.Pod("pods", fmt.Sprintf("%s-%02d", kind.name, round), kind.name)
	if kind.networks == 0 {
		pod.Spec.ResourceClaims, pod.Spec.Containers[0].Resources.Claims = nil, nil
	}
	created := time.Now()
	_, err := s.CreatePod(b.Context(), pod)
	must(b, err)
	must(b, s.await(b.Context(), pod.Name, isReady))
	took := time.Since(created)
	must(b, s.Kube.CoreV1().Pods("pods").Delete(b.Context(), pod.Name, metav1.DeleteOptions{}))
	must(b, s.await(b.Context(), pod.Name, func(e watch.Event) bool { return e.Type == watch.Deleted }))
	return took
}

// await returns at the pod's first event that satisfies ok.
func (s *starter) await(ctx context.Context, name string, ok func(watch.Event) bool) error {
	ctx, cancel := context.WithTimeout(ctx, podTime)
	defer cancel()
	for {
		select {
		case e, open := <-s.events:
			if !open {
				return errors.New("watching pods: the server closed the watch")
			}
			if pod, isPod := e.Object.(*corev1.Pod); isPod && pod.Name == name && ok(e) {
				return nil
			}
		case <-ctx.Done():
			return fmt.Errorf("waiting for pod %s: %w; events: %s", name, ctx.Err(),
				strings.Join(s.Events(context.WithoutCancel(ctx), "pods", name), "; "))
		}
	}
}

func isReady(e watch.Event) bool {
	for _, c := range e.Object.(*corev1.Pod).Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// attachedLine is what the driver logs at the end of a successful hook.
var attachedLine = regexp.MustCompile(`"Attached pod" .*pod="pods/([a-z]+)-(\d+)".* took="([^"]+)"`)

// hookTimes reads from the driver's log how long its hook took, by kind.
func hookTimes(b *testing.B, l *lab.Lab) map[string]stats.Sample {
	log, err := l.Cluster.Kubectl(b.Context(), "-n", "nadra", "logs", "-l", "app.kubernetes.io/name=nadra-node", "--tail=-1")
	must(b, err)
	out := map[string]stats.Sample{}
	for _, match := range attachedLine.FindAllStringSubmatch(log, -1) {
		var round int
		_, err := fmt.Sscanf(match[2], "%d", &round)
		must(b, err)
		took, err := time.ParseDuration(match[3])
		must(b, err)
		if round >= podWarmUp {
			s := out[match[1]]
			s.Add(took)
			out[match[1]] = s
		}
	}
	for _, kind := range podKinds {
		if n := len(out[kind.name]); kind.networks > 0 && n != podRounds {
			b.Fatalf("the driver's log tells of %d pods of kind %s, want %d", n, kind.name, podRounds)
		}
	}
	return out
}
