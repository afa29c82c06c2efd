//go:build e2e

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
	// slowPlugin is the duration of the slow network's plugin.
	slowPlugin = "1s"
	// slowBegan is a file that the plugin creates on the node when it begins.
	slowBegan = "/var/lib/cni/slow-began"
)

// delayFigures has how long an operation takes with and without another pod of the node
// that waits for a slow plugin, in milliseconds.
type delayFigures struct {
	What          string
	Beside, Alone stats.Sample
	// Delay has the difference of the two in each round.
	Delay stats.Sample
}

// SlowPlugin returns the slow plugin's duration, for the document.
func (r *report) SlowPlugin() string { return slowPlugin }

// BenchmarkDelay measures whether a pod waits for the plugins of another pod.
func BenchmarkDelay(b *testing.B) {
	figures.begin(b, "delay")
	s := newStarter(b, threeNodes(b), "delay")
	config := fmt.Sprintf(`{"cniVersion":"1.0.0","name":"slow","type":"nothing","delay":%q,"began":%q}`, slowPlugin, slowBegan)
	must(b, s.CreateNAD(b.Context(), s.namespace, "slow", config))
	must(b, s.Published(b.Context(), s.namespace+"/slow"))
	must(b, s.CreateTemplate(b.Context(), lab.Template(s.namespace, "slow", lab.Want{Network: "slow"})))
	sandbox := func(name string) time.Duration {
		took, err := s.Cluster.Node(nadraNode).TimeSandbox(b.Context(), name)
		must(b, err)
		return took
	}
	const what = "a sandbox without networks of nadra's, on nadra's node"
	figures.Delay = append(figures.Delay, s.delay(b, what, nadraNode, sandboxRounds, sandbox))
	s.setWait(b, inHook.wait)
	figures.Delay = append(figures.Delay, s.delay(b, what+", with "+inHook.flag(), nadraNode, delayRounds, sandbox))
	s.setWait(b, "")
	for _, name := range []string{"one", "thickone"} {
		kind, round := kindNamed(name), 0
		ready := func(string) time.Duration {
			life := s.lead(b, kind, round)
			round++
			return life.ready.Sub(life.created)
		}
		figures.Delay = append(figures.Delay, s.delay(b, "pod create to Ready: "+kind.title, kind.node, delayRounds, ready))
	}
	b.ReportMetric(0, "ns/op")
	for i, unit := range []string{"sandbox", "sandbox-in-hook", "one", "thickone"} {
		b.ReportMetric(figures.Delay[i].Delay.Median(), "ms-delay-"+unit)
		b.ReportMetric(figures.Delay[i].Delay.Percentile(100), "ms-delay-max-"+unit)
		b.Logf("%s: beside %.0f, alone %.0f", figures.Delay[i].What, figures.Delay[i].Beside, figures.Delay[i].Alone)
	}
}

// delay measures in turn with and without a slow pod on the node.
func (s *starter) delay(b *testing.B, what string, node, rounds int, measure func(name string) time.Duration) delayFigures {
	f := delayFigures{What: what}
	measure("warm-up")
	for round := range rounds {
		var beside, alone time.Duration
		turns := []func(){
			func() { alone = measure(fmt.Sprintf("alone-%d", round)) },
			func() {
				slow := s.startSlow(b, node, round)
				beside = measure(fmt.Sprintf("beside-%d", round))
				s.endSlow(b, slow)
			},
		}
		turns[round%2]()
		turns[1-round%2]()
		f.Beside.Add(beside)
		f.Alone.Add(alone)
		f.Delay.Add(beside - alone)
	}
	return f
}

// startSlow creates a pod with the slow network and returns when its plugin is
// at work.
func (s *starter) startSlow(b *testing.B, node, round int) (name string) {
	began, err := s.Cluster.Node(node).HostPath(slowBegan)
	must(b, err)
	if err := os.Remove(began); err != nil && !errors.Is(err, os.ErrNotExist) {
		b.Fatal(err)
	}
	pod := s.podWith(node, fmt.Sprintf("slow-%d-%d", node, round), "slow", []string{"slow"})
	_, err = s.CreatePod(b.Context(), pod)
	must(b, err)
	must(b, lab.Eventually(b.Context(), podTime, func(context.Context) error {
		_, err := os.Stat(began)
		return err
	}))
	return pod.Name
}

// endSlow waits for the slow pod, so that nothing of it is left.
func (s *starter) endSlow(b *testing.B, name string) {
	_, err := s.Ready(b.Context(), s.namespace, name, podTime)
	must(b, err)
	must(b, s.Kube.CoreV1().Pods(s.namespace).Delete(b.Context(), name, metav1.DeleteOptions{}))
	must(b, s.await(b.Context(), name, func(e watch.Event) bool { return e.Type == watch.Deleted }))
}
