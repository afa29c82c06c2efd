package upgrade

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/internal/desk/nodepod"
	"github.com/nadra-dev/nadra/internal/installation"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// world is a cluster of one node in which evictions delete pods.
type world struct {
	*fake.Clientset
	runner *Runner
	plan   *Plan
	// progress are the Runner's messages.
	progress []string
	// log is the log of pods on the node.
	log string
	// blocked are pods whose eviction a budget blocks, evicted the evicted ones.
	blocked, evicted []string
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
		if slices.Contains(w.blocked, eviction.Name) {
			return true, nil, apierrors.NewTooManyRequests("the disruption budget x/b needs 2 healthy pods", 0)
		}
		w.evicted = append(w.evicted, eviction.Name)
		return true, nil, w.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), eviction.Namespace, eviction.Name)
	})
	w.runner = &Runner{
		Kube: w, Store: Store{Kube: w, Namespace: "nadra-system"}, ConfDir: "/srv/cni/net.d", Kept: "/srv/nadra/multus", DrainTimeout: 20 * time.Millisecond, GateTimeout: 20 * time.Millisecond, Poll: time.Millisecond,
		Say: func(format string, args ...any) { w.progress = append(w.progress, fmt.Sprintf(format, args...)) },
	}
	w.runner.Nodes = nodepod.Runner{
		Kube: w, Namespace: "nadra", Timeout: time.Minute,
		Raw: func(context.Context, string) ([]byte, error) {
			if strings.HasPrefix(w.log, "{") { // a pod that moves files; others look at Multus' sandboxes
				return []byte(`{"sandboxes":0}` + "\n" + w.log), nil
			}
			return []byte(w.log), nil
		},
	}
	w.PrependReactor("get", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if get, ok := action.(clienttesting.GetAction); ok && strings.HasPrefix(get.GetName(), "nadra-probe-") {
			return true, &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodSucceeded}}, nil
		}
		return false, nil, nil
	})
	w.plan = &Plan{
		APIVersion: APIVersion, Kind: PlanKind, Multus: []MultusRef{{Namespace: "kube-system", DaemonSet: "multus"}},
		Waves: []Wave{{Name: "wave-1", Namespaces: []string{"x"}, Nodes: []NodeShare{{Name: "n1"}}}},
	}
	return w
}

// pod returns a pod with networks, of a workload if one is named.
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

// claimed returns a pod of nadra's, with its claim.
func claimed(p *corev1.Pod) []runtime.Object {
	p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "networks", ResourceClaimName: ptr.To(p.Name)}}
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}}
	claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
		Results: []resourceapi.DeviceRequestAllocationResult{{Driver: v1alpha1.DriverName, Device: "d"}},
	}}
	return []runtime.Object{p, claim}
}

func (w *world) run(t *testing.T) (*State, error) {
	t.Helper()
	err := w.runner.Run(t.Context(), w.plan, w.state(t), "")
	return w.state(t), err
}

