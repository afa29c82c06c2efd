package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nadra-dev/nadra/test/bench/stats"
	"github.com/nadra-dev/nadra/test/lab"
)

const (
	sandboxRounds = 40
	delayRounds   = 8
	// slowPlugin is the duration of the slow network's plugin, and briefPlugin that of a
	// network which tells what the start of a pod costs by itself.
	slowPlugin, briefPlugin = "1s", "1ms"
	// slowBegan is a file that these plugins create on the node when they begin.
	slowBegan = "/var/lib/cni/slow-began"
)

// delayFigures has how long an operation takes, in milliseconds, while another pod of the node
// waits for a slow plugin, while another pod is started whose plugin is brief, and alone.
type delayFigures struct {
	What                       string
	Beside, BesideBrief, Alone stats.Sample
	// Delay has the difference of the first two in each round, which is what the plugin
	// costs, and Start that of the last two, which is what the start of a pod costs.
	Delay, Start stats.Sample
}

// SlowPlugin returns the slow plugin's duration, for the document.
func (r *report) SlowPlugin() string { return slowPlugin }

// BriefPlugin returns the brief plugin's duration.
func (r *report) BriefPlugin() string { return briefPlugin }

// BenchmarkDelay measures whether a pod waits for the plugins of another pod.
func BenchmarkDelay(b *testing.B) {
	figures.begin(b, "delay")
	s := newStarter(b, threeNodes(b), "delay")
	for name, delay := range map[string]string{"slow": slowPlugin, "brief": briefPlugin} {
		config := fmt.Sprintf(`{"cniVersion":"1.0.0","name":%q,"type":"nothing","delay":%q,"began":%q}`, name, delay, slowBegan)
		must(b, s.CreateNAD(b.Context(), s.namespace, name, config))
		must(b, s.Published(b.Context(), s.namespace+"/"+name))
		must(b, s.CreateTemplate(b.Context(), lab.Template(s.namespace, name, lab.Want{Network: name})))
	}
	sandbox := func(name string) time.Duration {
		took, err := s.Cluster.Node(nadraNode).TimeSandbox(b.Context(), name)
		must(b, err)
		return took
	}
	const what = "a sandbox without networks of nadra's, on nadra's node"
	figures.Delay = append(figures.Delay, s.delay(b, what, nadraNode, sandboxRounds, sandbox))
	kinds := []string{"one", "thickone"}
	for _, name := range kinds {
		kind, round := kindNamed(name), 0
		ready := func(string) time.Duration {
			life := s.lead(b, kind, round)
			round++
			return life.ready.Sub(life.created)
		}
		figures.Delay = append(figures.Delay, s.delay(b, "pod create to Ready: "+kind.title, kind.node, delayRounds, ready))
	}
	b.ReportMetric(0, "ns/op")
	for i, unit := range append([]string{"sandbox"}, kinds...) {
		b.ReportMetric(figures.Delay[i].Delay.Median(), "ms-delay-"+unit)
		b.ReportMetric(figures.Delay[i].Delay.Percentile(100), "ms-delay-max-"+unit)
		b.ReportMetric(figures.Delay[i].Start.Median(), "ms-start-"+unit)
		b.Logf("%s: beside a slow plugin %.0f, beside a brief one %.0f, alone %.0f", figures.Delay[i].What,
			figures.Delay[i].Beside, figures.Delay[i].BesideBrief, figures.Delay[i].Alone)
	}
}

// delay measures in turn beside a pod with a slow plugin, beside one with a brief plugin, and
// alone. Each round begins with another one.
func (s *starter) delay(b *testing.B, what string, node, rounds int, measure func(name string) time.Duration) delayFigures {
	f := delayFigures{What: what}
	measure("warm-up")
	for round := range rounds {
		var beside, brief, alone time.Duration
		turns := []func(){
			func() { alone = measure(fmt.Sprintf("alone-%d", round)) },
			func() { brief = s.besidePod(b, node, round, "brief", measure) },
			func() { beside = s.besidePod(b, node, round, "slow", measure) },
		}
		for i := range turns {
			turns[(round+i)%len(turns)]()
		}
		f.Beside.Add(beside)
		f.BesideBrief.Add(brief)
		f.Alone.Add(alone)
		f.Delay.Add(beside - brief)
		f.Start.Add(brief - alone)
	}
	return f
}

// besidePod measures while a pod with a network is started, from the beginning of its plugin.
func (s *starter) besidePod(b *testing.B, node, round int, network string, measure func(name string) time.Duration) time.Duration {
	pod := s.startPod(b, node, round, network)
	took := measure(fmt.Sprintf("beside-%s-%d", network, round))
	s.endPod(b, pod)
	return took
}

// startPod creates a pod with a network and returns when its plugin has begun.
func (s *starter) startPod(b *testing.B, node, round int, network string) (name string) {
	began, err := s.Cluster.Node(node).HostPath(slowBegan)
	must(b, err)
	if err := os.Remove(began); err != nil && !errors.Is(err, os.ErrNotExist) {
		b.Fatal(err)
	}
	pod := s.podWith(node, fmt.Sprintf("%s-%d-%d", network, node, round), network, []string{network})
	_, err = s.CreatePod(b.Context(), pod)
	must(b, err)
	must(b, lab.Eventually(b.Context(), podTime, func(context.Context) error {
		_, err := os.Stat(began)
		return err
	}))
	return pod.Name
}

// endPod waits for the pod and deletes it, so that nothing of it is left.
func (s *starter) endPod(b *testing.B, name string) {
	_, err := s.Ready(b.Context(), s.namespace, name, podTime)
	must(b, err)
	must(b, s.Kube.CoreV1().Pods(s.namespace).Delete(b.Context(), name, metav1.DeleteOptions{}))
	must(b, s.await(b.Context(), name, func(e watch.Event) bool { return e.Type == watch.Deleted }))
}
