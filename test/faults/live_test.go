//go:build e2e

package faults

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nadra-dev/nadra/test/lab"
)

const (
	// together is how many pods may exist at a time, besides those that stay.
	together = 24
	// podWait is how long a life waits for its pod to be Ready, or gone, while faults go
	// on. Late pods are checked in the end.
	podWait = 30 * time.Second
	// naming is how long a pod's name may stay taken by the one before it, or
	// the API server away.
	naming = 2 * recovery
	// lifeLabel tells the incarnations of a pod apart.
	lifeLabel = "faults.nadra.dev/incarnation"
)

// lives creates and deletes pods, many at a time.
type lives struct {
	*suite
	slots   chan struct{}
	running sync.WaitGroup

	mu      sync.Mutex
	created int
	staying map[string]life
}

func newLives(s *suite) *lives {
	return &lives{suite: s, slots: make(chan struct{}, together), staying: map[string]life{}}
}

// begin starts a burst: it waits until there is room for all of it.
func (v *lives) begin(burst []life) {
	for range burst {
		select {
		case v.slots <- struct{}{}:
		case <-v.ctx.Done():
			return
		}
	}
	for _, l := range burst {
		v.running.Go(func() {
			defer func() { <-v.slots }()
			if err := v.live(l); err != nil && v.ctx.Err() == nil {
				v.t.Errorf("the life of pod %s: %v", l.name, err)
			}
		})
	}
}