// state loads the state that the cluster keeps.
func (w *world) state(t *testing.T) *State {
	t.Helper()
	_, s, _, err := w.runner.Store.Load(t.Context())
	if errors.Is(err, ErrNone) {
		return NewState()
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

// isGate checks that an error is a GateError with a place, a code and some texts.
func isGate(t *testing.T, err error, where string, code reason.Code, texts ...string) {
	t.Helper()
	var gate *GateError
	if !errors.As(err, &gate) || gate.Where != where || reason.Of(err) != code {
		t.Errorf("error %v, want a gate at %q with code %q", err, where, code)
		return
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error %v, want %q in it", err, text)
		}
	}
}

// Waves move one after the other, the nodes of a wave side by side. Nodes that have left the
// cluster are skipped, and a later run moves only what was rolled back.
func TestRunWaves(t *testing.T) {
	driver := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "nadra", Name: "driver", OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", Controller: ptr.To(true)}}},
		Spec:       corev1.PodSpec{NodeName: "n1", HostNetwork: true, Containers: []corev1.Container{{Name: installation.DriverContainer}}},
		Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: resourceapi.ResourceSliceSpec{
		Driver: v1alpha1.DriverName, Devices: []resourceapi.Device{{Name: "d"}},
	}}
	objects := []runtime.Object{driver, slice}
	for _, name := range []string{"n2", "n3"} {
		objects = append(objects, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		}})
	}
	w := newWorld(t, objects...)
	w.log = `{"moved":["00-multus.conf"],"left":["10-default.conflist"]}`
	w.plan.Waves = []Wave{
		{Name: "wave-1", Namespaces: []string{"x"}, Nodes: []NodeShare{{Name: "n1"}, {Name: "left"}, {Name: "n2"}}},
		{Name: "wave-2", Nodes: []NodeShare{{Name: "n3"}}},
	}
	var events []string
	w.PrependReactor("update", "nodes", func(action clienttesting.Action) (bool, runtime.Object, error) {
		n := action.(clienttesting.UpdateAction).GetObject().(*corev1.Node)
		events = append(events, fmt.Sprintf("%s cordoned: %t", n.Name, n.Spec.Unschedulable))
		return false, nil, nil
	})
	w.PrependReactor("patch", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
		events = append(events, "namespace")
		return false, nil, nil
	})
	is := func(want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, events); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		events = nil
	}
	s, err := w.run(t)
	if err != nil || s.Phase != Done || s.Nodes["left"] != nil {
		t.Fatalf("%v, state %+v", err, s)
	}
	is("namespace", "n1 cordoned: true", "n2 cordoned: true", "n1 cordoned: false", "n2 cordoned: false", "n3 cordoned: true", "n3 cordoned: false")
	w.comesBack(t)
	for _, target := range []string{"node/n3", "node/n3", "namespace/x"} { // a node that is back already is not touched
		if err := w.runner.RollBack(t.Context(), w.plan, w.state(t), target); err != nil {
			t.Fatal(err)
		}
	}
	is("n3 cordoned: true", "n3 cordoned: false", "namespace")
	if err := w.CoreV1().Pods("kube-system").Delete(t.Context(), "multus-1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.run(t); err != nil {
		t.Fatal(err)
	}
	is("namespace", "n3 cordoned: true", "n3 cordoned: false")
}

// A drain that fails stops a rollback: the state has the reason, and the node stays
// cordoned and nadra's.
func TestStopsAtAGate(t *testing.T) {
	for name, test := range map[string]struct {
		pod     *corev1.Pod
		blocked []string
		code    reason.Code
		texts   []string
	}{
		"a budget":   {pod("p", "web"), []string{"p"}, reason.DrainTimeout, []string{"after 20ms: ", "pod x/p: the disruption budget x/b needs 2 healthy pods"}},
		"a bare pod": {pod("p", ""), nil, reason.PodNotRecreated, []string{"pod x/p", "--force"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, claimed(test.pod)...)
				w.isNadras(t)
				w.blocked = test.blocked
				err := w.runner.RollBack(t.Context(), w.plan, NewState(), "node/n1")
				isGate(t, err, "node n1: drain", test.code, test.texts...)
				s := w.state(t)
				if s.Phase != Stopped || err == nil || s.Reason != err.Error() || reason.In(s.Reason) != test.code || s.Nodes["n1"].Step != Cordon {
					t.Errorf("state %+v, node %+v", s, s.Nodes["n1"])
				}
				if n := w.node(t); !n.Spec.Unschedulable || n.Labels["nadra.dev/owner"] != "nadra" {
					t.Errorf("the node is %+v, want it cordoned and nadra's", n)
				}
			})
		})
	}
}

// isNadras labels the node for nadra.
func (w *world) isNadras(t *testing.T) {
	t.Helper()
	n := w.node(t)
	n.Labels = map[string]string{v1alpha1.OwnerLabel: v1alpha1.OwnerNadra}
	if _, err := w.CoreV1().Nodes().Update(t.Context(), n, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// With --force, a rollback deletes bare pods, too.
func TestForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, claimed(pod("p", ""))...)
		w.isNadras(t)
		w.runner.Force = true
		w.log = "nadra-node: giving back: [NotReturned] 2 sandboxes are nadra's\n"
		isGate(t, w.runner.RollBack(t.Context(), w.plan, NewState(), "node/n1"), "node n1: release", "", strings.TrimSpace(w.log))
		if diff := cmp.Diff([]string{"p"}, w.evicted); diff != "" {
			t.Errorf("evicted (-want +got):\n%s", diff)
		}
	})
}

