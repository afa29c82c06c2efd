//go:build e2e

package bench

import (
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/translate"
	"github.com/nadra-dev/nadra/test/lab"
)

// schedulingTime limits the wait for pods to be bound: the rate of a slower scheduler is
// known by then.
const schedulingTime = time.Minute

// schedulingFigures has the figures of pods that are created at once and bound to nodes.
type schedulingFigures struct {
	// Bound of Pods were bound within schedulingTime.
	Pods, Bound int
	// Seconds is the time from the first create to the last binding.
	Seconds float64
}

// Rate returns the number of pods that are bound per second.
func (f schedulingFigures) Rate() float64 { return float64(f.Bound) / f.Seconds }

// scaleTemplate asks for one device of the changed NAD's class.
const scaleTemplate = "one"

// claims creates the class of the network that pods request, as the controller does, and
// the template of their claims.
func (s *scale) claims(ctx context.Context) error {
	class := translate.DeviceClass(changedNAD, "")
	if _, err := s.Kube.ResourceV1().DeviceClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating class %s: %w", class.Name, err)
	}
	return s.CreateTemplate(ctx, &resourceapi.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: scaleNamespace, Name: scaleTemplate},
		Spec: resourceapi.ResourceClaimTemplateSpec{Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{
			Requests: []resourceapi.DeviceRequest{{
				Name: "net1", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: attachment.DeviceClassName(changedNAD)},
			}},
		}}},
	})
}

// claimPod returns a pod with a claim, and plainPod one without.
func claimPod(name string) *corev1.Pod { return lab.Pod(scaleNamespace, name, scaleTemplate) }

func plainPod(name string) *corev1.Pod {
	p := claimPod(name)
	p.Spec.ResourceClaims, p.Spec.Containers[0].Resources.Claims = nil, nil
	return p
}

// schedule creates pods, waits until they are bound, and deletes them. A first pod, which
// does not count, waits until the scheduler knows the nodes.
func (s *scale) schedule(b *testing.B, kind string, pod func(string) *corev1.Pod) schedulingFigures {
	w := watchPods(b, s.fleet.kube, scaleNamespace)
	defer w.Stop()
	events := buffered(w.ResultChan())
	if first := s.bind(b, events, pod(kind+"-first")); first.Bound == 0 {
		b.Fatalf("the first pod (%s) was not bound in %s: %q", kind, schedulingTime, s.Events(b.Context(), scaleNamespace, kind+"-first"))
	}
	var pods []*corev1.Pod
	for i := range scalePods {
		pods = append(pods, pod(fmt.Sprintf("%s-%04d", kind, i)))
	}
	var f schedulingFigures
	s.profiled(b, fmt.Sprintf("%d-nodes-%s", s.fleet.nodes, kind), func() { f = s.bind(b, events, pods...) })
	s.clear(b)
	return f
}

// bind creates pods and waits until all are bound, or schedulingTime has passed.
func (s *scale) bind(b *testing.B, events <-chan watch.Event, pods ...*corev1.Pod) schedulingFigures {
	f := schedulingFigures{Pods: len(pods)}
	start := time.Now()
	over := time.After(schedulingTime)
	waiting := map[string]bool{}
	var creating errgroup.Group
	creating.SetLimit(20)
	for _, p := range pods {
		waiting[p.Name] = true
		creating.Go(func() error {
			_, err := s.fleet.kube.CoreV1().Pods(scaleNamespace).Create(b.Context(), p, metav1.CreateOptions{})
			return err
		})
	}
	defer func() { must(b, creating.Wait()) }()
	for len(waiting) > 0 {
		select {
		case e, open := <-events:
			p, isPod := e.Object.(*corev1.Pod)
			if !open || !isPod {
				b.Fatal("watching pods: the server ended the watch")
			}
			if waiting[p.Name] && p.Spec.NodeName != "" {
				delete(waiting, p.Name)
				f.Bound++
				f.Seconds = time.Since(start).Seconds()
			}
		case <-over:
			return f
		}
	}
	return f
}

// clear deletes all pods, which no kubelet does, and returns when their claims
// are gone too.
func (s *scale) clear(b *testing.B) {
	must(b, s.fleet.kube.CoreV1().Pods(scaleNamespace).DeleteCollection(b.Context(),
		metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}, metav1.ListOptions{}))
	must(b, lab.Eventually(b.Context(), writingTime, func(ctx context.Context) error {
		pods, err := s.fleet.kube.CoreV1().Pods(scaleNamespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		claims, err := s.fleet.kube.ResourceV1().ResourceClaims(scaleNamespace).List(ctx, metav1.ListOptions{})
		if err == nil && len(pods.Items)+len(claims.Items) > 0 {
			err = fmt.Errorf("%d pods and %d claims are left", len(pods.Items), len(claims.Items))
		}
		return err
	}))
}
