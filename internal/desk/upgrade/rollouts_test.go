package upgrade

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/nadra-dev/nadra/internal/installation"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// besideWorld is a cluster in which nadra runs beside Multus. A rollout renames the annotation of the workload's pods
// as the webhook would: by the label that the namespace has then.
type besideWorld struct {
	*world
	// restarted are the workloads, in order; snapshots are the namespaces of snapshots, canaries those of canaries.
	restarted, snapshots, canaries []string
	// stuck are workloads whose rollout does nothing.
	stuck []string
	// lost is what Compare returns.
	lost error
}

func newBesideWorld(t *testing.T) *besideWorld {
	t.Helper()
	objects := []runtime.Object{
		&appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "db"}},
		&appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "web"}},
		&appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "other"}},
		pod("bare", ""),
	}
	for _, name := range []string{"db-0", "db-1", "web-0"} {
		p := pod(name, name[:strings.Index(name, "-")])
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		objects = append(objects, p)
	}
	template := func(container string) corev1.PodTemplateSpec {
		return corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: container, Args: []string{"--beside-multus"}}}}}
	}
	objects = append(objects,
		&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "nadra", Name: "nadra-node"}, Spec: appsv1.DaemonSetSpec{Template: template(installation.DriverContainer)}},
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "nadra-system", Name: "nadra-controller"}, Spec: appsv1.DeploymentSpec{Template: template(installation.ControllerContainer)}},
	)
	w := &besideWorld{world: newWorld(t, objects...)}
	w.plan = &Plan{
		APIVersion: APIVersion, Kind: PlanKind, BesideMultus: true, Multus: []MultusRef{{Namespace: "kube-system", DaemonSet: "multus"}},
		Waves: []Wave{{Name: "wave-1", Namespaces: []string{"x"}}},
	}
	w.runner.VerifyNamespace = func(_ context.Context, namespace string) error {
		w.canaries = append(w.canaries, namespace)
		return nil
	}
	w.runner.Snapshots = Snapshots{
		Take: func(_ context.Context, namespace string) ([]byte, error) {
			w.snapshots = append(w.snapshots, namespace)
			return []byte("{}"), nil
		},
		Compare: func(before, _ []byte) error {
			if string(before) != "{}" {
				t.Errorf("the snapshot before is %q", before)
			}
			return w.lost
		},
	}
	w.PrependReactor("patch", "statefulsets", func(action clienttesting.Action) (bool, runtime.Object, error) {
		patch := action.(clienttesting.PatchAction)
		if !strings.Contains(string(patch.GetPatch()), "kubectl.kubernetes.io/restartedAt") {
			t.Errorf("patch %s", patch.GetPatch())
		}
		w.restarted = append(w.restarted, patch.GetName())
		if !slices.Contains(w.stuck, patch.GetName()) {
			w.recreate(t, patch.GetName())
		}
		return false, nil, nil
	})
	return w
}

// recreate renames the annotation of a workload's pods by the label of the namespace.
func (w *besideWorld) recreate(t *testing.T, workload string) {
	key := attachment.NetworksAnnotation
	if w.owner(t) == v1alpha1.OwnerNadra {
		key = attachment.OwnNetworksAnnotation
	}
	for _, p := range w.pods(t) {
		if metav1.GetControllerOf(&p) != nil && metav1.GetControllerOf(&p).Name == workload {
			p.Annotations = map[string]string{key: "n3"}
			if err := w.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), &p, "x"); err != nil {
				t.Error(err)
			}
		}
	}
}

// pods returns the pods of the namespace. It asks the tracker, because reactors must not use the client.
func (w *besideWorld) pods(t *testing.T) []corev1.Pod {
	t.Helper()
	list, err := w.Tracker().List(corev1.SchemeGroupVersion.WithResource("pods"), corev1.SchemeGroupVersion.WithKind("Pod"), "x")
	if err != nil {
		t.Fatal(err)
	}
	return list.(*corev1.PodList).Items
}

// owner returns the label of the namespace.
func (w *besideWorld) owner(t *testing.T) string {
	t.Helper()
	ns, err := w.Tracker().Get(corev1.SchemeGroupVersion.WithResource("namespaces"), "", "x")
	if err != nil {
		t.Fatal(err)
	}
	return ns.(*corev1.Namespace).Labels[v1alpha1.OwnerLabel]
}

// renamed returns the pods whose networks are in nadra's annotation.
func (w *besideWorld) renamed(t *testing.T) []string {
	var out []string
	for _, p := range w.pods(t) {
		if p.Annotations[attachment.OwnNetworksAnnotation] != "" {
			out = append(out, p.Name)
		}
	}
	slices.Sort(out)
	return out
}

