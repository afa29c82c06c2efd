package canary

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	nadfake "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/client/clientset/versioned/fake"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/internal/probe"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

func labelled(name, config string) *nadv1.NetworkAttachmentDefinition {
	out := nad(name, config)
	out.Labels = map[string]string{"net": name}
	return out
}

func planOfAll(names ...string) *Plan {
	in := Input{Offers: map[attachment.NetworkRef][]string{}, Settings: Settings{Run: "r", Image: "x", Timeout: time.Minute}}
	for _, name := range names {
		in.NADs = append(in.NADs, labelled(name, macvlan))
		in.Offers[attachment.NetworkRef{Namespace: "a", Name: name}] = []string{"n1", "n2"}
	}
	return NewPlan(in)
}

// world is a cluster in which canaries become ready, each with its own address.
type world struct {
	kube *fake.Clientset
	mu   sync.Mutex
	n    int
	ips  map[string]string // by pod
	most int               // the largest number of canaries at a time
	exec Exec
}

func newWorld(objects ...runtime.Object) *world {
	w := &world{kube: fake.NewClientset(objects...), ips: map[string]string{}}
	w.kube.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.n++
		w.most = max(w.most, w.n)
		pod := a.(clienttesting.CreateAction).GetObject().(*corev1.Pod)
		w.ips[pod.Name] = fmt.Sprintf("10.0.0.%d", len(w.ips)+2)
		status, err := json.Marshal([]nadv1.NetworkStatus{
			{Name: "cbr0", Interface: "eth0", Default: true}, {Name: pod.Annotations[attachment.NetworksAnnotation], Interface: "net1", IPs: []string{w.ips[pod.Name]}},
		})
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, nadv1.NetworkStatusAnnot, string(status))
		pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
		return false, nil, err
	})
	w.kube.PrependReactor("delete", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.n--
		return false, nil, nil
	})
	w.exec = w.answer
	return w
}

// answer answers for a canary without problems.
func (w *world) answer(_ context.Context, pod Pod, command ...string) ([]byte, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if command[2] == "inspect" {
		return json.Marshal(probe.Inspection{APIVersion: APIVersion, Kind: probe.InspectionKind, Links: []probe.Link{
			{Name: "net1", Up: true, Running: true, Addresses: []string{w.ips[pod.Name] + "/24"}},
		}})
	}
	out := probe.Pings{APIVersion: APIVersion, Kind: probe.PingsKind}
	for _, arg := range command[3:] {
		if !strings.HasPrefix(arg, "--") {
			out.Pings = append(out.Pings, probe.Ping{Address: arg, Via: "net1", Method: probe.ICMP, Sent: 5, Received: 5, MedianMicros: 100})
		}
	}
	return json.Marshal(out)
}

func (w *world) runner(parallel int) Runner {
	return Runner{Kube: w.kube, Exec: func(ctx context.Context, pod Pod, command ...string) ([]byte, error) {
		return w.exec(ctx, pod, command...)
	}, Parallel: parallel, Poll: time.Second}
}

// nothingLeft fails the test if canaries are left.
func (w *world) nothingLeft(t *testing.T) {
	t.Helper()
	list, err := w.kube.CoreV1().Pods("a").List(context.Background(), metav1.ListOptions{LabelSelector: Selector()})
	if err != nil || len(list.Items) > 0 {
		t.Errorf("%d canaries are left, %v", len(list.Items), err)
	}
}

