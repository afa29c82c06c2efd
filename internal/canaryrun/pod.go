package canaryrun

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/nadra-dev/nadra/internal/canary"
	"github.com/nadra-dev/nadra/internal/nodepod"
)

const (
	// reportedWithin is how long network-status may come after the pod is ready:
	// nadra writes it beside, Multus before.
	reportedWithin = 10 * time.Second
	// askedWithin is how long a canary may take to say something.
	askedWithin = 30 * time.Second
)

// program is the tool in the image of nadra-node.
var program = []string{"/nadra-node", canary.Command}

// Each address gets so many requests, which wait so long for their answers.
const (
	requests   = 5
	answerWait = time.Second
)

// start makes a canary, and waits until it is ready and its network reported.
func (r Runner) start(ctx context.Context, plan *canary.Plan, n *canary.NetworkPlan, c *canary.Result) {
	began := time.Now()
	if _, err := r.Kube.CoreV1().Pods(c.Namespace).Create(ctx, plan.Object(n, c.Pod), metav1.CreateOptions{}); err != nil {
		c.Err = fmt.Errorf("it could not be made: %w", err)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, plan.Timeout)
	defer cancel()
	last := "it was not seen"
	for {
		pod, err := r.Kube.CoreV1().Pods(c.Namespace).Get(ctx, c.Name, metav1.GetOptions{})
		switch {
		case ctx.Err() != nil:
			c.Err = fmt.Errorf("it is not ready after %s: %s%s", plan.Timeout, last, r.lastEvent(ctx, c.Pod))
			return
		case err != nil:
			c.Err = fmt.Errorf("it cannot be read: %w", err)
			return
		case pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded:
			c.Err = fmt.Errorf("it has ended: %s%s", ended(pod), r.lastEvent(ctx, c.Pod))
			return
		case isReady(pod):
			c.Ready = cmp.Or(c.Ready, time.Since(began))
			c.Claimed = len(pod.Spec.ResourceClaims) > 0
			if c.Status = statusOf(pod, n.Network); c.Status != nil || time.Since(began) > c.Ready+reportedWithin {
				return
			}
		}
		last = waitsFor(pod)
		select {
		case <-ctx.Done():
		case <-time.After(r.Poll):
		}
	}
}

// statusOf is a network's entry of network-status; nil where there is none.
func statusOf(pod *corev1.Pod, network string) *nadv1.NetworkStatus {
	var all []nadv1.NetworkStatus
	if json.Unmarshal([]byte(pod.Annotations[nadv1.NetworkStatusAnnot]), &all) != nil {
		return nil
	}
	i := slices.IndexFunc(all, func(s nadv1.NetworkStatus) bool { return s.Name == network && !s.Default })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// waitsFor says in which state a pod is.
func waitsFor(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return cmp.Or(c.Message, c.Reason)
		}
	}
	return nodepod.WaitsFor(pod)
}

// ended says why a pod has.
func ended(pod *corev1.Pod) string {
	for _, s := range pod.Status.ContainerStatuses {
		if t := s.State.Terminated; t != nil {
			return strings.TrimSpace(fmt.Sprintf("exit code %d %s %s", t.ExitCode, t.Reason, t.Message))
		}
	}
	return strings.TrimSpace(pod.Status.Reason + " " + pod.Status.Message)
}

// lastEvent is what was last warned of about a pod, for people. The user need
// not have the right to read it.
func (r Runner) lastEvent(ctx context.Context, c canary.Pod) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askedWithin)
	defer cancel()
	about := fields.Set{"involvedObject.kind": "Pod", "involvedObject.name": c.Name}
	list, err := r.Kube.CoreV1().Events(c.Namespace).List(ctx, metav1.ListOptions{FieldSelector: about.String()})
	if err != nil {
		return ""
	}
	var last *corev1.Event
	for i := range list.Items {
		e := &list.Items[i]
		if e.Type == corev1.EventTypeWarning && e.InvolvedObject.Name == c.Name && (last == nil || !e.LastTimestamp.Before(&last.LastTimestamp)) {
			last = e
		}
	}
	if last == nil {
		return ""
	}
	return fmt.Sprintf("; %s: %s", last.Reason, strings.Join(strings.Fields(last.Message), " "))
}

// look asks a canary for its interfaces.
func (r Runner) look(ctx context.Context, c *canary.Result) {
	ctx, cancel := context.WithTimeout(ctx, askedWithin)
	defer cancel()
	text, err := r.Exec(ctx, c.Pod, append(slices.Clone(program), "look")...)
	if err == nil {
		c.Look, err = canary.DecodeLook(text)
	}
	if err != nil {
		c.Err = fmt.Errorf("asking it for its interfaces: %w", err)
	}
}

// ping has a canary ping others.
func (r Runner) ping(ctx context.Context, c *canary.Result, targets []string) {
	if len(targets) == 0 {
		return
	}
	if c.Status == nil {
		c.PingErr = errors.New("it has no network to ping by")
		return
	}
	// The tool pings some at a time.
	const together = 32
	longest := time.Duration(len(targets)/together+1) * requests * answerWait
	ctx, cancel := context.WithTimeout(ctx, askedWithin+longest)
	defer cancel()
	command := append(slices.Clone(program), "ping", "--interface="+c.Status.Interface,
		fmt.Sprintf("--count=%d", requests), "--wait="+answerWait.String())
	text, err := r.Exec(ctx, c.Pod, append(command, targets...)...)
	if err == nil {
		c.Pings, err = canary.DecodePings(text)
	}
	if err != nil {
		c.PingErr = fmt.Errorf("having it ping: %w", err)
	}
}
