package nodepod

import (
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func TestSweep(t *testing.T) {
	now := time.Now()
	pod := func(name string, phase corev1.PodPhase, made, ended time.Duration) *corev1.Pod {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "nadra", Name: name, Labels: maps.Clone(ours), CreationTimestamp: metav1.NewTime(now.Add(-made))},
			Status:     corev1.PodStatus{Phase: phase},
		}
		if ended > 0 {
			at := metav1.NewTime(now.Add(-ended))
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: at}}}}
		}
		return p
	}
	foreign := pod("web", corev1.PodSucceeded, time.Hour, time.Hour)
	foreign.Labels = map[string]string{"app": "web"}
	elsewhere := pod("elsewhere", corev1.PodSucceeded, time.Hour, time.Hour)
	elsewhere.Namespace = "other"
	objects := []*corev1.Pod{
		foreign, elsewhere,
		pod("abandoned", corev1.PodSucceeded, time.Hour, 2*time.Minute),
		pod("deadline", corev1.PodFailed, time.Hour, 30*time.Minute),
		pod("refused", corev1.PodFailed, time.Hour, 0), // by its node
		pod("being-read", corev1.PodSucceeded, time.Hour, 5*time.Second),
		pod("refused-now", corev1.PodFailed, 5*time.Second, 0),
		pod("running", corev1.PodRunning, time.Hour, 0),
	}
	for _, tt := range []struct {
		ago  time.Duration
		left []string
	}{
		{Abandoned, []string{"being-read", "elsewhere", "refused-now", "running", "web"}},
		{0, []string{"elsewhere", "running", "web"}},
	} {
		kube := fake.NewClientset()
		for _, p := range objects {
			if err := kube.Tracker().Add(p.DeepCopy()); err != nil {
				t.Fatal(err)
			}
		}
		if err := (Runner{Kube: kube, Namespace: "nadra"}).Sweep(t.Context(), tt.ago); err != nil {
			t.Fatal(err)
		}
		list, err := kube.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var left []string
		for _, p := range list.Items {
			left = append(left, p.Name)
		}
		slices.Sort(left)
		if !slices.Equal(left, tt.left) {
			t.Errorf("ended %s ago: left are %q, want %q", tt.ago, left, tt.left)
		}
	}
}
