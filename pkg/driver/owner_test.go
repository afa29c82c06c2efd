package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	nri "github.com/containerd/nri/pkg/api"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	metadatafake "k8s.io/client-go/metadata/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/events"
	"github.com/nadra-dev/nadra/test/drivertest"
)

// byLabel is how nadra-node runs beside Multus.
var byLabel = Ownership{Label: "nadra.dev/owner", Value: "nadra", Unclaimed: RefuseUnclaimed, Exempt: []string{"kube-system/dns-*", "default/kept"}}

// asking returns a sandbox of a pod without a claim and with this annotation.
func asking(name, networks string) *nri.PodSandbox {
	return &nri.PodSandbox{
		Id: "s", Namespace: "default", Name: name, Uid: name + "-uid", Pid: 7,
		Annotations: map[string]string{attachment.NetworksAnnotation: networks, configSource: sourceAPI},
		Linux:       &nri.LinuxPodSandbox{Namespaces: []*nri.LinuxNamespace{{Type: "network", Path: "/run/netns/x"}}},
	}
}

func with(pod *nri.PodSandbox, change func(*nri.PodSandbox)) *nri.PodSandbox {
	change(pod)
	return pod
}

func TestWhichPodsWithoutAClaimAreRefused(t *testing.T) {
	static := func(p *nri.PodSandbox) { p.Annotations[configSource] = "file" }
	for _, tt := range []struct {
		name string
		pod  *nri.PodSandbox
		says []string // nil: it may run
	}{
		{"no annotation", &nri.PodSandbox{Namespace: "default", Name: "a"}, nil},
		{"an empty one", asking("a", ""), nil},
		{"a blank one", asking("a", " \n"), nil},
		{"an empty list", asking("a", " [ ] "), nil},
		{"one network", asking("a", "blue"), []string{
			"pod default/a ", "network default/blue ", "k8s.v1.cni.cncf.io/networks", "node node-1 ", "nadra.dev/owner=nadra",
			reason.LateAnnotation, "kubectl nadra convert", "--exempt-pods",
		}},
		{"two", asking("a", `[{"name":"blue"},{"name":"red","namespace":"prod"}]`), []string{"default/blue", "prod/red "}},
		{"many", asking("a", "n1,n2,n3,n4,n5"), []string{"default/n1, default/n2, default/n3 and 2 "}},
		{"broken", asking("a", `[{"name":"blue"`), []string{"pod default/a ", "node-1", "k8s.v1.cni.cncf.io/networks"}},
		{"no such field", asking("a", `[{"name":"blue","mac":"x"}]`), []string{"networks[0].mac"}},
		{"the host's network", with(asking("a", "blue"), func(p *nri.PodSandbox) { p.Linux = nil }), nil},
		{"static", with(asking("etcd-node-1", "blue"), static), []string{"pod default/etcd-node-1 ", "DaemonSet", "--exempt-pods"}},
		{"exempt by name", asking("kept", "blue"), nil},
		{"exempt by name, and broken", asking("kept", "["), nil},
		{"longer than the name", asking("kept-2", "blue"), []string{"default/kept-2"}},
		{"exempt by pattern, static", with(asking("dns-node-1", "blue"), func(p *nri.PodSandbox) { static(p); p.Namespace = "kube-system" }), nil},
		{"the pattern's name elsewhere", asking("dns-node-1", "blue"), []string{"default/dns-node-1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := unclaimedNetworksOf(tt.pod, nowhere)
			if tt.says == nil && err != nil {
				t.Error(err)
			}
			if tt.says != nil {
				drivertest.WantReason(t, err, reason.NoClaim, tt.says...)
			}
			if err != nil && len(err.Error()) > events.MaxMessage*3/4 {
				t.Errorf("the runtime and the kubelet add to %d bytes", len(err.Error()))
			}
		})
	}
}

// unclaimedNetworksOf returns what a pod gets on a node of nadra's that refuses pods without claims.
func unclaimedNetworksOf(pod *nri.PodSandbox, isHost func(string) bool) ([]attachment.Selection, error) {
	w, s := &owner{Ownership: byLabel, node: "node-1"}, (&node{environment: &environment{isHost: isHost}}).liveOf(pod)
	if !w.concerned(s, RefuseUnclaimed) {
		return nil, nil
	}
	return w.unclaimedNetworks(s, *s.Networks, RefuseUnclaimed)
}