func run(t *testing.T, w *world, parallel int, plan *Plan) *Report {
	t.Helper()
	r, err := w.runner(parallel).Run(t.Context(), plan)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRun(t *testing.T) {
	w := newWorld()
	r := run(t, w, 20, planOfAll("blue", "red"))
	if r.Summary.PodsOK != 4 || r.Summary.PingsOK != 4 || r.Summary.Warning+r.Summary.Blocker > 0 || len(r.LeftBehind) > 0 {
		t.Errorf("report %+v", r)
	}
	w.nothingLeft(t)
}

// Parallel limits the canaries at a time, unless one network has more.
func TestRunParallel(t *testing.T) {
	for parallel, most := range map[int]int{1: 2, 2: 2, 4: 4} {
		w := newWorld()
		run(t, w, parallel, planOfAll("a", "b", "c", "d", "e"))
		if w.most > most {
			t.Errorf("--parallel %d: %d canaries at a time", parallel, w.most)
		}
		w.nothingLeft(t)
	}
}

// Canaries of an earlier run are deleted first; other pods are kept.
func TestRunSweeps(t *testing.T) {
	old := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "old", Labels: map[string]string{NameLabel: Name, ManagerLabel: ManagerName, runLabel: "earlier"}}}
	other := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "other"}}
	w := newWorld(old, other)
	run(t, w, 20, planOfAll("blue"))
	w.nothingLeft(t)
	if _, err := w.kube.CoreV1().Pods("a").Get(t.Context(), "other", metav1.GetOptions{}); err != nil {
		t.Errorf("another's pod: %v", err)
	}
	actions := w.kube.Actions()
	del := slices.IndexFunc(actions, func(a clienttesting.Action) bool { return a.GetVerb() == "delete" })
	create := slices.IndexFunc(actions, func(a clienttesting.Action) bool { return a.GetVerb() == "create" })
	if del > create {
		t.Error("the old one goes after the new ones were made")
	}
}

// The report has the state of a canary that is not ready, and the last warning about it.
func TestRunFails(t *testing.T) {
	for name, test := range map[string]struct {
		change func(w *world)
		says   string
	}{
		"no node takes it": {func(w *world) {
			w.become(corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/2 nodes are available"}}})
		}, "0/2 nodes are available; FailedCreatePodSandBox: no free address"},
		"client-go sends no request so shortly before the end": {func(w *world) {
			reads := 0
			w.kube.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
				reads++
				return reads <= 2, nil, errors.New("client rate limiter Wait returned an error: rate: Wait(n=1) would exceed context deadline")
			})
		}, "; FailedCreatePodSandBox: no free address"},
		"it has ended": {func(w *world) {
			w.become(corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error"}}}}})
		}, "exit code 1 Error; FailedCreatePodSandBox"},
		"it lacks the network": {func(w *world) {
			w.kube.PrependReactor("get", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
				o, err := w.kube.Tracker().Get(a.GetResource(), "a", a.(clienttesting.GetAction).GetName())
				if pod, ok := o.(*corev1.Pod); ok {
					delete(pod.Annotations, nadv1.NetworkStatusAnnot)
				}
				return true, o, err
			})
		}, "network-status"},
		"it may not be created": {func(w *world) {
			w.kube.PrependReactor("create", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "x", errors.New(`violates PodSecurity`))
			})
		}, "pods \"x\" is forbidden: violates PodSecurity"},
		"the tool is another": {func(w *world) {
			w.exec = func(context.Context, Pod, ...string) ([]byte, error) { return []byte("usage"), nil }
		}, "listing its interfaces: reading the report of nadra-node"},
		"it may not be inspected": {func(w *world) {
			w.exec = func(context.Context, Pod, ...string) ([]byte, error) { return nil, errors.New("forbidden") }
		}, "forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				plan := planOfAll("blue")
				w := newWorld()
				for _, c := range plan.Networks[0].Pods {
					w.warn(t, c.Name)
				}
				test.change(w)
				r := run(t, w, 20, plan)
				if p := r.Networks[0].Pods[0]; p.Status != Failed || !strings.Contains(strings.Join(p.Problems, ""), test.says) {
					t.Errorf("the canary is %s: %q", p.Status, p.Problems)
				}
				w.nothingLeft(t)
			})
		})
	}
}

