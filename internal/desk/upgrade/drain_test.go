package upgrade

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/nadra-dev/nadra/internal/desk/canary"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
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

// TestRollBackWithPodsThatComeBack rolls back a node on which the pods of two workloads come back at once, in spite of
// cordon and taint: with a claim while the node is labelled for nadra, as the webhook gives it.
func TestRollBackWithPodsThatComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		everywhere := []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		comesBack := func(name, kind string) *corev1.Pod {
			p := pod(name, "w")
			p.OwnerReferences[0].Kind, p.Spec.Tolerations = kind, everywhere
			return p
		}
		agent, db, web := comesBack("agent", "DaemonSet"), comesBack("db", "StatefulSet"), pod("web", "web")
		w := newWorld(t, slices.Concat(claimed(agent), claimed(db), claimed(web))...)
		w.isNadras(t)
		w.comesBack(t)
		labels := map[string]string{} // of the node, when a pod is evicted
		w.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
			if action.GetSubresource() != "eviction" {
				return false, nil, nil
			}
			name := action.(clienttesting.CreateAction).GetObject().(*policyv1.Eviction).Name
			node, err := w.Tracker().Get(corev1.SchemeGroupVersion.WithResource("nodes"), "", "n1")
			if err != nil {
				return true, nil, err
			}
			pods := corev1.SchemeGroupVersion.WithResource("pods")
			old, err := w.Tracker().Get(pods, "x", name)
			if err != nil {
				return true, nil, err
			}
			if err := w.Tracker().Delete(pods, "x", name); err != nil {
				return true, nil, err
			}
			next := old.(*corev1.Pod).DeepCopy()
			w.evicted = append(w.evicted, name)
			labels[name] = node.(*corev1.Node).Labels[v1alpha1.OwnerLabel]
			if len(next.Spec.Tolerations) == 0 {
				return true, nil, nil
			}
			if next.UID += "1"; labels[name] != v1alpha1.OwnerNadra {
				next.Spec.ResourceClaims = nil
			}
			return true, nil, w.Tracker().Create(pods, next, "x")
		})
		if err := w.runner.RollBack(t.Context(), w.plan, NewState(), "node/n1"); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"web", "agent", "db"}, w.evicted); diff != "" {
			t.Errorf("evicted (-want +got):\n%s", diff)
		}
		want := map[string]string{"web": v1alpha1.OwnerNadra, "agent": "", "db": ""}
		if diff := cmp.Diff(want, labels); diff != "" {
			t.Errorf("the node's labels when pods were evicted (-want +got):\n%s", diff)
		}
	})
}

// TestPodsThatCouldComeBack checks which pods stay on a node until it returns.
func TestPodsThatCouldComeBack(t *testing.T) {
	exists := corev1.TolerationOpExists
	for name, tt := range map[string]struct {
		workload   string
		toleration corev1.Toleration
		want       bool
	}{
		"every taint":             {"w", corev1.Toleration{Operator: exists}, true},
		"the taint of a move":     {"w", corev1.Toleration{Key: moving.Key, Operator: exists}, true},
		"the taint, by its value": {"w", corev1.Toleration{Key: moving.Key, Effect: moving.Effect}, true},
		"another value":           {"w", corev1.Toleration{Key: moving.Key, Value: "x"}, false},
		"the cordon":              {"w", corev1.Toleration{Key: corev1.TaintNodeUnschedulable, Operator: exists}, false},
		"taints that evict":       {"w", corev1.Toleration{Operator: exists, Effect: corev1.TaintEffectNoExecute}, false},
		"every taint, a bare pod": {"", corev1.Toleration{Operator: exists}, false},
	} {
		p := pod("p", tt.workload)
		p.Spec.Tolerations = []corev1.Toleration{tt.toleration}
		if got := podOf(p, nil).Tolerates; got != tt.want {
			t.Errorf("%s: %t, want %t", name, got, tt.want)
		}
	}
}