func TestNamespaceMovesByRollouts(t *testing.T) {
	w := newBesideWorld(t)
	state, err := w.run(t)
	if err != nil {
		t.Fatal(err)
	}
	moved := state.Rollouts["x"]
	switch {
	case state.Phase != Done || !moved.atNadra() || len(moved.Before) > 0:
		t.Errorf("state %+v, %+v", state, moved)
	case w.owner(t) != v1alpha1.OwnerNadra || !slices.Equal(w.restarted, []string{"db", "web"}):
		t.Errorf("owner %q, restarted %v", w.owner(t), w.restarted)
	case !slices.Equal(w.renamed(t), []string{"db-0", "db-1", "web-0"}):
		t.Errorf("pods of nadra: %v", w.renamed(t))
	case !slices.Equal(w.canaries, []string{"x"}) || !slices.Equal(w.snapshots, []string{"x", "x"}):
		t.Errorf("canaries %v, snapshots %v", w.canaries, w.snapshots)
	case len(state.Nodes) > 0 || len(state.Multus) > 0 || len(w.evicted) > 0:
		t.Errorf("nodes %v, Multus %v and evictions %v", state.Nodes, state.Multus, w.evicted)
	}
	if n := w.node(t); n.Spec.Unschedulable || len(n.Labels) > 0 || len(n.Spec.Taints) > 0 {
		t.Errorf("the node was touched: %+v", n)
	}

	// Once more: nothing is left to do.
	if _, err := w.run(t); err != nil || len(w.restarted) != 2 {
		t.Errorf("run again: %v, restarted %v", err, w.restarted)
	}

	// And back.
	state = w.state(t)
	if err := w.runner.RollBack(t.Context(), w.plan, state, "all"); err != nil {
		t.Fatal(err)
	}
	if state = w.state(t); state.Phase != RolledBack || w.owner(t) != "" || len(w.renamed(t)) > 0 || !slices.Equal(w.restarted, []string{"db", "web", "db", "web"}) {
		t.Errorf("state %+v, owner %q, pods of nadra %v, restarted %v", state, w.owner(t), w.renamed(t), w.restarted)
	}
	if _, err := w.run(t); err != nil || len(w.renamed(t)) != 3 {
		t.Errorf("forward again: %v, pods of nadra %v", err, w.renamed(t))
	}
}

// TestStuckRollout checks that a rollout that does not end stops the run, and that the next run goes on with it.
func TestStuckRollout(t *testing.T) {
	w := newBesideWorld(t)
	w.stuck = []string{"web"}
	state, err := w.run(t)
	isGate(t, err, "namespace x: restart", reason.PodsNotReady, "pod x/web-0 of StatefulSet x/web")
	if state.Phase != Stopped || state.Rollouts["x"].Step != Label {
		t.Errorf("state %+v, %+v", state, state.Rollouts["x"])
	}
	w.recreate(t, "web") // somebody has helped it
	if state, err = w.run(t); err != nil || !state.Rollouts["x"].atNadra() || !slices.Equal(w.restarted, []string{"db", "web"}) {
		t.Errorf("%v, state %+v, restarted %v", err, state.Rollouts["x"], w.restarted)
	}
}

// TestNamespaceLosesItsLabel checks that a namespace whose label was removed while its workloads restart begins its move
// again.
func TestNamespaceLosesItsLabel(t *testing.T) {
	w := newBesideWorld(t)
	w.stuck = []string{"web"}
	if _, err := w.run(t); reason.Of(err) != reason.PodsNotReady {
		t.Fatal(err)
	}
	if err := (&run{Runner: w.runner}).labelNamespace(t.Context(), "x", ""); err != nil {
		t.Fatal(err)
	}
	w.recreate(t, "db") // as Multus'
	w.stuck = nil
	if state, err := w.run(t); err != nil || !state.Rollouts["x"].atNadra() || w.owner(t) != v1alpha1.OwnerNadra || len(w.renamed(t)) != 3 {
		t.Errorf("%v, state %+v, owner %q, pods of nadra %v, restarted %v", err, state.Rollouts["x"], w.owner(t), w.renamed(t), w.restarted)
	}
}

func TestRolloutGates(t *testing.T) {
	w := newBesideWorld(t)
	w.runner.VerifyNamespace = func(context.Context, string) error { return errors.New("canary a lacks net1") }
	_, err := w.run(t)
	isGate(t, err, "namespace x: verify", reason.CanaryFailed, "canary a lacks net1")
	if w.owner(t) != "" || len(w.restarted) > 0 {
		t.Errorf("owner %q, restarted %v", w.owner(t), w.restarted)
	}

	w = newBesideWorld(t)
	w.lost = errors.New("pod x/db-0 lacks net1")
	_, err = w.run(t)
	isGate(t, err, "namespace x: compare", reason.NetworksLost, "net1")

	w = newBesideWorld(t)
	w.runner.DryRun = "client"
	if err := w.runner.Run(t.Context(), w.plan, NewState(), ""); err != nil || len(w.restarted) > 0 || w.owner(t) != "" {
		t.Errorf("a dry run: %v, owner %q, restarted %v", err, w.owner(t), w.restarted)
	}
	if err := w.runner.RollBack(t.Context(), w.plan, NewState(), "node/n1"); err == nil || !strings.Contains(err.Error(), "rollback -n NAMESPACE") {
		t.Errorf("rolling back a node: %v", err)
	}
}