// A node whose pods cannot be adopted stays Multus', and no pod is touched. The state has the error that the pod on
// the node logged.
func TestNotAdopted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pod("p", "web"), pod("bare", ""))
		w.log = "nadra-node: looking at Multus' files: [NotAdopted] pod x/p: its file cannot be read\n"
		s, err := w.run(t)
		isGate(t, err, "node n1: inspect", "", strings.TrimSpace(w.log))
		if s.Phase != Stopped || reason.In(s.Reason) != reason.NotAdopted || s.Nodes["n1"].Step != Cordon {
			t.Errorf("state %+v, node %+v", s, s.Nodes["n1"])
		}
		if n := w.node(t); !n.Spec.Unschedulable || n.Labels[v1alpha1.OwnerLabel] != "" || len(w.evicted) > 0 {
			t.Errorf("the node is %+v, evicted %q, want it cordoned and Multus'", n, w.evicted)
		}
	})
}

// A pause takes effect before the next step, and is the upgrade's phase. The next run withdraws the request, unless it
// is a dry run or is refused.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pod("p", "web"))
		say := w.runner.Say
		w.runner.Say = func(format string, args ...any) {
			if say(format, args...); strings.HasPrefix(w.progress[len(w.progress)-1], "node n1: cordon") {
				if err := w.runner.Store.Pause(t.Context(), true); err != nil {
					t.Error(err)
				}
			}
		}
		s, err := w.run(t)
		if !errors.Is(err, ErrPaused) || s.Phase != Paused || s.Nodes["n1"].Step != Cordon {
			t.Errorf("error %v, phase %s, node %+v", err, s.Phase, s.Nodes["n1"])
		}
		w.runner.DryRun = "client"
		if _, err := w.run(t); err != nil {
			t.Error(err)
		}
		w.runner.DryRun = ""
		if err := w.runner.RollBack(t.Context(), w.plan, w.state(t), "node/absent"); err == nil {
			t.Error("a node that is absent is rolled back")
		}
		if _, _, paused, err := w.runner.Store.Load(t.Context()); err != nil || !paused {
			t.Errorf("error %v, paused %t", err, paused)
		}
		w.log = `{"moved":[]}`
		if s, _ = w.run(t); s.Nodes["n1"].Step != Adopt || len(w.evicted) > 0 {
			t.Errorf("node %+v, evicted %q: it did not continue", s.Nodes["n1"], w.evicted)
		}
	})
}

// A rollback of everything restores the node's cordon, the namespace's label and the
// DaemonSet.
func TestRollBackAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pod("p", "web"))
		n := w.node(t)
		n.Spec.Unschedulable = true
		if _, err := w.CoreV1().Nodes().Update(t.Context(), n, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
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
		if last := w.progress[len(w.progress)-1]; last != "all was rolled back" {
			t.Errorf("the last line is %q", last)
		}
		if d := w.multus(t); d.Spec.UpdateStrategy.Type != "" || d.Spec.Template.Spec.Affinity != nil {
			t.Errorf("DaemonSet %+v is not as it was", d.Spec)
		}
		if n := w.node(t); !n.Spec.Unschedulable || len(n.Spec.Taints) > 0 {
			t.Errorf("node %+v, want it cordoned as before", n.Spec)
		}
		ns, err := w.CoreV1().Namespaces().Get(t.Context(), "x", metav1.GetOptions{})
		if err != nil || len(ns.Labels) > 0 {
			t.Errorf("namespace with labels %v, %v", ns.Labels, err)
		}
		if s := w.state(t); s.Phase != RolledBack || s.Target != "" || len(s.Namespaces)+len(s.Multus) > 0 {
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

// comesBack creates Multus' pod on the node, and its configuration.
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

// Moves and rollbacks that would leave pods without a node are refused.
func TestRunStrandsNoPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pod("p", "web"))
		w.plan.Waves[0].Namespaces = nil
		_, err := w.run(t)
		isGate(t, err, "wave-1", reason.NoNodeForPods, "pod x/p", "Multus serves namespace x")
		if n := w.node(t); n.Spec.Unschedulable || len(w.evicted) > 0 {
			t.Errorf("node %+v, evicted %q: nothing was to be touched", n.Spec, w.evicted)
		}
		w.isNadras(t)
		if err := w.runner.Store.Save(t.Context(), w.plan, NewState()); err != nil {
			t.Fatal(err)
		}
		for target, want := range map[string]struct {
			where string
			code  reason.Code
			text  string
		}{
			"namespace/x": {"namespace x", reason.NoNodeForPods, "Multus serves no node"},
			"pod/x/p":     {"StatefulSet x/web", reason.NoNodeForPods, "Multus serves no node"},
			"node/absent": {"node absent", "", "no such node"}, "namespace/absent": {"namespace absent", "", "no such namespace"},
			"pod/x/absent": {"pod x/absent", "", "no such pod"},
		} {
			err := w.runner.RollBack(t.Context(), w.plan, w.state(t), target)
			isGate(t, err, want.where, want.code, want.text)
			if s := w.state(t); s.Target != "" || s.Phase != Running {
				t.Errorf("%s was refused, and the state is %+v", target, s)
			}
		}
	})
}

