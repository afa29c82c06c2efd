//go:build e2e

package faults

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/internal/failpoint"
	"github.com/nadra-dev/nadra/test/lab"
)

// The states of a guard.
const on, off = "on", "off"

// TestSuiteSeesMissingGuards proves that the suite can fail. It provokes each guard twice:
// with the guard the suite must find nothing, and without it something.
func TestSuiteSeesMissingGuards(t *testing.T) {
	for _, guard := range []struct {
		name    failpoint.Guard
		provoke func(s *suite, guard string) int
	}{
		{failpoint.Gate, (*suite).provokeGate},
		{failpoint.Reference, (*suite).provokeReference},
		{failpoint.UnprepareDEL, (*suite).provokeUnprepareDEL},
	} {
		t.Run(string(guard.name)+" on", func(t *testing.T) {
			s := setUp(t, string(guard.name)+"-on", 6*time.Minute)
			if n := guard.provoke(s, on); n != 0 {
				t.Errorf("the suite finds %d faults of nadra, want 0", n)
			}
			s.deleteAll()
			for _, what := range s.leaks(s.ctx, leftoverLimit) {
				t.Errorf("left over: %s", what)
			}
		})
		t.Run(string(guard.name)+" off", func(t *testing.T) {
			s := setUp(t, string(guard.name)+"-off", 6*time.Minute)
			s.must(order(failPointFile(s.node, "off", string(guard.name)), "x"))
			n := guard.provoke(s, off)
			s.must(order(failPointFile(s.node, "off", string(guard.name)), ""))
			// A runtime that reports the end of older sandboxes has them detached without Unprepare.
			spare := guard.name == failpoint.UnprepareDEL && s.node.Runtime().ReportsOlderSandboxes()
			switch {
			case n == 0 && !spare:
				t.Error("the suite finds nothing: it cannot see what this guard is for")
			case n > 0 && spare:
				t.Errorf("%d leftovers, although the runtime reports the end of sandboxes that are older than itself", n)
			}
			s.cleanUp()
		})
	}
}

const (
	// holding is how long a guard has to hold before it counts as on: long enough for a
	// retry of the kubelet.
	holding = 10 * time.Second
	// looking is how long the suite searches for containers that a missing guard lets
	// start.
	looking = time.Minute
)

// observed waits until the checker has found something, or for holding, and returns the
// number of findings.
func (s *suite) observed(guard string) int {
	limit := holding
	if guard == off {
		limit = looking
	}
	for deadline := time.Now().Add(limit); time.Now().Before(deadline) && len(s.checker.all()) == 0; {
		pause(s.ctx, 100*time.Millisecond)
	}
	return len(s.checker.all())
}

// provokeGate makes the runtime create a new sandbox for a pod while the driver is dead.
// Nobody attaches it, and NRI calls no plugin for its containers, so only the gate is left.
func (s *suite) provokeGate(guard string) int {
	return s.remade(life{name: "held-1", claims: []string{"b"}, grace: 1}, guard)
}

// remade starts a pod and has the runtime make it a new sandbox while the driver is dead. It returns the
// number of findings.
func (s *suite) remade(l life, guard string) int {
	s.start(l)
	old := s.sandboxesOf(l.name)
	if len(old) != 1 {
		s.t.Fatalf("pod %s has sandboxes %q, want one", l.name, old)
	}
	revive := s.keepDead()
	defer revive()
	s.must(s.node.Runtime().EndSandbox(s.ctx, old[0]))
	s.eventually(time.Minute, func() error {
		if !slices.ContainsFunc(s.sandboxesOf(l.name), func(id string) bool { return id != old[0] }) {
			return errors.New("the pod has no new sandbox")
		}
		gates, err := lab.Processes(s.node, "nadra-gate")
		if err == nil && len(gates) == 0 && len(s.checker.all()) == 0 {
			err = errors.New("the pod has neither a container at the gate nor one that runs")
		}
		return err
	})
	n := s.observed(guard)
	revive()
	s.eventually(2*time.Minute, func() error { // Ready may still be the old sandbox's
		_, err := s.exec(l.name, "ip", "addr", "show", "net1")
		return err
	})
	s.ready(l)
	return n
}

