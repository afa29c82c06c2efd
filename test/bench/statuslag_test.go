package bench

import (
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/nadra-dev/nadra/test/bench/stats"
	"github.com/nadra-dev/nadra/test/lab"
)

// lagFigures has the delay from the end of a pod's last plugin until its network-status is
// stored, for pods that are created at once.
type lagFigures struct {
	Kind string
	Pods int
	// Lag and Ready, from create to Ready, are in milliseconds.
	Lag, Ready stats.Sample

	kind lagKind
}

// lagKind is a way to attach three networks.
type lagKind struct {
	name, title string
	node        int
}

var lagKinds = []lagKind{
	{"nadra", "nadra, 3 networks", nadraNode},
	{"thick", "thick Multus, 3 networks", thickNode},
	{"floor", "a bare DRA driver that runs the plugins and writes network-status, 3 networks", bareNode},
}

// lagBursts has the sizes of the bursts, and how often each is repeated. Single pods are
// repeated often enough for a precise median.
var lagBursts = []struct{ size, rounds int }{{1, 20}, {20, 3}, {100, 1}}

// stamped is a network whose chain ends in the plugin stamp, which notes when it
// ends, in nanoseconds, in a file named for the pod.
const (
	stamped   = "stamped"
	stampDir  = "/run/nadra-bench-stamps"
	stampFile = "/opt/cni/bin/stamp"
	stamp     = `#!/bin/sh
input=$(cat)
case $CNI_COMMAND in
VERSION) echo '{"cniVersion":"1.1.0","supportedVersions":["0.4.0","1.0.0","1.1.0"]}' ;;
ADD)
	echo "$input" | sed 's/.*"prevResult"://; s/,"type":"stamp"}$//'
	pod=${CNI_ARGS##*K8S_POD_NAME=}
	date +%s%N >` + stampDir + `/${pod%%;*}
	;;
esac
`
)

// stampedConfig returns the configuration of the network stamped, with a name for its leases.
func stampedConfig(name string) string {
	return fmt.Sprintf(`{"cniVersion":"1.0.0","name":%q,"plugins":[{"type":"macvlan","master":"lan0","mode":"bridge","ipam":{"type":"host-local","subnet":"10.113.0.0/16"}},{"type":"stamp"}]}`, name)
}

// BenchmarkNetworkStatus creates pods at once and measures when each shows its networks.
func BenchmarkNetworkStatus(b *testing.B) {
	figures.begin(b, "network-status")
	s := newStarter(b, threeNodes(b), "lag")
	s.installStamp(b)
	networks := []string{networkNo(0), networkNo(1), stamped}
	must(b, s.CreateNAD(b.Context(), s.namespace, stamped, stampedConfig("lag-stamped")))
	must(b, s.Published(b.Context(), s.namespace+"/"+stamped))
	var wants []lab.Want
	for _, n := range networks {
		wants = append(wants, lab.Want{Network: n})
	}
	must(b, s.CreateTemplate(b.Context(), lab.Template(s.namespace, stamped, wants...)))
	for _, burst := range lagBursts {
		found := make([]lagFigures, len(lagKinds))
		for i, kind := range lagKinds {
			found[i] = lagFigures{Kind: kind.title, Pods: burst.size, kind: kind}
		}
		for round := range burst.rounds {
			for i := range lagKinds {
				s.lag(b, &found[(round+i)%len(lagKinds)], networks, round)
			}
		}
		for _, f := range found {
			figures.Lags = append(figures.Lags, f)
			b.ReportMetric(f.Lag.Median(), fmt.Sprintf("lag-ms-%d-%s", f.Pods, f.kind.name))
			b.ReportMetric(f.Ready.Median(), fmt.Sprintf("ready-ms-%d-%s", f.Pods, f.kind.name))
		}
	}
	b.ReportMetric(0, "ns/op")
}

func (s *starter) installStamp(b *testing.B) {
	b.Helper()
	for _, kind := range lagKinds {
		node := s.Cluster.Node(kind.node)
		must(b, lab.WriteHostFile(node, stampFile, []byte(stamp), 0o755))
		_, err := node.Exec(b.Context(), "mkdir", "-p", stampDir)
		must(b, err)
	}
}

// lag creates one burst, measures it and deletes it.
func (s *starter) lag(b *testing.B, f *lagFigures, networks []string, round int) {
	created := make([]time.Time, f.Pods)
	name := func(i int) string { return fmt.Sprintf("%s-%d-%02d-%03d", f.kind.name, f.Pods, round, i) }
	var creating errgroup.Group
	creating.SetLimit(20)
	for i := range f.Pods {
		creating.Go(func() error {
			pod := s.podWith(f.kind.node, name(i), stamped, networks)
			if f.kind.node == bareNode {
				pod = s.podWith(bareNode, name(i), bareTemplateName(len(networks)), networks)
				pod.Annotations = map[string]string{"otherdriver/attach": strings.Join(networks, ","), "otherdriver/status": "true"}
			}
			created[i] = time.Now()
			_, err := s.CreatePod(b.Context(), pod)
			return err
		})
	}
	must(b, creating.Wait())
	stored, ready := s.awaitStored(b, f.Pods)
	node := s.Cluster.Node(f.kind.node)
	for i := range f.Pods {
		out, err := node.Exec(b.Context(), "cat", filepath.Join(stampDir, name(i)))
		must(b, err)
		ended, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
		must(b, err)
		f.Lag.Add(stored[name(i)].Sub(time.Unix(0, ended)))
		f.Ready.Add(ready[name(i)].Sub(created[i]))
	}
	s.clear(b, f.Pods)
}

// awaitStored waits until size pods show their last network, and returns when each did, and
// when it was Ready.
func (s *starter) awaitStored(b *testing.B, size int) (stored, ready map[string]time.Time) {
	stored, ready = map[string]time.Time{}, map[string]time.Time{}
	over := time.After(burstTime)
	for len(stored) < size || len(ready) < size {
		select {
		case e, open := <-s.events:
			pod, isPod := e.Object.(*corev1.Pod)
			if !open || !isPod {
				b.Fatal("watching pods: the server ended the watch")
			}
			now := time.Now()
			if _, before := stored[pod.Name]; !before && strings.Contains(pod.Annotations[nadv1.NetworkStatusAnnot], s.namespace+"/"+stamped) {
				stored[pod.Name] = now
			}
			if _, before := ready[pod.Name]; !before && isReady(e) {
				ready[pod.Name] = now
			}
		case <-over:
			b.Fatalf("waiting for %d pods: %d show their networks, %d are Ready", size, len(stored), len(ready))
		}
	}
	return stored, ready
}

// lagOf returns the figures of a kind and size, or nil.
func (r *report) lagOf(name string, size int) *lagFigures {
	for _, kind := range lagKinds {
		for i, f := range r.Lags {
			if kind.name == name && f.Kind == kind.title && f.Pods == size {
				return &r.Lags[i]
			}
		}
	}
	return nil
}

// lagGoals adds the goals that compare nadra with Multus.
func (r *report) lagGoals(out map[string]goal) {
	for _, burst := range lagBursts {
		ours, multus := r.lagOf("nadra", burst.size), r.lagOf("thick", burst.size)
		if ours == nil || multus == nil {
			continue
		}
		least := math.NaN()
		if l := r.lagOf("floor", burst.size); l != nil {
			least = l.Lag.Median()
		}
		out[fmt.Sprintf("network-status after the last ADD, burst of %d, median", burst.size)] = overFloor(less, ours.Lag.Median(), least, multus.Lag.Median(), " ms, thick Multus'")
	}
}
