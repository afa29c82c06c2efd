package upgraderun

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/internal/nodepod"
	"github.com/nadra-dev/nadra/internal/upgrade"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// world is a cluster of one node in which evictions take what they ask for.
type world struct {
	*fake.Clientset
	runner *Runner
	plan   *upgrade.Plan
	said   []string
	// log is what pods on the node have said.
	log string
	// held are pods that a budget holds, and evicted those that are gone.
	held, evicted []string
}

func newWorld(t *testing.T, objects ...runtime.Object) *world {
	t.Helper()
	multus := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "multus"}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: corev1.NodeStatus{
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
	}}
	w := &world{Clientset: fake.NewClientset(append(objects, multus, node, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "x"}})...)}
	w.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		create, ok := action.(clienttesting.CreateAction)
		if !ok || create.GetSubresource() != "eviction" {
			return false, nil, nil
		}
		eviction := create.GetObject().(*policyv1.Eviction)
		if slices.Contains(w.held, eviction.Name) {
			return true, nil, apierrors.NewTooManyRequests("the disruption budget x/b needs 2 healthy pods", 0)
		}
		w.evicted = append(w.evicted, eviction.Name)
		return true, nil, w.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), eviction.Namespace, eviction.Name)
	})
	w.runner = &Runner{
		Kube: w, Store: Store{Kube: w, Namespace: "nadra-system"}, DrainTimeout: 20 * time.Millisecond, GateTimeout: 20 * time.Millisecond, Poll: time.Millisecond,
		Say: func(format string, args ...any) { w.said = append(w.said, fmt.Sprintf(format, args...)) },
	}
	w.runner.Nodes = nodepod.Runner{
		Kube: w, Namespace: "nadra", Timeout: time.Second,
		Raw: func(context.Context, string) ([]byte, error) { return []byte(w.log), nil },
	}
	w.PrependReactor("get", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if get, ok := action.(clienttesting.GetAction); ok && strings.HasPrefix(get.GetName(), "nadra-probe-") {
			return true, &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodSucceeded}}, nil
		}
		return false, nil, nil
	})
	w.plan = &upgrade.Plan{
		APIVersion: upgrade.APIVersion, Kind: upgrade.PlanKind, Multus: []upgrade.MultusRef{{Namespace: "kube-system", DaemonSet: "multus"}},
		Waves: []upgrade.Wave{{Name: "wave-1", Namespaces: []string{"x"}, Nodes: []upgrade.NodeShare{{Name: "n1"}}}},
	}
	return w
}

// pod has networks, and is of a workload if one is named.
func pod(name, workload string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: name, UID: "1", Annotations: map[string]string{attachment.NetworksAnnotation: "n3"}},
		Spec:       corev1.PodSpec{NodeName: "n1"},
	}
	if workload != "" {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: workload, UID: "2", Controller: ptr.To(true)}}
	}
	return p
}

func (w *world) run(t *testing.T) (*upgrade.State, error) {
	t.Helper()
	err := w.runner.Run(t.Context(), w.plan, w.state(t), "")
	return w.state(t), err
}

// state is what the cluster knows.
func (w *world) state(t *testing.T) *upgrade.State {
	t.Helper()
	_, s, _, err := w.runner.Store.Load(t.Context())
	if errors.Is(err, ErrNone) {
		return upgrade.NewState()
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (w *world) node(t *testing.T) *corev1.Node {
	t.Helper()
	n, err := w.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A drain that does not come to its end stops the upgrade there: it says why,
// and the node stays as safe as it is.
func TestStopsAtAGate(t *testing.T) {
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		held []string
		want string
	}{
		"a budget":        {pod("p", "web"), []string{"p"}, "node n1: drain: after 20ms: a PodDisruptionBudget holds pod x/p: the disruption budget x/b needs 2 healthy pods"},
		"a pod of nobody": {pod("p", ""), nil, "node n1: drain: pod x/p is made again by nobody: delete it, or say --force"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, test.pod)
				w.held = test.held
				s, err := w.run(t)
				var gate *GateError
				if !errors.As(err, &gate) || !strings.Contains(err.Error(), test.want) {
					t.Fatalf("error %v, want a gate with %q", err, test.want)
				}
				if s.Phase != upgrade.Stopped || !strings.Contains(s.Reason, test.want) || s.Nodes["n1"].Step != upgrade.Cordon {
					t.Errorf("state %+v, node %+v", s, s.Nodes["n1"])
				}
				if n := w.node(t); !n.Spec.Unschedulable || n.Labels["nadra.dev/owner"] != "" {
					t.Errorf("the node is %+v, want it cordoned and Multus'", n)
				}
			})
		})
	}
}

