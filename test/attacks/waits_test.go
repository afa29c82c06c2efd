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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

const (
	// slowPodsVariable is the number of pods on a slow network.
	slowPodsVariable = "ATTACK_PODS"
	slowPodsDefault  = 60
	// plainPods is the number of pods without networks that are measured, one after another.
	plainPods = 7
	// waitGoal is the goal for a pod without networks, as a multiple of its usual time, and waitLimit what
	// fails the row: a machine that starts 60 sandboxes at once is slow by itself.
	waitGoal, waitLimit = 1.5, 3
)

// TestAttackSlowNetwork creates pods of each restart policy on a network whose plugin takes 20 seconds, and
// measures how long a pod without networks takes on the same node until it is Ready.
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
	a.Must(a.CreateNAD(a.Ctx, a.NS, "slow", chainedTo("br-slow", "slow")))
	a.Must(a.Published(a.Ctx, "slow/slow"))
	usual := a.untilReady(others, "usual")

	for _, policy := range []corev1.RestartPolicy{corev1.RestartPolicyAlways, corev1.RestartPolicyNever} {
		a.try(fmt.Sprintf("%d pods with restartPolicy %s", count, policy), func(a *attempt) {
			for i := range count {
				p := a.pod(fmt.Sprintf("evil-%d", i), "slow")
				p.Spec.RestartPolicy = policy
				p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: a.node.Name()}
				_, err := a.tenant.CoreV1().Pods(a.NS).Create(a.Ctx, p, metav1.CreateOptions{})
				a.Must(err)
			}
			a.Eventually(2*time.Minute, func(context.Context) error {
				if on := a.onNode(); on < count {
					return fmt.Errorf("%d of %d pods are on the node", on, count)
				}
				return nil
			})
			beside := a.untilReady(others, "beside")
			ratio := beside.Seconds() / usual.Seconds()
			a.Logf("a pod without networks: usually %s, beside %d pods with %s %s, ratio %.1f, goal %.1f", usual, count, policy, beside, ratio, waitGoal)
			if ratio > waitLimit {
				a.harmed("a pod without networks takes %s until it is Ready, usually %s", beside, usual)
			}
			for _, p := range a.pods(a.NS) {
				if anyBare(&p) != "" {
					a.harmed("pod %s has started without its network", p.Name)
				}
			}
			a.Kubectl("delete", "pods", "--all", "--grace-period=1", "--timeout=200s")
		})
	}
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

// untilReady creates pods without networks on the node, one after another, and returns the median of the
// time until they are Ready.
func (a *attempt) untilReady(namespace, prefix string) time.Duration {
	a.Helper()
	var took []time.Duration
	started := time.Now()
	for i := range plainPods {
		if i > 0 && time.Since(started) > time.Minute {
			break // the node is slow enough
		}
		p := plain(namespace, fmt.Sprintf("%s-%s-%d", prefix, a.NS, i))
		p.GenerateName, p.Name = p.Name+"-", ""
		p.Labels = map[string]string{api.OwnerLabel: api.OwnerNadra}
		p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: a.node.Name()}
		began := time.Now()
		p, err := a.CreatePod(a.Ctx, p)
		a.Must(err)
		_, err = a.Ready(a.Ctx, namespace, p.Name, 2*time.Minute)
		if err != nil {
			a.harmed("%v", err)
		}
		took = append(took, time.Since(began))
		a.Logf("%s after %s", p.Name, took[i].Round(10*time.Millisecond))
		a.Must(a.Kube.CoreV1().Pods(namespace).Delete(a.Ctx, p.Name, metav1.DeleteOptions{}))
	}
	return median(took)
}