// The last warning is the newest one, also if its time is that of the new API for events.
func TestRunTellsTheLastWarning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plan := planOfAll("blue")
		w := newWorld()
		for _, c := range plan.Networks[0].Pods {
			w.warn(t, c.Name)
			for i, reason := range []string{"FailedAttachNetwork", "FailedScheduling"} {
				event := &corev1.Event{
					ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: fmt.Sprint(c.Name, ".", 2+i)}, InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: c.Name},
					Type: corev1.EventTypeWarning, Reason: reason, EventTime: metav1.NewMicroTime(time.Now().Add(-time.Duration(i) * time.Minute)),
				}
				if _, err := w.kube.CoreV1().Events("a").Create(t.Context(), event, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
		}
		w.become(corev1.PodStatus{Phase: corev1.PodPending})
		if p := run(t, w, 20, plan).Networks[0].Pods[0]; !strings.Contains(strings.Join(p.Problems, ""), "; FailedAttachNetwork") {
			t.Errorf("problems %q", p.Problems)
		}
	})
}

// become sets the status of canaries after their creation.
func (w *world) become(status corev1.PodStatus) {
	w.kube.PrependReactor("get", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		o, err := w.kube.Tracker().Get(a.GetResource(), "a", a.(clienttesting.GetAction).GetName())
		if pod, ok := o.(*corev1.Pod); ok {
			pod.Status = status
		}
		return true, o, err
	})
}

func (w *world) warn(t *testing.T, pod string) {
	t.Helper()
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: pod + ".1"}, InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: pod},
		Type: corev1.EventTypeWarning, Reason: "FailedCreatePodSandBox", Message: "no free address",
	}
	if _, err := w.kube.CoreV1().Events("a").Create(t.Context(), event, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// A canary that cannot ping fails its pings, and not itself.
func TestRunPingFails(t *testing.T) {
	w := newWorld()
	w.exec = func(ctx context.Context, pod Pod, command ...string) ([]byte, error) {
		if command[2] == "ping" {
			return nil, errors.New("exit code 1: no such flag")
		}
		return w.answer(ctx, pod, command...)
	}
	r := run(t, w, 20, planOfAll("blue"))
	if r.Summary.PodsOK != 2 || r.Summary.PingsFailed != 2 || !strings.Contains(r.Networks[0].Pings[0].Message, "no such flag") {
		t.Errorf("report %+v", r)
	}
}

// An interrupted run leaves no canaries behind.
func TestRunIsInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.become(corev1.PodStatus{Phase: corev1.PodPending})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(5*time.Second, cancel)
		if _, err := w.runner(2).Run(ctx, planOfAll("a", "b", "c")); !errors.Is(err, context.Canceled) {
			t.Errorf("the error is %v", err)
		}
		w.nothingLeft(t)
	})
}

// Canaries that are not gone in time are listed.
func TestRunLeavesBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.kube.PrependReactor("delete", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, nil })
		r := run(t, w, 20, planOfAll("blue"))
		if len(r.LeftBehind) != 2 || !strings.HasPrefix(r.LeftBehind[0], "a/nadra-canary-blue-") || r.Summary.Warning != 2 {
			t.Errorf("report %+v", r)
		}
		if _, err := w.runner(20).Run(t.Context(), planOfAll("blue")); err == nil || !strings.Contains(err.Error(), "a/nadra-canary-blue-") {
			t.Errorf("the next run: %v", err)
		}
	})
}

