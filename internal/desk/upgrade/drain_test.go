package upgrade

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/internal/desk/canary"
	"github.com/nadra-dev/nadra/pkg/api/reason"
)

// TestDrainOfPodsThatNobodyMisses checks that what an interrupted command left behind does not stop a drain: nobody
// could be asked to use --force for it.
func TestDrainOfPodsThatNobodyMisses(t *testing.T) {
	for name, tt := range map[string]struct {
		change  func(*corev1.Pod)
		refused bool
	}{
		"a bare pod": {func(*corev1.Pod) {}, true},
		"a bare pod that is being deleted": {func(p *corev1.Pod) {
			p.DeletionTimestamp, p.Finalizers = &metav1.Time{Time: time.Now()}, []string{"example.com/hold"}
		}, false},
		"a canary": {func(p *corev1.Pod) {
			p.Labels = map[string]string{canary.NameLabel: canary.Name, canary.ManagerLabel: canary.ManagerName}
		}, false},
		"a pod with a canary's name only": {func(p *corev1.Pod) { p.Labels = map[string]string{canary.NameLabel: canary.Name} }, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := pod("p", "")
			tt.change(p)
			w := newWorld(t, claimed(p)...)
			w.runner.DrainTimeout = 10 * time.Second
			err := steps{&run{w.runner, w.plan, NewState()}}.drain(t.Context(), "n1", &Move{Direction: ToMultus})
			if tt.refused != (reason.Of(err) == reason.PodNotRecreated) || !tt.refused && (err != nil || !slices.Equal(w.evicted, []string{"p"})) {
				t.Errorf("error %v, evicted %q", err, w.evicted)
			}
		})
	}
}
