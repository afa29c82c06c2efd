package live

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/nadra-dev/nadra/internal/doctor"
	"github.com/nadra-dev/nadra/internal/probe"
)

// Probe has a short-lived pod look at each node.
type Probe struct {
	Cluster
	// Namespace is where the pods are made; it must let them see the host.
	Namespace string
	// Image is that of nadra-node; empty takes that of the driver that runs.
	Image string
	// BinDirs are the directories of CNI plugins; empty takes the driver's.
	BinDirs string
	// Timeout is how long one pod may take.
	Timeout time.Duration
	// Poll is how often a pod is asked for; the zero value is for tests.
	Poll time.Duration
}

// deleteWithin is how long the deletion of a pod may take, also after the user
// has interrupted all else.
const deleteWithin = 10 * time.Second

// remedies of what keeps a node from being probed.
const (
	remedyNamespace = "--probe-namespace names one that exists and in which pods may be privileged, and the right to create, get and delete pods there and to get pods/log"
	remedyImage     = "--image names one with nadra-node"
)

// Run probes the Linux nodes among those that were read, and adds what they say.
// Its pods are gone when it returns.
func (p Probe) Run(ctx context.Context, caps *doctor.Capabilities) error {
	if p.Image == "" && caps.Nadra != nil {
		p.Image = caps.Nadra.Image
	}
	// What kept nodes from being probed before is no longer so.
	caps.Gaps = slices.DeleteFunc(caps.Gaps, func(g doctor.Gap) bool { return g.Part == doctor.PartProbe })
	if p.Image == "" {
		caps.Gaps = append(caps.Gaps, doctor.Gap{Part: doctor.PartProbe, Reason: "there is no image to run, since nadra is not installed", Remedy: remedyImage})
		return nil
	}
	var mu sync.Mutex // of the gaps
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i := range caps.Nodes {
		node := &caps.Nodes[i]
		if node.OS != "" && node.OS != "linux" {
			continue
		}
		group.Go(func() error {
			report, err := p.node(ctx, node.Name, caps.Nadra)
			if err == nil {
				node.Probe = report
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			caps.Gaps = append(caps.Gaps, doctor.Gap{Part: doctor.PartProbe, Node: node.Name, Reason: "probing: " + firstLine(err), Remedy: remedyNamespace})
			return nil
		})
	}
	_ = group.Wait() // none returns one: they are of a node each
	slices.SortStableFunc(caps.Gaps, func(a, b doctor.Gap) int { return strings.Compare(a.Part+a.Node, b.Part+b.Node) })
	if ctx.Err() != nil {
		return fmt.Errorf("probing the nodes: %w", ctx.Err())
	}
	return nil
}

// node makes a pod on a node, waits for its end, reads what it has said, and
// deletes it whatever happens.
func (p Probe) node(ctx context.Context, node string, nadra *doctor.Nadra) (report *probe.Report, err error) {
	pods := p.Kube.CoreV1().Pods(p.Namespace)
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	pod := p.pod(node, nadra)
	if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		if ctx.Err() != nil { // it may have been made all the same
			err = errors.Join(err, p.remove(ctx, pod.Name))
		}
		return nil, fmt.Errorf("making a pod in namespace %s: %w", p.Namespace, err)
	}
	defer func() {
		if gone := p.remove(ctx, pod.Name); gone != nil {
			err = errors.Join(err, gone)
		}
	}()
	if err := p.wait(ctx, pod.Name); err != nil {
		return nil, err
	}
	log, err := p.Raw(ctx, "/api/v1/namespaces/"+url.PathEscape(p.Namespace)+"/pods/"+pod.Name+"/log")
	if err != nil {
		return nil, fmt.Errorf("reading the log of pod %s: %w", pod.Name, err)
	}
	return probe.Decode(log)
}

// remove deletes a pod at once, also when ctx has ended.
func (p Probe) remove(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deleteWithin)
	defer cancel()
	now := int64(0)
	err := p.Kube.CoreV1().Pods(p.Namespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting pod %s/%s, which is left behind: %w", p.Namespace, name, err)
	}
	return nil
}

// wait waits until a pod has ended. When it does not, the error says what it
// waits for.
func (p Probe) wait(ctx context.Context, name string) error {
	last := "it was not seen"
	for {
		pod, err := p.Kube.CoreV1().Pods(p.Namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("waiting for pod %s: %w: %s", name, ctx.Err(), last)
		case err != nil:
			return fmt.Errorf("waiting for pod %s: %w", name, err)
		case pod.Status.Phase == corev1.PodSucceeded:
			return nil
		case pod.Status.Phase == corev1.PodFailed && len(pod.Status.ContainerStatuses) == 0:
			return fmt.Errorf("waiting for pod %s: the node refuses it: %s %s", name, pod.Status.Reason, pod.Status.Message)
		case pod.Status.Phase == corev1.PodFailed:
			return nil // its log says why
		}
		last = waitsFor(pod)
		select {
		case <-ctx.Done():
		case <-time.After(p.Poll):
		}
	}
}

// waitsFor says in which state a pod is.
func waitsFor(pod *corev1.Pod) string {
	for _, s := range pod.Status.ContainerStatuses {
		if w := s.State.Waiting; w != nil {
			return strings.TrimSpace(w.Reason + " " + w.Message)
		}
	}
	if pod.Status.Phase == "" || pod.Status.Phase == corev1.PodPending {
		return "the kubelet has not begun with it"
	}
	return "it is " + string(pod.Status.Phase)
}

// podName has a random part: several people may look at the same time.
func podName() string { return "nadra-probe-" + rand.String(8) }