// provokeReference creates a pod whose first container does not reference the claim, which
// would bring the gate. Prepare refuses it. Without that guard the driver gives the container the gate,
// or refuses it, so only the driver's death shows what the guard is for.
func (s *suite) provokeReference(guard string) int {
	l := life{name: "slow-2", claims: []string{"c", "b"}, unreferenced: true, grace: 1}
	if guard == off {
		return s.remade(l, guard)
	}
	_, err := s.CreatePod(s.ctx, l.pod(s.ns))
	s.must(err)
	s.eventually(time.Minute, func() error { return s.refused(l.name) })
	n := s.observed(guard)
	if len(s.sandboxesOf(l.name)) > 0 {
		s.t.Error("the pod has a sandbox, although Prepare has refused it")
	}
	return n
}

// refused returns nil once an Event reports that Prepare has refused the pod.
func (s *suite) refused(pod string) error {
	events, err := s.Kube.CoreV1().Events(s.ns).List(s.ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + pod + ",reason=FailedPrepareNetwork"})
	if err == nil && len(events.Items) == 0 {
		err = errors.New("no Event reports that the pod was refused")
	}
	return err
}

// provokeUnprepareDEL restarts the runtime, and deletes a pod, whose end containerd then
// reports to nobody. Without the guard the driver's sweep soon finds the
// leftovers, possibly before the suite does, so the suite tries three times.
func (s *suite) provokeUnprepareDEL(guard string) int {
	var left []string
	for range 3 {
		l := life{name: "leaky-2", claims: []string{"b", "m"}, grace: 1}
		s.start(l)
		s.must(bringDown(s.ctx, s.node.Machine, s.node.Runtime().Name(), unix.SIGTERM))
		canary := life{name: "canary-1", claims: []string{"b"}, grace: 1}
		s.start(canary) // so the driver is connected again
		s.must(s.DeletePod(s.ctx, s.ns, canary.name))
		s.must(s.DeletePod(s.ctx, s.ns, l.name))
		if guard == on {
			left = s.leaks(s.ctx, leftoverLimit)
			break
		}
		var err error
		left, err = s.left(s.ctx)
		s.must(err)
		if len(left) > 0 {
			break
		}
	}
	s.note("left over: %q", left)
	return len(left)
}

// start creates a pod and waits until it is Ready.
func (s *suite) start(l life) {
	s.t.Helper()
	_, err := s.CreatePod(s.ctx, l.pod(s.ns))
	s.must(err)
	s.ready(l)
}

// ready waits until a pod is Ready: a guard holds a pod, it does not end it.
func (s *suite) ready(l life) *corev1.Pod {
	s.t.Helper()
	p, err := s.Ready(s.ctx, s.ns, l.name, 2*time.Minute)
	if err != nil {
		s.explain(l.name)
		s.t.Fatal(err)
	}
	return p
}

// sandboxesOf returns the IDs of a pod's sandboxes.
func (s *suite) sandboxesOf(pod string) []string {
	var ids []string
	for id, of := range s.checker.sandboxes() {
		if of == pod {
			ids = append(ids, id)
		}
	}
	return ids
}

func (s *suite) eventually(limit time.Duration, check func() error) {
	s.t.Helper()
	s.must(lab.Eventually(s.ctx, limit, func(context.Context) error { return check() }))
}

// keepDead kills the driver as often as it is restarted, until revive.
func (s *suite) keepDead() (revive func()) {
	ctx, cancel := context.WithCancel(s.ctx)
	first := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for round := 0; pause(ctx, 10*time.Millisecond); round++ {
			if pid, err := lab.DriverPID(s.node); err == nil {
				_ = kill(s.ctx, s.node, "KILL", pid) // the next round retries
			}
			if round == 0 {
				close(first)
			}
		}
	}()
	<-first
	return func() { cancel(); <-done }
}

// cleanUp deletes the test's pods and, by hand, what a missing guard has left.
func (s *suite) cleanUp() {
	s.t.Helper()
	if stuck := s.deleteAll(); len(stuck) > 0 {
		return
	}
	s.must(sh(s.ctx, s.node, fmt.Sprintf("rm -f /var/lib/cni/networks/*/10.* %[1]s/cni/results/* %[1]s/claims/*", stateDir)))
	pid, err := lab.DriverPID(s.node)
	s.must(err)
	s.must(kill(s.ctx, s.node, "KILL", pid)) // it has read reports that are now gone
	s.eventually(time.Minute, func() error {
		if now, err := lab.DriverPID(s.node); err != nil || now == pid {
			return errors.New("the driver was not restarted")
		}
		return nil
	})
}
