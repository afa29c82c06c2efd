//go:build e2e

package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/test/lab"
)

const (
	// recovery limits the time until everything works once nothing fails any more. The
	// kubelet retries some operations only after 90 s.
	recovery = 3 * time.Minute
	// leftoverLimit is how long leftovers may stay after the last pod. The kubelet removes
	// sandboxes up to a minute later.
	leftoverLimit = 2 * time.Minute
	// explained is the number of findings that are printed with all details.
	explained = 5
)

// result has the figures of a run.
type result struct {
	pods, faults, without int
	leaks, stuck          []string
}

func (r result) String() string {
	return fmt.Sprintf("fault-suite: pods=%d faults=%d started-without-network=%d leaks=%d stuck=%d",
		r.pods, r.faults, r.without, len(r.leaks), len(r.stuck))
}

// TestFaults creates and deletes pods while everything fails.
func TestFaults(t *testing.T) {
	pods, seed := int(number(t, "FAULT_PODS", usualLives)), number(t, "FAULT_SEED", rand.Uint64())
	t.Logf("seed %d; again with FAULT_SEED=%d FAULT_PODS=%d", seed, seed, pods)
	s := setUp(t, "faults", 50*time.Minute)
	lives, injector := newLives(s), newInjector(s)
	for _, step := range draw(seed, pods) {
		if step.burst != nil {
			lives.begin(step.burst)
			s.note("burst of %d pods, the first is %s", len(step.burst), step.burst[0].name)
		}
		if step.fault != nil {
			injector.inject(*step.fault)
		}
		if !pause(s.ctx, step.pause) {
			break
		}
	}
	unreached := injector.finish()
	s.note("the last fault was healed")
	lives.running.Wait()
	s.note("the last life is over; %d pods stay", len(lives.staying))

	r := result{pods: lives.created, faults: injector.injected}
	r.stuck = s.recovered(lives.staying)
	r.stuck = append(r.stuck, s.deleteAll()...)
	r.leaks = s.leaks(s.ctx, leftoverLimit)
	findings := slices.DeleteFunc(s.checker.all(), s.unasked)
	r.without = len(findings)
	lastLines = strings.TrimPrefix(lastLines+"\n"+r.String()+"\n"+s.upstream.String(), "\n")

	samples, containers := s.checker.seen()
	t.Logf("the checker took %d samples and saw %d running containers", samples, containers)
	if containers == 0 {
		t.Error("the checker has seen no container")
	}
	if len(unreached) > 0 {
		t.Logf("no driver reached the fail points %s", strings.Join(unreached, ", "))
	}
	for i, f := range findings {
		t.Errorf("container %s of pod %s has run without %s: %s", f.container, f.pod, f.missing, f.evidence)
		if i < explained {
			s.explain(f.pod)
		}
	}
	if len(s.upstream.forgotten) > 0 {
		t.Logf("the runtime was killed and forgot these, which have nothing of nadra: %s", strings.Join(s.upstream.forgotten, ", "))
	}
	if len(s.upstream.torn) > 0 {
		t.Logf("host-local was killed while it reserved: %s", strings.Join(s.upstream.torn, ", "))
	}
	for _, what := range r.leaks {
		t.Errorf("left over: %s", what)
	}
	if t.Failed() {
		t.Logf("seed %d; again with FAULT_SEED=%d FAULT_PODS=%d", seed, seed, pods)
	}
}