// If pods are nadra's by default, a namespace that is rolled back is labelled for Multus.
func TestRollBackWithDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		controller := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "nadra-system", Name: "nadra-controller"}}
		controller.Spec.Template.Spec.Containers = []corev1.Container{{Name: "nadra-controller", Args: []string{"--default-owner=nadra"}}}
		w := newWorld(t, controller)
		state := NewState()
		state.Namespaces["x"] = namespaceState{}
		isGate(t, w.runner.RollBack(t.Context(), w.plan, state, "all"), "all", reason.NoNodeForPods, "--default-owner=nadra")
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
		if err := w.runner.Run(t.Context(), w.plan, NewState(), ""); err != nil {
			t.Fatal(err)
		}
		for _, a := range w.Actions() {
			if !slices.Contains([]string{"get", "list"}, a.GetVerb()) {
				t.Errorf("it writes: %s %s", a.GetVerb(), a.GetResource().Resource)
			}
		}
		if len(w.progress) == 0 {
			t.Error("it says nothing")
		}
	})
}

// Targets and upgrades that do not exist are errors.
func TestErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		if err := w.runner.Store.Pause(t.Context(), true); !errors.Is(err, ErrNone) {
			t.Errorf("pausing nothing: %v", err)
		}
		if err := w.runner.RollBack(t.Context(), w.plan, NewState(), "moon/n1"); err == nil || !strings.Contains(err.Error(), `"moon/n1"`) {
			t.Errorf("rolling back the moon: %v", err)
		}
		for name, want := range map[string]struct {
			code reason.Code
			text string
		}{
			"x/p": {reason.PodNotRecreated, "create it with the label nadra.dev/owner=multus"}, "x/d": {"", "DaemonSet x/agent, whose nodes decide: use rollback --node n1"},
			"x/j": {"", "label its pod template nadra.dev/owner=multus"}, "x/absent": {"", "no such pod with networks"},
		} {
			ds, job := pod("d", "agent"), pod("j", "nightly")
			ds.OwnerReferences[0].Kind, job.OwnerReferences[0].Kind = "DaemonSet", "Job"
			w := newWorld(t, pod("p", ""), ds, job)
			isGate(t, w.runner.RollBack(t.Context(), w.plan, NewState(), "pod/"+name), "pod "+name, want.code, want.text)
		}
		w.plan.Waves[0].Nodes[0].Name = "absent"
		if s, err := w.run(t); err != nil || s.Phase != Done || !slices.Contains(w.progress, "node absent is gone") {
			t.Errorf("a node that is gone: %v, %s, said %q", err, s.Phase, w.progress)
		}
	})
}

// A conflict with another writer of a node, such as its kubelet, is retried.
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
		n := &Move{Direction: ToNadra}
		if err := (steps{&run{w.runner, w.plan, NewState()}}).cordon(t.Context(), "n1", n); err != nil {
			t.Fatal(err)
		}
		if node := w.node(t); !node.Spec.Unschedulable || len(node.Spec.Taints) != 1 || n.WasCordoned {
			t.Errorf("node %+v, state %+v", node.Spec, n)
		}
	})
}

// A node that has left the cluster does not keep the rest from being rolled back.
func TestRollBackWithoutANode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		state := NewState()
		state.Nodes["gone"] = &Move{Direction: ToNadra, Step: Assign}
		if err := w.runner.RollBack(t.Context(), w.plan, state, "all"); err != nil {
			t.Fatal(err)
		}
		if s := w.state(t); s.Phase != RolledBack || !slices.Contains(w.progress, "node gone is gone") {
			t.Errorf("state %+v, said %q", s, w.progress)
		}
	})
}

