package canary

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/kubectl/pkg/util/podutils"

	"github.com/nadra-dev/nadra/internal/desk/inspect"
	"github.com/nadra-dev/nadra/internal/desk/nodepod"
	"github.com/nadra-dev/nadra/internal/kube"
	"github.com/nadra-dev/nadra/internal/probe"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

const (
	// statusTimeout is the time that network-status may be late after the pod is ready.
	statusTimeout = 10 * time.Second
	// execTimeout limits a command in a canary, and the reading of events.
	execTimeout = 30 * time.Second
)

// program is the command in the image of nadra-node.
var program = []string{"/nadra-node", probe.CanaryCommand}

// The number of requests to each address, and the time to wait for each answer.
const (
	requests   = 5
	answerWait = time.Second
)

// start creates a canary, and waits until it is ready and network-status has its network.
func (r Runner) start(ctx context.Context, plan *Plan, n *NetworkPlan, c *Result) {
	began := time.Now()
	if _, err := r.Kube.CoreV1().Pods(c.Namespace).Create(ctx, plan.Object(n, c.Pod), metav1.CreateOptions{}); err != nil {
		c.Err = fmt.Errorf("it could not be created: %w", err)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, plan.Timeout)
	defer cancel()
	state := "it was not read"
	err := wait.PollUntilContextCancel(ctx, r.Poll, true, func(ctx context.Context) (bool, error) {
		pod, err := r.Kube.CoreV1().Pods(c.Namespace).Get(ctx, c.Name, metav1.GetOptions{})
		switch {
		case ctx.Err() != nil:
			return false, ctx.Err()
		case kube.NoTurnLeft(err):
			return false, context.DeadlineExceeded
		case err != nil:
			return false, fmt.Errorf("it cannot be read: %w", err)
		case attachment.IsOver(pod):
			return false, fmt.Errorf("it ended: %s%s", ended(pod), r.lastEvent(ctx, c.Pod))
		case podutils.IsPodReady(pod):
			c.Ready = cmp.Or(c.Ready, time.Since(began))
			c.By = attachment.AttacherOf(pod, len(pod.Spec.ResourceClaims) > 0)
			if c.Status = statusOf(pod, n.Network); c.Status != nil || time.Since(began) > c.Ready+statusTimeout {
				return true, nil
			}
		}
		state = podState(pod)
		return false, nil
	})
	if c.Err = err; errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		c.Err = fmt.Errorf("it is not ready after %s: %s%s", plan.Timeout, state, r.lastEvent(ctx, c.Pod))
	}
}

// statusOf returns a network's entry in network-status, or nil.
func statusOf(pod *corev1.Pod, network string) *nadv1.NetworkStatus {
	all, _ := attachment.StatusesOf(pod)
	i := slices.IndexFunc(all, func(s nadv1.NetworkStatus) bool { return s.Name == network && !s.Default })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// podState describes the state of a pod that is not ready.
func podState(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return cmp.Or(c.Message, c.Reason)
		}
	}
	return nodepod.State(pod)
}

// ended returns why a pod ended.
func ended(pod *corev1.Pod) string {
	for _, s := range pod.Status.ContainerStatuses {
		if t := s.State.Terminated; t != nil {
			return strings.TrimSpace(fmt.Sprintf("exit code %d %s %s", t.ExitCode, t.Reason, t.Message))
		}
	}
	return strings.TrimSpace(pod.Status.Reason + " " + pod.Status.Message)
}

// lastEvent returns the last warning about a pod, as the end of a message. It is empty if
// the user is not allowed to read events.
func (r Runner) lastEvent(ctx context.Context, c Pod) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), execTimeout)
	defer cancel()
	about := fields.Set{"involvedObject.kind": "Pod", "involvedObject.name": c.Name, "type": corev1.EventTypeWarning}
	list, err := r.Kube.CoreV1().Events(c.Namespace).List(ctx, metav1.ListOptions{FieldSelector: about.String()})
	if err != nil || len(list.Items) == 0 {
		return ""
	}
	last := slices.MaxFunc(list.Items, func(a, b corev1.Event) int { return inspect.Seen(&a).Compare(inspect.Seen(&b)) })
	return fmt.Sprintf("; %s: %s", last.Reason, strings.Join(strings.Fields(last.Message), " "))
}

// inspect lists the interfaces of a canary.
func (r Runner) inspect(ctx context.Context, c *Result) {
	ctx, cancel := context.WithTimeout(ctx, execTimeout)
	defer cancel()
	text, err := r.Exec(ctx, c.Pod, append(slices.Clone(program), "inspect")...)
	if err == nil {
		c.Inspection, err = probe.Decode[probe.Inspection](text, probe.InspectionKind)
	}
	if err != nil {
		c.Err = fmt.Errorf("listing its interfaces: %w", err)
	}
}

// ping runs a canary's pings of others.
func (r Runner) ping(ctx context.Context, c *Result, targets []string) {
	if len(targets) == 0 {
		return
	}
	if c.Status == nil {
		c.PingErr = errors.New("it has no network to ping through")
		return
	}
	const atOnce = 32 // as nadra-node canary ping does
	longest := time.Duration(len(targets)/atOnce+1) * requests * answerWait
	ctx, cancel := context.WithTimeout(ctx, execTimeout+longest)
	defer cancel()
	command := append(slices.Clone(program), "ping", "--interface="+c.Status.Interface,
		fmt.Sprintf("--count=%d", requests), "--wait="+answerWait.String())
	text, err := r.Exec(ctx, c.Pod, append(command, targets...)...)
	if err == nil {
		c.Pings, err = probe.Decode[probe.Pings](text, probe.PingsKind)
	}
	if err != nil {
		c.PingErr = fmt.Errorf("running its pings: %w", err)
	}
}
