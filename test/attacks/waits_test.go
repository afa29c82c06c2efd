//go:build e2e

package attacks

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nadra-dev/nadra/test/lab"
)

const (
	// slowPodsVariable is the number of pods on a slow network.
	slowPodsVariable = "ATTACK_PODS"
	slowPodsDefault  = 40
	// plainPods is the number of pods without networks that are measured.
	plainPods = 5
	// waitGoal is how much longer they may take than beside as many pods on a fast network. waitNoise is what
	// a machine that starts so many sandboxes at once adds by itself.
	waitGoal, waitNoise = 1.5, 15 * time.Second
)

// TestAttackSlowNetwork creates pods of each restart policy on a network whose plugin takes 20 seconds, and
// measures how long pods without networks take on the same node until they are Ready. They are compared with
// such pods beside as many pods on a fast network.
func TestAttackSlowNetwork(t *testing.T) {
	count := slowPodsDefault
	if text := os.Getenv(slowPodsVariable); text != "" {
		var err error
		if count, err = strconv.Atoi(text); err != nil {
			t.Fatalf("%s: %v", slowPodsVariable, err)
		}
	}
	a := setup(t, "slow")
	const others = "slow-others"
	a.Must(a.CreateNamespace(a.Ctx, others))
	t.Cleanup(func() { a.clear(others) })
	a.Must(a.CreateNAD(a.Ctx, a.NS, "slow", lateBridge("br-slow", "slow")))
	a.Must(a.Published(a.Ctx, "slow/slow"))
	usual := a.beside(others, count, "n", corev1.RestartPolicyNever)
	t.Logf("a pod without networks beside %d pods on a fast network: %s", count, usual)

	for _, policy := range []corev1.RestartPolicy{corev1.RestartPolicyAlways, corev1.RestartPolicyNever} {
		a.try(fmt.Sprintf("%d pods with restartPolicy %s", count, policy), func(a *attempt) {
			took := a.beside(others, count, "slow", policy)
			a.Logf("a pod without networks beside %d pods with %s: %s, on a fast network %s, ratio %.1f, goal %.1f",
				count, policy, took, usual, took.Seconds()/usual.Seconds(), waitGoal)
			if took.Seconds() > waitGoal*usual.Seconds()+waitNoise.Seconds() {
				a.harmed("a pod without networks takes %s until it is Ready, beside pods on a fast network %s", took, usual)
			}
		})
	}
}

// beside creates pods on a network, and when half of them are on the node pods without networks. It returns
// the median of the time until these are Ready.
func (a *attempt) beside(namespace string, count int, network string, policy corev1.RestartPolicy) time.Duration {
	a.Helper()
	for i := range count {
		p := a.pod(fmt.Sprintf("evil-%d", i), network)
		p.Spec.RestartPolicy = policy
		p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: a.node.Name()}
		a.creates(p)
	}
	a.Eventually(2*time.Minute, func(context.Context) error {
		if on := a.onNode(); on < count/2 {
			return fmt.Errorf("%d of %d pods are on the node", on, count)
		}
		return nil
	})
	began := time.Now()
	took := make([]time.Duration, plainPods)
	for i := range took {
		p := plain(namespace, fmt.Sprintf("plain-%d", i))
		p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: a.node.Name()}
		_, err := a.CreatePod(a.Ctx, p)
		a.Must(err)
	}
	a.Eventually(4*time.Minute, func(context.Context) error {
		waiting := 0
		for i, p := range a.pods(namespace) {
			switch {
			case !lab.IsReady(&p):
				waiting++
			case took[i] == 0:
				took[i] = time.Since(began)
			}
		}
		if waiting > 0 {
			return fmt.Errorf("%d of %d pods without networks wait", waiting, plainPods)
		}
		return nil
	})
	for _, p := range a.pods(a.NS) {
		if anyBare(&p) != "" {
			a.harmed("pod %s has started without its network", p.Name)
		}
	}
	for _, namespace := range []string{namespace, a.NS} {
		_, err := a.Cluster.Kubectl(a.Ctx, "-n", namespace, "delete", "pods", "--all", "--grace-period=1", "--timeout=200s")
		a.Must(err)
	}
	return median(took)
}

// onNode counts the attacker's pods that the kubelet knows.
func (a *attempt) onNode() (count int) {
	for _, p := range a.pods(a.NS) {
		if p.Status.StartTime != nil {
			count++
		}
	}
	return count
}