func (v *lives) live(l life) error {
	for _, claim := range l.namedClaims(v.ns) {
		err := persist(v.ctx, "creating claim "+claim.Name, func(ctx context.Context) error {
			_, err := v.Kube.ResourceV1().ResourceClaims(v.ns).Create(ctx, claim, metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) {
				err = nil // by an earlier try, whose answer was lost
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	uid, err := v.create(l)
	if err != nil {
		return err
	}
	if l.pods() == 2 {
		if err := v.spend(l, uid); err != nil {
			return err
		}
		if uid, err = v.create(l); err != nil {
			return err
		}
	}
	if l.stays {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.staying[l.name] = l
		return nil
	}
	if err := v.spend(l, uid); err != nil {
		return err
	}
	for _, claim := range l.namedClaims(v.ns) {
		err := persist(v.ctx, "deleting claim "+claim.Name, func(ctx context.Context) error {
			return client.IgnoreNotFound(v.Kube.ResourceV1().ResourceClaims(v.ns).Delete(ctx, claim.Name, metav1.DeleteOptions{}))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// spend keeps a pod for its time and deletes it.
func (v *lives) spend(l life, uid types.UID) error {
	if !l.early {
		v.await(func() bool { return decided(v.pod(l.name)) })
	}
	if l.debugged {
		if err := v.debug(l, uid); err != nil {
			return err
		}
	}
	pause(v.ctx, l.linger)
	return v.end(l, uid)
}

// debugContainer is the name of ephemeral containers.
const debugContainer = "debug"

// debug adds an ephemeral container to a pod, unless the pod has gone meanwhile.
func (v *lives) debug(l life, uid types.UID) error {
	c := l.container(debugContainer, stay, nil)
	ctx, cancel := context.WithTimeout(v.ctx, naming)
	defer cancel()
	return persist(ctx, "adding an ephemeral container", func(ctx context.Context) error {
		p, err := v.Kube.CoreV1().Pods(v.ns).Get(ctx, l.name, metav1.GetOptions{})
		if err != nil || p.UID != uid || len(p.Spec.EphemeralContainers) > 0 {
			return client.IgnoreNotFound(err)
		}
		p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
			Name: c.Name, Image: c.Image, ImagePullPolicy: c.ImagePullPolicy, Command: c.Command, VolumeMounts: c.VolumeMounts,
		}}}
		_, err = v.Kube.CoreV1().Pods(v.ns).UpdateEphemeralContainers(ctx, l.name, p, metav1.UpdateOptions{})
		return client.IgnoreNotFound(err)
	})
}

// end deletes a pod. It does not wait for one that is recreated under its name, because the
// overlap is the test.
func (v *lives) end(l life, uid types.UID) error {
	grace := ptr.To(l.grace)
	if l.end == forced || l.end == replaced {
		grace = ptr.To[int64](0)
	}
	if err := v.remove(l.name, uid, grace); err != nil {
		return err
	}
	if l.end == graceful {
		v.await(func() bool { p := v.pod(l.name); return p == nil || p.UID != uid })
	}
	return nil
}

// create creates a pod, however long the API server is away or a pod of the
// same name is still there.
func (v *lives) create(l life) (types.UID, error) {
	v.mu.Lock()
	v.created++
	incarnation := fmt.Sprint(v.created)
	v.mu.Unlock()
	pod := l.pod(v.ns)
	pod.Labels[lifeLabel] = incarnation
	var uid types.UID
	ctx, cancel := context.WithTimeout(v.ctx, naming)
	defer cancel()
	err := persist(ctx, "creating", func(ctx context.Context) error {
		made, err := v.CreatePod(ctx, pod)
		if apierrors.IsAlreadyExists(err) {
			// Perhaps by an earlier try, whose answer was lost.
			there, getErr := v.Kube.CoreV1().Pods(v.ns).Get(ctx, l.name, metav1.GetOptions{})
			if getErr == nil && there.Labels[lifeLabel] == incarnation {
				made, err = there, nil
			}
		}
		if err == nil {
			uid = made.UID
		}
		return err
	})
	if err != nil {
		return "", fmt.Errorf("%w; the pod of that name: %s", err, state(v.pod(l.name)))
	}
	v.await(func() bool { p := v.pod(l.name); return p != nil && p.UID == uid })
	return uid, nil
}

// remove deletes exactly this incarnation of a pod.
func (s *suite) remove(name string, uid types.UID, grace *int64) error {
	return persist(s.ctx, "deleting", func(ctx context.Context) error {
		err := s.Kube.CoreV1().Pods(s.ns).Delete(ctx, name, metav1.DeleteOptions{
			GracePeriodSeconds: grace, Preconditions: &metav1.Preconditions{UID: &uid},
		})
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return nil
		}
		return err
	})
}

// persist repeats a request until it succeeds, or ctx ends.
func persist(ctx context.Context, what string, request func(context.Context) error) error {
	for {
		once, cancel := context.WithTimeout(ctx, 10*time.Second)
		err := request(once)
		cancel()
		if err == nil {
			return nil
		}
		if !pause(ctx, 250*time.Millisecond) {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
}

// await waits until a condition holds, at most for podWait.
func (s *suite) await(so func() bool) {
	for deadline := time.Now().Add(podWait); !so() && time.Now().Before(deadline) && s.ctx.Err() == nil; {
		pause(s.ctx, 50*time.Millisecond)
	}
}

// decided reports whether a pod is Ready, or can never be.
func decided(p *corev1.Pod) bool {
	return p == nil || lab.IsReady(p) || ended(p) || gateEnded(p) || lostContainer(p)
}

func ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded
}

// gateEnded reports whether the gate has refused a container of a pod that is never restarted, while another
// one keeps the pod from ending. The gate does so when the container was created while the driver was away.
func gateEnded(p *corev1.Pod) bool {
	return p.Spec.RestartPolicy == corev1.RestartPolicyNever && slices.ContainsFunc(p.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		end := c.State.Terminated
		return end != nil && end.Reason == "StartError" && strings.Contains(end.Message, "error running createRuntime hook #0: exit status 1, stdout: , stderr: nadra: ")
	})
}

// state describes in a line why a pod is not Ready.
func state(p *corev1.Pod) string {
	if p == nil {
		return "gone"
	}
	out := []string{string(p.Status.Phase)}
	if p.DeletionTimestamp != nil {
		out = append(out, "being deleted since "+p.DeletionTimestamp.Format(time.TimeOnly))
	}
	for _, c := range containersOf(p) {
		switch {
		case c.State.Waiting != nil:
			out = append(out, fmt.Sprintf("%s waits: %s: %s", c.Name, c.State.Waiting.Reason, c.State.Waiting.Message))
		case c.State.Terminated != nil:
			out = append(out, fmt.Sprintf("%s ended: %s %d: %s", c.Name, c.State.Terminated.Reason, c.State.Terminated.ExitCode, c.State.Terminated.Message))
		case !c.Ready:
			out = append(out, c.Name+" is not ready")
		}
	}
	return strings.Join(out, "; ")
}

func containersOf(p *corev1.Pod) []corev1.ContainerStatus {
	return slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses)
}