// TestRefusalNeedsTheNode checks that the node's owner and the setting decide together,
// and that a pod with a claim is never refused.
func TestRefusalNeedsTheNode(t *testing.T) {
	for _, tt := range []struct {
		label, refuse, ours, refused bool
	}{
		{label: false, refuse: false, ours: false, refused: false},
		{label: false, refuse: true, ours: false, refused: true},
		{label: true, refuse: true, ours: false, refused: false},
		{label: true, refuse: true, ours: true, refused: true},
		{label: true, refuse: false, ours: true, refused: false},
	} {
		t.Run(fmt.Sprintf("%+v", tt), func(t *testing.T) {
			o := Ownership{Unclaimed: AllowUnclaimed}
			if tt.refuse {
				o.Unclaimed = RefuseUnclaimed
			}
			if tt.label {
				o.Label, o.Value = byLabel.Label, byLabel.Value
			}
			inWorldWith(t, setup{cfg: func(c *Config) { c.Ownership = o }}, blueConf, func(t *testing.T, w *world) {
				w.owner.labelled.Store(tt.ours)
				err := w.RunPodSandbox(t.Context(), asking("a", "blue"))
				if refused := err != nil; refused != tt.refused {
					t.Errorf("refused: %v", err)
				}
				events := 0
				if tt.refused {
					events = 1
					if !tt.label {
						drivertest.WantReason(t, err, reason.NoClaim, "node node-1")
					}
				}
				got := eventsOf(t, w.Driver)
				drivertest.Same(t, "events", events, len(got))
				if tt.refused {
					drivertest.WantReasonIn(t, got[0], reason.NoClaim, "Warning "+reason.EventFailedNoClaim+" ", "pod default/a ", "network default/blue")
				}
				claimed := podNo(1)
				claimed.Annotations = map[string]string{attachment.NetworksAnnotation: "blue,blue"}
				if err := w.RunPodSandbox(t.Context(), claimed); err != nil {
					t.Errorf("a pod with a claim: %v", err)
				}
				drivertest.Same(t, "phases", bothAttached, w.phases())
			})
		})
	}
}

// TestRunningPodsAreNotRefused checks that sandboxes which run when the driver connects
// are not refused, and neither are containers.
func TestRunningPodsAreNotRefused(t *testing.T) {
	inWorldWith(t, setup{cfg: func(c *Config) { c.Ownership = byLabel }}, blueConf, func(t *testing.T, w *world) {
		w.owner.labelled.Store(true)
		pod := asking("a", "blue")
		runs := []*nri.Container{{PodSandboxId: pod.GetId(), State: nri.ContainerState_CONTAINER_RUNNING}}
		if _, err := w.Synchronize(t.Context(), []*nri.PodSandbox{pod}, runs); err != nil {
			t.Error(err)
		}
		if _, _, err := w.CreateContainer(t.Context(), pod, &nri.Container{}); err != nil {
			t.Error(err)
		}
		for _, end := range []func(context.Context, *nri.PodSandbox) error{w.StopPodSandbox, w.RemovePodSandbox} {
			if err := end(t.Context(), pod); err != nil {
				t.Error(err)
			}
		}
		drivertest.Same(t, "plugins", 0, len(w.k.Calls))
		drivertest.Same(t, "events", 0, len(eventsOf(t, w.Driver)))
	})
}