// With --force a pod that nobody makes again is deleted, too.
func TestForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pod("p", ""))
		w.runner.Force = true
		w.log = "nadra-node: taking Multus' configuration away: /conf has no other configuration\n"
		if s, err := w.run(t); err == nil || !strings.Contains(err.Error(), "node n1: unconfigure: turning Multus' configuration off: nadra-node: taking") || s.Phase != upgrade.Stopped {
			t.Errorf("error %v, phase %s: want what the pod on the node has said", err, s.Phase)
		}
		if diff := cmp.Diff([]string{"p"}, w.evicted); diff != "" {
			t.Errorf("evicted (-want +got):\n%s", diff)
		}
	})
}

// A pause comes before the next step, and is remembered as one.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pod("p", "web"))
		w.held = []string{"p"}
		if _, err := w.run(t); err == nil {
			t.Fatal("it did not stop")
		}
		if err := w.runner.Store.Pause(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		w.held = nil
		s, err := w.run(t)
		if !errors.Is(err, ErrPaused) || s.Phase != upgrade.Paused || len(w.evicted) > 0 {
			t.Errorf("error %v, phase %s, evicted %q", err, s.Phase, w.evicted)
		}
		if err := w.runner.Store.Pause(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		if s, _ = w.run(t); s.Nodes["n1"].Step != upgrade.Release || len(w.evicted) != 1 {
			t.Errorf("node %+v, evicted %q: it did not go on", s.Nodes["n1"], w.evicted)
		}
	})
}

// What was before is what comes back: the cordon of somebody else, the label of
// the namespace, the DaemonSet.
func TestRollBackAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pod("p", "web"))
		n := w.node(t)
		n.Spec.Unschedulable = true
		if _, err := w.CoreV1().Nodes().Update(t.Context(), n, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.held = []string{"p"}
		if _, err := w.run(t); err == nil {
			t.Fatal("it did not stop")
		}
		d := w.multus(t)
		if d.Spec.UpdateStrategy.Type != appsv1.OnDeleteDaemonSetStrategyType || d.Spec.Template.Spec.Affinity == nil {
			t.Errorf("DaemonSet %+v is not kept off", d.Spec)
		}
		w.comesBack(t)
		if err := w.runner.RollBack(t.Context(), w.plan, w.state(t), "all"); err != nil {
			t.Fatal(err)
		}
		if d := w.multus(t); d.Spec.UpdateStrategy.Type != "" || d.Spec.Template.Spec.Affinity != nil {
			t.Errorf("DaemonSet %+v is not as it was", d.Spec)
		}
		if n := w.node(t); !n.Spec.Unschedulable || len(n.Spec.Taints) > 0 {
			t.Errorf("node %+v: somebody else had cordoned it", n.Spec)
		}
		ns, err := w.CoreV1().Namespaces().Get(t.Context(), "x", metav1.GetOptions{})
		if err != nil || len(ns.Labels) > 0 {
			t.Errorf("namespace with labels %v, %v", ns.Labels, err)
		}
		if s := w.state(t); s.Phase != upgrade.RolledBack || s.Target != "" || len(s.Namespaces)+len(s.Multus) > 0 {
			t.Errorf("state %+v", s)
		}
	})
}

