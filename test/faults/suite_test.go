//go:build e2e

package faults

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

// clock is the format of times, which is that of the driver's log.
const clock = "15:04:05.000"

// confs has the networks by their letter in the names of templates. The last one is a chain
// that ends in the plugin that misbehaves.
var confs = map[string]string{
	"b": `{"cniVersion":"1.0.0","name":"flt-bridge","type":"bridge","bridge":"br-flt0","ipam":{"type":"host-local","subnet":"10.80.0.0/22"}}`,
	"m": `{"cniVersion":"1.0.0","name":"flt-macvlan","type":"macvlan","master":"` + master + `","mode":"bridge","ipam":{"type":"host-local","subnet":"10.81.0.0/22"}}`,
	"c": `{"cniVersion":"1.1.0","name":"flt-chain","plugins":[
		{"type":"bridge","bridge":"br-flt1","ipam":{"type":"host-local","subnet":"10.82.0.0/22"}},{"type":"chaos"}]}`,
}

// suite is a test with a namespace of its own, in which all networks and templates are.
type suite struct {
	*lab.Lab
	t    *testing.T
	ctx  context.Context
	ns   string
	node *cluster.Node
	// before has the node's state before the first pod.
	before  lab.Snapshot
	checker *checker
	pods    cache.Store
	// runtimeKilled is set once containerd was killed, or otherwise had no time to finish
	// its work.
	runtimeKilled atomic.Bool
	// runtimeDown is held by who ends the runtime and starts it again.
	runtimeDown sync.Mutex
	// upstream counts faults of Kubernetes, the runtimes and host-local.
	upstream upstream

	mu  sync.Mutex
	log *os.File
}

// setUp makes the namespace, its networks and templates, and starts to check.
func setUp(t *testing.T, namespace string, limit time.Duration) *suite {
	t.Helper()
	ctx, cancel := context.WithTimeout(interrupted, limit)
	t.Cleanup(cancel)
	node := theLab.Cluster.Node(1)
	s := &suite{Lab: theLab, t: t, ctx: ctx, ns: namespace, node: node, checker: newChecker(node, namespace)}
	var err error
	s.log, err = os.Create(filepath.Join(theLab.Cluster.LogDir(), namespace+".log"))
	s.must(err)
	t.Cleanup(func() { s.log.Close() })
	s.must(installChaos(node))
	s.must(order(suiteFile(node, reports), ""))
	s.before, err = lab.TakeSnapshot(node)
	s.must(err)
	s.must(s.CreateNamespace(ctx, namespace))
	s.makeNetworks()
	s.watchPods()
	s.inBackground(s.checker.run)
	s.inBackground(s.keepClaims)
	s.inBackground(s.keepEnds)
	return s
}

func (s *suite) makeNetworks() {
	s.t.Helper()
	var names []string
	for letter, conf := range confs {
		s.must(s.CreateNAD(s.ctx, s.ns, letter, conf))
		names = append(names, s.ns+"/"+letter)
	}
	for _, name := range templates {
		s.must(s.CreateTemplate(s.ctx, template(s.ns, name)))
	}
	s.must(s.Published(s.ctx, names...))
}

// template makes the template whose name lists its networks.
func template(namespace, name string) *resourceapi.ResourceClaimTemplate {
	var wants []lab.Want
	for letter := range strings.SplitSeq(name, "-") {
		wants = append(wants, lab.Want{Network: letter})
	}
	return lab.Template(namespace, name, wants...)
}

// watchPods keeps s.pods as the API server has them.
func (s *suite) watchPods() {
	s.t.Helper()
	factory := informers.NewSharedInformerFactoryWithOptions(s.Kube, 0, informers.WithNamespace(s.ns))
	informer := factory.Core().V1().Pods().Informer()
	s.pods = informer.GetStore()
	factory.Start(s.ctx.Done())
	if !cache.WaitForCacheSync(s.ctx.Done(), informer.HasSynced) {
		s.t.Fatal("the pods could not be listed")
	}
}

// inBackground runs a function until the end of the test.
func (s *suite) inBackground(run func(context.Context)) {
	ctx, stop := context.WithCancel(s.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		run(ctx)
	}()
	s.t.Cleanup(func() { stop(); <-done })
}

func (s *suite) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// note records an event of the run in the log of the test and in a file beside the logs of
// the cluster.
func (s *suite) note(format string, args ...any) {
	line := time.Now().Format(clock) + " " + fmt.Sprintf(format, args...)
	s.t.Log(line)
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintln(s.log, line)
}

// pod returns a pod from the suite's cache, or nil.
func (s *suite) pod(name string) *corev1.Pod {
	object, there, err := s.pods.GetByKey(s.ns + "/" + name)
	if err != nil || !there {
		return nil
	}
	return object.(*corev1.Pod)
}

// pause waits, and reports whether the test goes on.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// number reads a number from the environment.
func number(t *testing.T, name string, usual uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return usual
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}