// TestWhatHasNotBegunIsRefused plays what a node of nadra's that refuses pods without claims does with the
// next container of a sandbox that no hook of the present connection has refused: it refuses the container
// unless one before it was admitted or runs.
func TestWhatHasNotBegunIsRefused(t *testing.T) {
	pod := asking("solo", "blue")
	static := with(asking("solo", "blue"), func(p *nri.PodSandbox) { p.Annotations[configSource] = "file" })
	container := &nri.Container{PodSandboxId: pod.GetId()}
	connect := func(t *testing.T, w *world, containers ...*nri.Container) {
		t.Helper()
		if _, err := w.Synchronize(t.Context(), []*nri.PodSandbox{pod}, containers); err != nil {
			t.Error(err)
		}
	}
	run := func(t *testing.T, w *world, pod *nri.PodSandbox, containers int) {
		t.Helper()
		if err := w.RunPodSandbox(t.Context(), pod); err != nil {
			t.Error(err)
		}
		for range containers {
			if _, _, err := w.CreateContainer(t.Context(), pod, container); err != nil {
				t.Error(err)
			}
		}
	}
	owner := func(w *world, ours bool) {
		w.owner.labelled.Store(ours)
		w.unclaimed.reconsider()
	}
	for _, tt := range []struct {
		name    string
		before  func(*testing.T, *world)
		pod     *nri.PodSandbox
		refused bool
	}{
		{"made while nobody was connected", func(t *testing.T, w *world) { connect(t, w) }, pod, true},
		{"runs at the connection", func(t *testing.T, w *world) { connect(t, w, container) }, pod, false},
		{"another pod runs", func(t *testing.T, w *world) { connect(t, w, &nri.Container{PodSandboxId: "other"}) }, pod, true},
		{"made while the runtime synchronised", func(t *testing.T, w *world) {
			if _, _, err := w.CreateContainer(t.Context(), pod, container); err == nil {
				t.Error("the first try was admitted")
			}
		}, pod, true},
		{"made for another owner", func(t *testing.T, w *world) { owner(w, false); run(t, w, pod, 0); owner(w, true) }, pod, true},
		{"has run for another owner", func(t *testing.T, w *world) { owner(w, false); run(t, w, pod, 1); owner(w, true) }, pod, false},
		{"has run, and nothing does at the connection", func(t *testing.T, w *world) {
			owner(w, false)
			run(t, w, pod, 1)
			owner(w, true)
			connect(t, w)
		}, pod, false},
		{"has a device, and has run for another owner", func(t *testing.T, w *world) {
			if err := w.store.Put([]attachment.Prepared{{
				Claim: attachment.ClaimRef{Namespace: "default", Name: "device", UID: "device-uid"}, Request: "device", Pool: "pool", Device: "0",
				Pod: sandboxOf(pod, nowhere).Pod, DeviceOnly: true, Hardware: &attachment.Hardware{},
			}}); err != nil {
				t.Fatal(err)
			}
			owner(w, false)
			run(t, w, pod, 1)
			owner(w, true)
		}, pod, false},
		{"is static, and has run while the owner was unknown", func(t *testing.T, w *world) {
			w.owner.seen.Store(false)
			run(t, w, static, 1)
			w.owner.seen.Store(true)
			w.unclaimed.attachPending()
			synctest.Wait()
		}, static, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorldWith(t, setup{cfg: func(c *Config) { c.Ownership = byLabel }}, blueConf, func(t *testing.T, w *world) {
				w.knows(t, "solo-uid", tt.pod.GetAnnotations())
				w.owner.labelled.Store(true)
				tt.before(t, w)
				w.unclaimed.attachPending() // as the sweep does
				synctest.Wait()
				_, _, err := w.CreateContainer(t.Context(), tt.pod, container)
				if tt.refused {
					drivertest.WantReason(t, err, reason.NoClaim, "pod default/solo", "network default/blue")
				} else if err != nil {
					t.Error(err)
				}
				drivertest.Same(t, "plugins", 0, len(w.k.Calls))
			})
		})
	}
}

// TestSandboxStaysBegun checks that a decision about a sandbox that was made by what was known before does not
// undo that a container of it was admitted meanwhile, and that a new sandbox has not begun.
func TestSandboxStaysBegun(t *testing.T) {
	l := newLiveSandboxes()
	s := (&node{environment: &environment{isHost: nowhere}}).liveOf(asking("solo", "blue"))
	l.add(s)
	l.begin(s.Pod.UID, s.ID)
	l.add(s)
	known, _ := l.of(s.Pod.UID)
	drivertest.Same(t, "has begun", true, known.begun)
	next := s
	next.ID = "s2"
	l.begin(s.Pod.UID, next.ID)
	l.add(next)
	known, _ = l.of(s.Pod.UID)
	drivertest.Same(t, "the next has begun", false, known.begun)
}

func nodeClient(t *testing.T, nodes ...runtime.Object) *metadatafake.FakeMetadataClient {
	t.Helper()
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	client := metadatafake.NewSimpleMetadataClient(scheme, nodes...)
	// A watch begins with the list before it, as with an API server: the fake would lose what changes between them.
	var mu sync.Mutex
	begun := map[schema.GroupVersionResource]watch.Interface{}
	client.PrependReactor("list", "*", func(a k8stesting.Action) (bool, runtime.Object, error) {
		mu.Lock()
		defer mu.Unlock()
		if before := begun[a.GetResource()]; before != nil {
			before.Stop()
		}
		var err error
		begun[a.GetResource()], err = client.Tracker().Watch(a.GetResource(), a.GetNamespace())
		return err != nil, nil, err
	})
	client.PrependWatchReactor("*", func(a k8stesting.Action) (bool, watch.Interface, error) {
		mu.Lock()
		defer mu.Unlock()
		w := begun[a.GetResource()]
		delete(begun, a.GetResource())
		return w != nil, w, nil
	})
	return client
}