// A node that was deleted and has registered again begins its move again, and so does one that has lost the label
// that its move gave it. In each case the next step that needs the node fails.
func TestMoveOfAnotherNode(t *testing.T) {
	const same, old = "1", "0"
	for name, tt := range map[string]struct {
		move  Move
		label string
		want  Step // the last completed step
	}{
		"the same":                    {Move{Direction: ToNadra, Step: Unconfigure, UID: same}, "nadra", Unconfigure},
		"replaced":                    {Move{Direction: ToNadra, Step: Unconfigure, UID: old}, "", Cordon},
		"replaced, with a label":      {Move{Direction: ToNadra, Step: Unconfigure, UID: old}, "nadra", Cordon},
		"without the label":           {Move{Direction: ToNadra, Step: Unconfigure, UID: same}, "", Cordon},
		"without the label yet":       {Move{Direction: ToNadra, Step: Inspect, UID: same}, "", Assign},
		"of an earlier version":       {Move{Direction: ToNadra, Step: Unconfigure}, "nadra", Unconfigure},
		"finished":                    {Move{Direction: ToNadra, Step: Recover, UID: same}, "nadra", Recover},
		"finished, replaced":          {Move{Direction: ToNadra, Step: Recover, UID: old}, "nadra", Cordon},
		"finished, without the label": {Move{Direction: ToNadra, Step: Recover}, "", Cordon},
		"back: the same":              {Move{Direction: ToMultus, Step: Release, UID: same}, "returning", Release},
		"back: replaced":              {Move{Direction: ToMultus, Step: Release, UID: old}, "", Drain},
		"back: finished":              {Move{Direction: ToMultus, Step: Recover, UID: same}, "", Recover},
		"back: labelled since":        {Move{Direction: ToMultus, Step: Recover, UID: same}, "nadra", Drain},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				n := w.node(t)
				n.UID, n.Labels = same, map[string]string{v1alpha1.OwnerLabel: tt.label}
				if _, err := w.CoreV1().Nodes().Update(t.Context(), n, metav1.UpdateOptions{}); err != nil {
					t.Fatal(err)
				}
				w.log = "nadra-node: it fails"
				state := NewState()
				state.Nodes["n1"] = &tt.move
				var err error
				if tt.move.Direction == ToNadra {
					err = w.runner.Run(t.Context(), w.plan, state, "")
				} else {
					err = w.runner.RollBack(t.Context(), w.plan, state, "node/n1")
				}
				got := w.state(t).Nodes["n1"]
				if got.Step != tt.want || (err == nil) != (tt.want == Recover) || tt.want == Cordon && got.UID != same {
					t.Errorf("error %v, move %+v, want %s", err, got, tt.want)
				}
			})
		})
	}
}

// A finished move keeps the node's UID.
func TestFinishedMoveKeepsTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		state := NewState()
		state.Nodes["n1"] = &Move{Direction: ToNadra, Step: Uncordon, UID: "1", WasCordoned: true}
		if err := w.runner.Store.Save(t.Context(), w.plan, state); err != nil {
			t.Fatal(err)
		}
		if err := (&run{w.runner, w.plan, state}).nodeMoves().walk(t.Context(), ToNadra, "n1"); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&Move{Direction: ToNadra, Step: Recover, UID: "1"}, state.Nodes["n1"]); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// A rollback whose target is deleted while it is pending can be resumed, and then ends.
func TestResumedRollbackWithoutItsTarget(t *testing.T) {
	for target, beside := range map[string]bool{"node/gone": false, "namespace/gone": false, "Deployment/x/gone": false, "namespace/moved": true} {
		t.Run(target, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.plan.BesideMultus = beside
				if beside {
					w.plan.Waves[0].Nodes = nil
				}
				if target == "namespace/gone" { // Multus serves no node, and no pod needs one
					w.isNadras(t)
				}
				w.runner.Snapshots.Take = func(context.Context, string) ([]byte, error) { return nil, nil }
				w.runner.Snapshots.Compare = func([]byte, []byte) error { return errors.New("its pods are gone") }
				before, err := compressed([]byte("pods"))
				if err != nil {
					t.Fatal(err)
				}
				state := NewState()
				state.Target = target
				state.Nodes["gone"] = &Move{Direction: ToMultus, Step: Drain}
				state.Rollouts["moved"] = &Move{Direction: ToMultus, Step: Restart, Before: before}
				if err := w.runner.RollBack(t.Context(), w.plan, state, target); err != nil {
					t.Fatal(err)
				}
				if s := w.state(t); s.Target != "" || s.Phase != Paused {
					t.Errorf("state %+v", s)
				}
			})
		})
	}
}