func (w *world) multus(t *testing.T) *appsv1.DaemonSet {
	t.Helper()
	d, err := w.AppsV1().DaemonSets("kube-system").Get(t.Context(), "multus", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// comesBack has Multus' pod on the node, and its configuration given back.
func (w *world) comesBack(t *testing.T) {
	t.Helper()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "kube-system", Name: "multus-1",
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "multus", UID: "3", Controller: ptr.To(true)}},
		},
		Spec:   corev1.PodSpec{NodeName: "n1"},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	if _, err := w.CoreV1().Pods("kube-system").Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.log = `{"moved":["00-multus.conf"],"left":[]}`
}

// Nobody is moved to where he could not be placed.
func TestStranded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pod("p", "web"))
		w.plan.Waves[0].Namespaces = nil
		var gate *GateError
		if _, err := w.run(t); !errors.As(err, &gate) || !strings.Contains(err.Error(), "wave-1: no other node is Multus', and pod x/p would have none: namespace x is Multus'") {
			t.Errorf("the last node goes, and the namespace does not: %v", err)
		}
		n := w.node(t)
		if n.Spec.Unschedulable || len(w.evicted) > 0 {
			t.Errorf("node %+v, evicted %q: nothing was to be touched", n.Spec, w.evicted)
		}
		n.Labels = map[string]string{v1alpha1.OwnerLabel: v1alpha1.OwnerNadra}
		if _, err := w.CoreV1().Nodes().Update(t.Context(), n, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := w.runner.Store.Save(t.Context(), w.plan, upgrade.NewState()); err != nil {
			t.Fatal(err)
		}
		for target, want := range map[string]string{
			"namespace/x": "namespace x: no node is Multus'", "pod/x/p": "StatefulSet x/web: no node is Multus'",
			"node/absent": "node absent: there is no such node", "namespace/absent": `namespaces "absent" not found`, "pod/x/absent": "there is no such pod",
		} {
			if err := w.runner.RollBack(t.Context(), w.plan, w.state(t), target); !errors.As(err, &gate) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s goes back: %v, want %q", target, err, want)
			}
			if s := w.state(t); s.Target != "" || s.Phase != upgrade.Running {
				t.Errorf("%s was refused, and the state is %+v", target, s)
			}
		}
	})
}

// By default pods are nadra's: what goes back has to say that it does.
func TestRollBackWithDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		controller := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "nadra-system", Name: "nadra-controller"}}
		controller.Spec.Template.Spec.Containers = []corev1.Container{{Name: "nadra-controller", Args: []string{"--default-owner=nadra"}}}
		w := newWorld(t, controller)
		state := upgrade.NewState()
		state.Namespaces["x"] = upgrade.NamespaceState{}
		var gate *GateError
		if err := w.runner.RollBack(t.Context(), w.plan, state, "all"); !errors.As(err, &gate) || !strings.Contains(err.Error(), "all: nadra-controller runs with --default-owner=nadra") {
			t.Errorf("everything goes back: %v", err)
		}
		if err := w.runner.RollBack(t.Context(), w.plan, state, "namespace/x"); err != nil {
			t.Fatal(err)
		}
		ns, err := w.CoreV1().Namespaces().Get(t.Context(), "x", metav1.GetOptions{})
		if err != nil || ns.Labels[v1alpha1.OwnerLabel] != v1alpha1.OwnerMultus || len(w.state(t).Namespaces) > 0 {
			t.Errorf("namespace with labels %v, %v: want it Multus'", ns.Labels, err)
		}
	})
}

// A dry run of the client writes nothing at all.
func TestDryRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pod("p", "web"))
		w.runner.DryRun = "client"
		if err := w.runner.Run(t.Context(), w.plan, upgrade.NewState(), ""); err != nil {
			t.Fatal(err)
		}
		for _, a := range w.Actions() {
			if !slices.Contains([]string{"get", "list"}, a.GetVerb()) {
				t.Errorf("it writes: %s %s", a.GetVerb(), a.GetResource().Resource)
			}
		}
		if len(w.said) == 0 {
			t.Error("it says nothing")
		}
	})
}