func nodeMeta(name string, labels map[string]string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
	}
}

// TestOwnerFollowsItsNode checks that a changed label is reported, and that what a driver
// finds when it is started is not.
func TestOwnerFollowsItsNode(t *testing.T) {
	mine := map[string]string{"nadra.dev/owner": "nadra"}
	for _, tt := range []struct {
		name     string
		first    map[string]string
		ours     bool
		attaches bool
	}{
		{"no label", nil, false, false},
		{"nadra's", mine, true, true},
		{"Multus'", map[string]string{"nadra.dev/owner": "multus"}, false, false},
		{"given back", map[string]string{"nadra.dev/owner": "returning"}, false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			client := nodeClient(t, nodeMeta("node-1", tt.first), nodeMeta("node-2", mine))
			w := newOwner(client, "node-1", t.TempDir(), byLabel, false)
			changes := run(t, w)
			drivertest.Same(t, "at the start", tt.ours, w.owned())
			attaches, known := w.attaches()
			drivertest.Same(t, "attaches at the start, and it is known", [2]bool{tt.attaches, true}, [2]bool{attaches, known})
			if tt.ours {
				drivertest.Same(t, "found", [2]bool{true, false}, <-changes)
			}
			for _, labels := range []map[string]string{mine, nil, {"other": "x"}, mine} {
				patchNode(t, client, labels)
			}
			want := [][2]bool{{true, true}, {false, true}, {true, true}}
			if tt.ours {
				want = want[1:]
			}
			for _, change := range want {
				drivertest.Same(t, "change", change, <-changes)
			}
			if err := client.Resource(nodeResource).Delete(t.Context(), "node-1", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			drivertest.Same(t, "when the Node is deleted", [2]bool{false, true}, <-changes)
		})
	}
}