// While a rollback is pending, another one is refused, because nothing would continue the first. A rollback of
// everything includes it.
func TestSecondRollback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.plan.Multus = nil
		w.log = `{"moved":[]}`
		for target, refused := range map[string]bool{"namespace/x": true, "Deployment/x/web": true, "all": false, "node/n1": false} {
			state := NewState()
			state.Target = "node/n1"
			state.Nodes["n1"] = &Move{Direction: ToMultus, Step: Release}
			err := w.runner.RollBack(t.Context(), w.plan, state, target)
			var gate *GateError
			switch {
			case refused && (!errors.As(err, &gate) || state.Target != "node/n1" || state.Nodes["n1"].Step != Release):
				t.Errorf("%s: error %v, state %+v", target, err, state)
			case !refused && (err != nil || state.Target != "" || !state.Nodes["n1"].atMultus()):
				t.Errorf("%s: error %v, state %+v", target, err, state)
			}
		}
	})
}

// A rollback lets no pod come before the runtime has Multus' configuration, because the
// pod would start without its networks.
func TestRollBackWaitsForTheConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pod("p", "web"))
		if _, err := w.run(t); err == nil {
			t.Fatal("it did not stop")
		}
		w.comesBack(t)
		logs := []string{`{"sandboxes":0}`, `{"moved":[],"left":["10-default.conflist"]}`, "nadra-node: waiting for Multus' configuration: [MultusConfigurationMissing] /conf has none"}
		w.runner.Nodes.Raw = func(context.Context, string) ([]byte, error) {
			log := logs[0]
			logs = logs[1:]
			return []byte(log), nil
		}
		err := w.runner.RollBack(t.Context(), w.plan, w.state(t), "node/n1")
		isGate(t, err, "node n1: return", "", "waiting for Multus' configuration: nadra-node: waiting")
		if s := w.state(t); reason.In(s.Reason) != reason.MultusConfigurationMissing {
			t.Errorf("state %+v, want the error that the pod on the node logged", s)
		}
		if n := w.node(t); !n.Spec.Unschedulable || len(n.Spec.Taints) == 0 {
			t.Errorf("node %+v is open for pods", n.Spec)
		}
	})
}

// An API server that restarts is waited for; an error that lasts is not.
func TestTransientErrors(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		want bool // whether the drain fails
	}{
		"restarting": {&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, false},
		"overloaded": {apierrors.NewInternalError(errors.New("etcdserver: leader changed")), false},
		"forbidden":  {apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("no")), true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, claimed(pod("p", "web"))...)
			w.runner.DrainTimeout = 10 * time.Second
			fail := 3
			w.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
				if fail--; fail >= 0 {
					return true, nil, tt.err
				}
				return false, nil, nil
			})
			steps := steps{&run{w.runner, w.plan, NewState()}}
			err := steps.drain(t.Context(), "n1", &Move{Direction: ToMultus})
			if !tt.want && (err != nil || len(w.evicted) != 1) || tt.want && !apierrors.IsForbidden(err) {
				t.Errorf("error %v, evicted %q", err, w.evicted)
			}
		})
	}
}

// TestHandoverPod checks that the pod on a node sees the two directories, and no other.
func TestHandoverPod(t *testing.T) {
	h := steps{&run{Runner: &Runner{ConfDir: "/srv/cni/net.d", Kept: "/srv/nadra/multus"}}}
	pod := h.writingPod("node-1", "off")
	var paths []string
	for _, v := range pod.Spec.Volumes {
		paths = append(paths, v.Name+" "+v.HostPath.Path)
	}
	if want := []string{"conf /srv/cni/net.d", "kept /srv/nadra/multus"}; !slices.Equal(paths, want) {
		t.Errorf("the pod's volumes are %q, want %q", paths, want)
	}
}