func TestReadNetworks(t *testing.T) {
	lists := map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}
	attachment.NetworkIDOf(attachment.NetworkRef{Namespace: "a", Name: "blue"}).AddTo(lists)
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: resourceapi.ResourceSliceSpec{
		Driver: "net.nadra.dev", NodeName: ptr.To("n1"), Pool: resourceapi.ResourcePool{Name: "n1"},
		Devices: []resourceapi.Device{
			{Name: "d", Attributes: lists},
			{Name: "v", Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{attachment.AttributeResourceName: {StringValue: ptr.To("intel.com/vf")}}},
		},
	}}
	nads := nadfake.NewSimpleClientset()
	for _, n := range []*nadv1.NetworkAttachmentDefinition{labelled("red", macvlan), labelled("blue", macvlan)} {
		if _, err := nads.K8sCniCncfIoV1().NetworkAttachmentDefinitions("a").Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	base := Networks{Kube: fake.NewClientset(slice, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}), NADs: nads, Namespace: "a", Own: "a"}
	for name, test := range map[string]struct {
		change func(*Networks)
		want   []string
		says   string
	}{
		"all of the namespace":   {func(*Networks) {}, []string{"blue", "red"}, ""},
		"of another namespace":   {func(n *Networks) { n.Namespace = "b" }, nil, ""},
		"of all namespaces":      {func(n *Networks) { n.Namespace = "" }, []string{"blue", "red"}, ""},
		"by label":               {func(n *Networks) { n.Selector = "net=red" }, []string{"red"}, ""},
		"by name, twice":         {func(n *Networks) { n.Names = []string{"red", "a/red", "a/blue"} }, []string{"blue", "red"}, ""},
		"one that is not there":  {func(n *Networks) { n.Names = []string{"b/red"} }, nil, "network b/red"},
		"a node that is there":   {func(n *Networks) { n.Nodes = []string{"n1"} }, []string{"blue", "red"}, ""},
		"a node that is nowhere": {func(n *Networks) { n.Nodes = []string{"n9"} }, nil, `node "n9"`},
	} {
		n := base
		test.change(&n)
		got, offers, err := n.Read(t.Context())
		if test.says != "" {
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%s: the error is %v", name, err)
			}
			continue
		}
		var names []string
		for _, one := range got {
			names = append(names, one.Name)
		}
		if err != nil || !slices.Equal(names, test.want) {
			t.Errorf("%s: %v, %v", name, names, err)
		}
		var wantOn []string
		if slices.Contains(test.want, "blue") {
			wantOn = []string{"n1"}
		}
		if on := offers.Networks[attachment.NetworkRef{Namespace: "a", Name: "blue"}]; !slices.Equal(on, wantOn) || !slices.Equal(offers.Pools["intel.com/vf"], []string{"n1"}) {
			t.Errorf("%s: offers %+v", name, offers)
		}
	}
}

// BY is who attached the network, also where pods get no claims (nadra.dev/claims=never).
func TestRunTellsWhoAttached(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		want   attachment.Attacher
	}{
		"Multus":                 {func(*corev1.Pod) {}, attachment.OfMultus},
		"nadra, by a claim":      {func(p *corev1.Pod) { p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "nadra"}} }, attachment.OfNadra},
		"nadra, without a claim": {func(p *corev1.Pod) { p.ManagedFields = []metav1.ManagedFieldsEntry{statusOfDriver()} }, attachment.OfNadra},
		"nadra, by its own annotation": {func(p *corev1.Pod) {
			p.Annotations[attachment.OwnNetworksAnnotation] = p.Annotations[attachment.NetworksAnnotation]
		}, attachment.OfNadra},
	} {
		w := newWorld()
		w.kube.PrependReactor("get", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
			o, err := w.kube.Tracker().Get(a.GetResource(), "a", a.(clienttesting.GetAction).GetName())
			if pod, ok := o.(*corev1.Pod); ok {
				test.change(pod)
			}
			return true, o, err
		})
		if p := run(t, w, 20, planOfAll("blue")).Networks[0].Pods[0]; p.By != test.want {
			t.Errorf("%s: the report says %q", name, p.By)
		}
	}
}

// statusOfDriver returns the field manager's entry of a network-status that nadra has written.
func statusOfDriver() metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{
		Manager: v1alpha1.DriverName, FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{"f:` + nadv1.NetworkStatusAnnot + `":{}}}}`),
	}
}