// What is not there, and what nobody knows, is said.
func TestErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		if err := w.runner.Store.Pause(t.Context(), true); !errors.Is(err, ErrNone) {
			t.Errorf("pausing nothing: %v", err)
		}
		if err := w.runner.RollBack(t.Context(), w.plan, upgrade.NewState(), "moon/n1"); err == nil || !strings.Contains(err.Error(), "it is none of node/NAME") {
			t.Errorf("rolling back the moon: %v", err)
		}
		for name, want := range map[string]string{
			"x/p": "nobody makes it again: create it with the label", "x/d": "for which the node decides: roll back --node n1",
			"x/j": "label its pod template nadra.dev/owner=multus", "x/absent": "there is no such pod with networks",
		} {
			ds, job := pod("d", "agent"), pod("j", "nightly")
			ds.OwnerReferences[0].Kind, job.OwnerReferences[0].Kind = "DaemonSet", "Job"
			w := newWorld(t, pod("p", ""), ds, job)
			var gate *GateError
			if err := w.runner.RollBack(t.Context(), w.plan, upgrade.NewState(), "pod/"+name); !errors.As(err, &gate) || !strings.Contains(err.Error(), want) {
				t.Errorf("rolling back pod %s: %v, want a gate with %q", name, err, want)
			}
		}
		w.plan.Waves[0].Nodes[0].Name = "absent"
		if s, err := w.run(t); err != nil || s.Phase != upgrade.Done || !slices.Contains(w.said, "node absent is gone") {
			t.Errorf("a node that is gone: %v, %s, said %q", err, s.Phase, w.said)
		}
	})
}

// A node's kubelet writes it, too: who is second does it again.
func TestNodeIsWrittenByOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		conflicts := 2
		w.PrependReactor("update", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
			if conflicts--; conflicts >= 0 {
				return true, nil, apierrors.NewConflict(corev1.Resource("nodes"), "n1", errors.New("it was changed"))
			}
			return false, nil, nil
		})
		n := &upgrade.NodeState{Way: upgrade.Forth}
		w.runner.plan, w.runner.state = w.plan, upgrade.NewState()
		if err := w.runner.cordon(t.Context(), "n1", n); err != nil {
			t.Fatal(err)
		}
		if node := w.node(t); !node.Spec.Unschedulable || len(node.Spec.Taints) != 1 || n.WasCordoned {
			t.Errorf("node %+v, state %+v", node.Spec, n)
		}
	})
}

// A node that has left the cluster does not keep the rest from going back.
func TestRollBackWithoutANode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		state := upgrade.NewState()
		state.Nodes["gone"] = &upgrade.NodeState{Way: upgrade.Forth, Step: upgrade.Drain}
		if err := w.runner.RollBack(t.Context(), w.plan, state, "all"); err != nil {
			t.Fatal(err)
		}
		if s := w.state(t); s.Phase != upgrade.RolledBack || !slices.Contains(w.said, "node gone is gone") {
			t.Errorf("state %+v, said %q", s, w.said)
		}
	})
}

// A rollback lets no pod come before the runtime has Multus' configuration: the pod
// would start without its networks.
func TestRollBackWaitsForTheConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pod("p", "web"))
		w.held = []string{"p"}
		if _, err := w.run(t); err == nil {
			t.Fatal("it did not stop")
		}
		w.held = nil
		w.comesBack(t)
		logs := []string{`{"moved":[],"left":["10-default.conflist"]}`, "nadra-node: waiting for Multus' configuration: /conf has none"}
		w.runner.Nodes.Raw = func(context.Context, string) ([]byte, error) {
			log := logs[0]
			logs = logs[1:]
			return []byte(log), nil
		}
		err := w.runner.RollBack(t.Context(), w.plan, w.state(t), "node/n1")
		if err == nil || !strings.Contains(err.Error(), "node n1: return: waiting for Multus' configuration: nadra-node: waiting") {
			t.Errorf("error %v, want what the pod on the node has printed", err)
		}
		if n := w.node(t); !n.Spec.Unschedulable || len(n.Spec.Taints) == 0 {
			t.Errorf("node %+v is open for pods", n.Spec)
		}
	})
}