// run starts the watch, ends it with the test, and returns a channel that receives the changes.
func run(t *testing.T, w *owner) chan [2]bool {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done, changes := make(chan error, 1), make(chan [2]bool, 10)
	err := w.start(ctx, func(watch func() error) { go func() { done <- watch() }() }, func(_ context.Context, owned, report bool) {
		changes <- [2]bool{owned, report}
	}, func(_, _ map[string]string) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return changes
}

func patchNode(t *testing.T, client *metadatafake.FakeMetadataClient, labels map[string]string) {
	t.Helper()
	patch, err := json.Marshal([]map[string]any{{"op": "add", "path": "/metadata/labels", "value": labels}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Resource(nodeResource).Patch(t.Context(), "node-1", types.JSONPatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestProfileIsSeenOnEachNode checks that the driver learns what its Node says of the profile also where no label says
// whose the node is, and when the Node is deleted.
func TestProfileIsSeenOnEachNode(t *testing.T) {
	node := nodeMeta("node-1", map[string]string{v1alpha1.ProfileLabel: "a"})
	node.Annotations = map[string]string{v1alpha1.FactsAnnotation: "{}"}
	client := nodeClient(t, node)
	w := newOwner(client, "node-1", t.TempDir(), Ownership{}, true)
	seen, done := make(chan [2]string, 1), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	err := w.start(ctx, func(watch func() error) { go func() { done <- watch() }() }, func(context.Context, bool, bool) {
		t.Error("the owner of a node without a label changed")
	}, func(labels, annotations map[string]string) {
		seen <- [2]string{labels[v1alpha1.ProfileLabel], annotations[v1alpha1.FactsAnnotation]}
	})
	if err != nil {
		t.Fatal(err)
	}
	drivertest.Same(t, "at the start", [2]string{"a", "{}"}, <-seen)
	if err := client.Resource(nodeResource).Delete(t.Context(), "node-1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	drivertest.Same(t, "when the Node is deleted", [2]string{}, <-seen)
	drivertest.Same(t, "ours, and known", [2]bool{true, true}, [2]bool{w.owned(), w.known()})
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestOwnerOfAnUnreadableNode checks that the driver starts if it cannot read its Node,
// which counts as not nadra's until it can be read.
func TestOwnerOfAnUnreadableNode(t *testing.T) {
	client := nodeClient(t, nodeMeta("node-1", map[string]string{"nadra.dev/owner": "nadra"}))
	var allowed atomic.Bool
	client.PrependReactor("list", "nodes", func(k8stesting.Action) (bool, runtime.Object, error) {
		return !allowed.Load(), nil, errors.New("nodes is forbidden")
	})
	w := newOwner(client, "node-1", t.TempDir(), byLabel, false)
	w.wait = 50 * time.Millisecond
	started := time.Now()
	changes := run(t, w)
	if took := time.Since(started); took < w.wait {
		t.Errorf("waited for %s", took)
	}
	drivertest.Same(t, "ours", false, w.owned())
	allowed.Store(true)
	drivertest.Same(t, "ours, once it can be read", [2]bool{true, false}, <-changes)
}

// TestLabelComesAndGoes checks over real sockets that the slices follow the label while a
// pod runs.
func TestLabelComesAndGoes(t *testing.T) {
	c := claim("a", "blue")
	var client *metadatafake.FakeMetadataClient
	n := startNode(t, c, func(cfg *Config, clients *Clients) {
		cfg.Ownership = byLabel
		client = nodeClient(t, nodeMeta("node-1", nil))
		clients.Metadata = client
	})
	n.prepare(t, c) // allocated when the node was ours
	if err := n.runSandbox(t, podNo(1)); err != nil {
		t.Fatal(err)
	}
	multus := asking("old", "blue")
	if err := n.runSandbox(t, multus); err != nil {
		t.Errorf("a pod of Multus on its own node: %v", err)
	}
	n.publishes(t)
	patchNode(t, client, map[string]string{"nadra.dev/owner": "nadra"})
	n.publishes(t, "node-0-0")
	drivertest.WantReasonIn(t, fmt.Sprint(n.runSandbox(t, with(asking("next", "blue"), func(p *nri.PodSandbox) { p.Id = "s2" }))), reason.NoClaim, "pod default/next")
	patchNode(t, client, nil)
	n.publishes(t)
	drivertest.Same(t, "phases", map[string]checkpoint.Phase{"net1": checkpoint.Attached}, drivertest.Phases(n.store))
	drivertest.Same(t, "plugins", 1, len(n.k.Calls))
	if err := n.runtime.StopPodSandbox(t.Context(), &nri.StopPodSandboxRequest{Pod: podNo(1)}); err != nil {
		t.Fatal(err)
	}
	n.unprepare(t, c)
	drivertest.Same(t, "interfaces", map[string]bool{}, n.k.Has)
	drivertest.Same(t, "records", nil, n.store.All())
	become(t, func() error { // before the driver's end, which drops events that are not sent yet
		events, err := n.clients.Kube.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		var reasons []string
		for _, e := range events.Items {
			reasons = append(reasons, e.InvolvedObject.Kind+" "+e.InvolvedObject.Name+" "+e.Reason)
		}
		for _, want := range []string{"Node node-1 NetworksOwned", "Node node-1 NetworksReleased", "Pod next FailedNoClaim"} {
			if !slices.Contains(reasons, want) {
				return fmt.Errorf("no event %q: %q", want, reasons)
			}
		}
		return nil
	})
	if err := n.stop(); err != nil {
		t.Error(err)
	}
	n.runtime.Stop()
}

// TestNoPodIsAdmittedBeforePoliciesAreRead starts a driver that is slow to read the namespaces. A pod without a
// claim in one whose label refuses such pods does not start meanwhile.
func TestNoPodIsAdmittedBeforePoliciesAreRead(t *testing.T) {
	c := claim("a", "blue")
	n := startNode(t, c, func(cfg *Config, clients *Clients) {
		cfg.Ownership = Ownership{Unclaimed: AllowUnclaimed}
		m := nodeClient(t, &metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
			ObjectMeta: metav1.ObjectMeta{Name: "default", Labels: map[string]string{v1alpha1.UnclaimedLabel: string(RefuseUnclaimed)}},
		})
		m.PrependReactor("list", "namespaces", func(k8stesting.Action) (bool, runtime.Object, error) {
			time.Sleep(time.Second) // a slow API server
			return false, nil, nil
		})
		clients.Metadata = m
	})
	n.serves(t)
	pod := asking("solo", "blue")
	drivertest.WantReasonIn(t, fmt.Sprint(n.runSandbox(t, pod)), reason.NoClaim, "pod default/solo ")
	if err := n.stop(); err != nil {
		t.Error(err)
	}
	n.runtime.Stop()
}