// recovered waits until the pods that stay work and all others are gone. It returns the
// names of the pods that do not or are not.
func (s *suite) recovered(staying map[string]life) []string {
	wrong := map[string]string{}
	err := lab.Eventually(s.ctx, recovery, func(ctx context.Context) error {
		clear(wrong)
		for name, l := range staying {
			why := s.trouble(l)
			if why == "" {
				continue
			}
			if lost, err := s.endUpstream(ctx, name); err != nil {
				return err
			} else if lost {
				delete(staying, name)
				continue
			}
			wrong[name] = why
		}
		for _, key := range s.pods.ListKeys() {
			_, name, _ := strings.Cut(key, "/")
			if _, stays := staying[name]; !stays {
				wrong[name] = "it was deleted and is still there"
			}
		}
		if len(wrong) == 0 {
			return nil
		}
		return fmt.Errorf("%d pods are not as they should be", len(wrong))
	})
	var stuck []string
	for name, why := range wrong {
		if err == nil {
			break
		}
		s.t.Errorf("pod %s is stuck: %s: %s", name, why, state(s.pod(name)))
		s.explain(name)
		stuck = append(stuck, name)
	}
	for name := range staying {
		switch p := s.pod(name); {
		case wrong[name] != "" || ended(p) || gateEnded(p):
			continue
		case lostContainer(p):
			s.upstream.lostContainers++
			continue
		}
		if err := s.works(staying[name], staying); err != nil {
			s.t.Errorf("pod %s is Ready and does not work: %v", name, err)
			s.explain(name)
			stuck = append(stuck, name)
		}
	}
	return stuck
}

// trouble describes what is wrong with a pod that stays, or returns "". A pod that is never
// restarted may have failed, because the kubelet gives it up if a container cannot be
// started.
func (s *suite) trouble(l life) string {
	p := s.pod(l.name)
	switch {
	case p == nil:
		return "it is gone"
	case lab.IsReady(p), l.never && ended(p), gateEnded(p), lostContainer(p):
		return ""
	}
	return "it is not Ready"
}

// works makes the pod ping itself and another pod over each of its networks.
func (s *suite) works(l life, staying map[string]life) error {
	for i, network := range l.networks() {
		targets := []string{l.name}
		ifNames := []string{fmt.Sprintf("net%d", i+1)}
		for name, other := range staying {
			if at := slices.Index(other.networks(), network); at >= 0 && name != l.name && lab.IsReady(s.pod(name)) {
				targets, ifNames = append(targets, name), append(ifNames, fmt.Sprintf("net%d", at+1))
				break
			}
		}
		for j, target := range targets {
			address, err := s.address(target, ifNames[j])
			if err != nil {
				return err
			}
			if _, err := s.exec(l.name, "ping", "-c1", "-W5", address); err != nil {
				return fmt.Errorf("reaching %s, %s of pod %s: %w", address, ifNames[j], target, err)
			}
		}
	}
	return nil
}

// address returns the address of a pod's interface, as the kernel has it.
func (s *suite) address(pod, ifName string) (string, error) {
	out, err := s.exec(pod, "ip", "-o", "-4", "addr", "show", "dev", ifName)
	if err != nil {
		return "", err
	}
	fields := strings.Fields(out) // 2: net1 inet 10.80.0.5/22 …
	if len(fields) < 4 {
		return "", fmt.Errorf("%s of pod %s has no address", ifName, pod)
	}
	address, _, _ := strings.Cut(fields[3], "/")
	return address, nil
}

func (s *suite) exec(pod string, command ...string) (string, error) {
	ctx, cancel := context.WithTimeout(s.ctx, 30*time.Second)
	defer cancel()
	return s.Exec(ctx, s.ns, pod, command...)
}

// deleteAll deletes all pods and returns those that remain.
func (s *suite) deleteAll() []string {
	err := persist(s.ctx, "deleting all pods", func(ctx context.Context) error {
		return s.Kube.CoreV1().Pods(s.ns).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	})
	s.must(err)
	err = lab.Eventually(s.ctx, recovery, func(context.Context) error {
		if n := len(s.pods.ListKeys()); n > 0 {
			return fmt.Errorf("%d pods are still there", n)
		}
		return nil
	})
	if err == nil {
		err = persist(s.ctx, "deleting all claims", func(ctx context.Context) error {
			return s.Kube.ResourceV1().ResourceClaims(s.ns).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
		})
		s.must(err)
		return nil
	}
	var stuck []string
	for _, key := range s.pods.ListKeys() {
		_, name, _ := strings.Cut(key, "/")
		s.t.Errorf("pod %s is stuck: deleted in the end, and still there: %s", name, state(s.pod(name)))
		s.explain(name)
		stuck = append(stuck, name)
	}
	return stuck
}
