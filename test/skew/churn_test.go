//go:build e2e

package skew

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/test/lab"
)

const (
	// namespace is that of the pods that come and go.
	namespace = "skew"
	// lives is the number of pods that live at a time, each with a worker of its own.
	lives = 6
	// stuck is how long a pod may take to become Ready, and to end.
	stuck = 90 * time.Second
	// longestStay limits how long a pod that is Ready stays.
	longestStay = time.Second
)

// networks are the pods' networks.
const networks = `
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: blue}
spec:
  config: '{"cniVersion":"1.0.0","name":"skew-blue","type":"bridge","bridge":"br-skew","ipam":{"type":"host-local","subnet":"10.70.0.0/24"}}'
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: wan}
spec:
  config: '{"cniVersion":"0.3.1","name":"skew-wan","type":"macvlan","master":"lan0","mode":"bridge","ipam":{"type":"host-local","subnet":"10.71.0.0/24"}}'
`

// kinds are the ways in which pods ask for networks, as often as they are in the list.
var kinds = []string{annotated, annotated, annotated, byHand, unclaimed}

const (
	// annotated pods get a claim from the webhook, byHand ones have one from a template of the
	// user, and unclaimed ones name their node, so that the node attaches them by the annotation.
	annotated, byHand, unclaimed = "annotated", "by-hand", "unclaimed"
	claimTemplate                = "by-hand"
)

// churn makes pods come and go.
type churn struct {
	*lab.Lab
	node string

	mu   sync.Mutex
	all  []life
	next int
	// holders has the pod that has an address now.
	holders map[string]string
}

// during makes pods come and go while act runs, and until so many pods have lived. It returns
// their lives.
func (c *churn) during(ctx context.Context, pods int, act func(context.Context) error) ([]life, error) {
	c.mu.Lock()
	from := len(c.all)
	c.mu.Unlock()
	enough := func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.all)-from >= pods
	}
	acted := make(chan error, 1)
	go func() { acted <- act(ctx) }()
	var workers sync.WaitGroup
	ended := make(chan struct{})
	for range lives {
		workers.Go(func() {
			for !isClosed(ended) || !enough() {
				if ctx.Err() != nil {
					return
				}
				c.live(ctx)
			}
		})
	}
	err := <-acted
	close(ended)
	workers.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.all[from:]), err
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// live creates a pod, checks it when it is Ready, deletes it some time later, and waits for its end.
func (c *churn) live(ctx context.Context) {
	c.mu.Lock()
	kind := kinds[rand.IntN(len(kinds))]
	name := fmt.Sprintf("%s-%d", kind, c.next)
	c.next++
	c.mu.Unlock()
	l := life{name: name, began: time.Now()}
	add := func(format string, args ...any) { l.wrong = append(l.wrong, fmt.Sprintf(format, args...)) }
	pod, err := c.CreatePod(ctx, c.pod(kind, name))
	if err != nil {
		add("it was not created: %v", err)
	} else if pod, err = c.until(ctx, pod, l.see); err != nil {
		add("it is not Ready after %s: %v; events: %v", stuck, err, c.Events(ctx, namespace, name))
	} else {
		l.waited = time.Since(l.began)
		events, err := c.Kube.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + name})
		if err != nil {
			add("its events are unknown: %v", err)
		} else {
			l.idle = idle(events.Items)
		}
		addresses := c.check(pod, add)
		select {
		case <-time.After(rand.N(longestStay)):
		case <-ctx.Done():
		}
		c.release(addresses)
	}
	c.end(ctx, name, add)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, l)
}

// end deletes a pod and waits for its end. Its container must not have been restarted.
func (c *churn) end(ctx context.Context, name string, add func(string, ...any)) {
	pods := c.Kube.CoreV1().Pods(namespace)
	pod, err := pods.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return
	}
	if err != nil {
		add("reading it: %v", err)
		return
	}
	for _, s := range pod.Status.ContainerStatuses {
		if s.RestartCount > 0 {
			add("its container was restarted %d times: %+v", s.RestartCount, s.LastTerminationState.Terminated)
		}
	}
	if err := pods.Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](1)}); err != nil && !apierrors.IsNotFound(err) {
		add("deleting it: %v", err)
	}
	if _, err := c.until(ctx, pod, func(p *corev1.Pod) bool { return p == nil }); err != nil {
		add("it is still there %s after its deletion: %v", stuck, err)
	}
}

// until watches a pod until a condition holds; the pod is nil once it is gone.
func (c *churn) until(ctx context.Context, pod *corev1.Pod, holds func(*corev1.Pod) bool) (*corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, stuck)
	defer cancel()
	selector := fields.OneTermEqualSelector("metadata.name", pod.Name).String()
	for ctx.Err() == nil {
		list, err := c.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{FieldSelector: selector})
		if err != nil {
			return nil, err
		}
		var found *corev1.Pod
		if len(list.Items) > 0 {
			found = &list.Items[0]
		}
		if holds(found) {
			return found, nil
		}
		w, err := c.Kube.CoreV1().Pods(namespace).Watch(ctx, metav1.ListOptions{FieldSelector: selector, ResourceVersion: list.ResourceVersion})
		if err != nil {
			return nil, err
		}
		for event := range w.ResultChan() {
			p, _ := event.Object.(*corev1.Pod)
			if event.Type == "DELETED" {
				p = nil
			}
			if (p != nil || event.Type == "DELETED") && holds(p) {
				w.Stop()
				return p, nil
			}
		}
	}
	return nil, ctx.Err()
}

// pod returns a pod. Its own process ends with an error if it starts without its networks.
func (c *churn) pod(kind, name string) *corev1.Pod {
	interfaces := []string{"net1", "net2"}
	p := lab.Pod(namespace, name, claimTemplate)
	p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](1)
	p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	if kind != byHand {
		p.Annotations = map[string]string{nadv1.NetworkAttachmentAnnot: "blue,wan"}
		p.Spec.ResourceClaims, p.Spec.Containers[0].Resources.Claims = nil, nil
	}
	if kind == unclaimed {
		p.Spec.NodeName = c.node
	}
	script := ""
	for _, i := range interfaces {
		script += "test -e /sys/class/net/" + i + " || exit 7; "
	}
	p.Spec.Containers[0].Command = []string{"/bin/sh", "-c", script + "trap 'exit 0' TERM; sleep infinity & wait"}
	return p
}

// check checks what a pod that is Ready has, and returns its addresses, which no other pod may have.
func (c *churn) check(pod *corev1.Pod, add func(string, ...any)) (addresses []string) {
	statuses, err := lab.ReadStatus(pod)
	if err != nil {
		add("%v", err)
	}
	for _, network := range []string{"blue", "wan"} {
		i := slices.IndexFunc(statuses, func(s nadv1.NetworkStatus) bool { return s.Name == namespace+"/"+network })
		if i < 0 || len(statuses[i].IPs) == 0 {
			add("its network-status lacks %s: %s", network, pod.Annotations[nadv1.NetworkStatusAnnot])
			continue
		}
		addresses = append(addresses, statuses[i].IPs...)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range addresses {
		if other := c.holders[a]; other != "" {
			add("pod %s has its address %s, too", other, a)
		}
		c.holders[a] = pod.Name
	}
	return addresses
}

// release forgets the addresses of a pod that is to end.
func (c *churn) release(addresses []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range addresses {
		delete(c.holders, a)
	}
}
