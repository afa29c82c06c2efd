package driver

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	nri "github.com/containerd/nri/pkg/api"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/nadra-dev/nadra/internal/gate"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/driver/internal/networkstatus"
	"github.com/nadra-dev/nadra/test/drivertest"
)

// editWorld is a world with an API server that stores network-status, and a driver that follows
// edits. Networks blue and red can be attached, and vf draws from a resource pool. Pod web has
// claim a with blue twice, and pod solo has no claim.
type editWorld struct {
	*world
	t       *testing.T
	kube    *fake.Clientset
	restart corev1.RestartPolicy
	// described gives sandboxes the mark that the webhook wrote their annotation from claims.
	described bool
}

func inEditWorld(t *testing.T, test func(*testing.T, *editWorld)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		kube := fake.NewClientset()
		vf := nad("vf", blueConf)
		vf.Annotations = map[string]string{attachment.ResourceNameAnnotation: "example.com/vf"}
		d := newDriverWith(t, setup{
			heldStatus: true,
			cfg:        func(c *Config) { c.Ownership.Unclaimed = AttachUnclaimed },
			clients:    func(c *Clients) { c.NetworkStatus = kube },
		}, nad("blue", blueConf), nad("red", redConf), vf)
		prepare(t, d, claim("a", "blue", "blue"))
		w := &editWorld{t: t, kube: kube, restart: corev1.RestartPolicyAlways, world: &world{Driver: d, store: d.store, k: kernelOf(d), hooks: newHooks(d, time.Second)}}
		for _, name := range []string{"web", "solo"} {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name + "-uid")}}
			if err := kube.Tracker().Add(pod); err != nil {
				t.Fatal(err)
			}
		}
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan struct{}, 3)
		go func() { d.networkStatus.Run(ctx, d.jobs.attachAgain); ended <- struct{}{} }()
		go func() { _ = d.edits.run(ctx); ended <- struct{}{} }()
		go func() { _ = d.attacher.PendingDELs.Run(ctx); ended <- struct{}{} }()
		test(t, w)
		end()
		for range cap(ended) { // they begin operations
			<-ended
		}
		d.operations.Cancel(errDriverStop)
		d.background.Cancel(errDriverStop)
		d.operations.Wait()
		d.background.Wait()
	})
}

// run starts a pod's sandbox of this ID, with its annotation as the API server has it.
func (w *editWorld) run(name, id, networks string) *nri.PodSandbox {
	w.t.Helper()
	w.annotate(name, networks)
	pod := with(asking(name, networks), func(p *nri.PodSandbox) { p.Id = id; p.Linux.Namespaces[0].Path = "/run/netns/" + id })
	if w.described {
		pod.Annotations[v1alpha1.DescribedAnnotation] = "default/blue"
	}
	if err := w.RunPodSandbox(w.t.Context(), pod); err != nil {
		w.t.Fatal(err)
	}
	w.see(name)
	return pod
}

// edit changes a pod's annotation and lets the driver see it, and then what it has written.
func (w *editWorld) edit(name, networks string) {
	w.t.Helper()
	w.annotate(name, networks)
	w.see(name)
}

// annotate changes a pod's annotation, of which the driver does not know yet.
func (w *editWorld) annotate(name, networks string) {
	w.t.Helper()
	pod := w.pod(name)
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[attachment.NetworksAnnotation] = networks
	if _, err := w.kube.CoreV1().Pods("default").Update(w.t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	w.deliver(name)
}

func (w *editWorld) pod(name string) *corev1.Pod {
	w.t.Helper()
	pod, err := w.kube.CoreV1().Pods("default").Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return pod
}

// deliver makes the driver's watch have the pod as the API server has it.
func (w *editWorld) deliver(name string) (before, now *metav1.PartialObjectMetadata) {
	w.t.Helper()
	pod := w.pod(name)
	pod.Spec.RestartPolicy = w.restart
	known, err := slimPod(pod)
	if err != nil {
		w.t.Fatal(err)
	}
	before = w.Driver.watch.Find(attachment.PodRef{Namespace: "default", Name: name, UID: name + "-uid"})
	if err := w.Driver.watch.informer.GetStore().Add(known); err != nil {
		w.t.Fatal(err)
	}
	return before, metaOf(known)
}

// see tells the driver of changes of the pod until it makes no more.
func (w *editWorld) see(name string) {
	w.t.Helper()
	w.Driver.edits.changed(name + "-uid")
	for range 4 {
		after(100 * time.Millisecond)
		if before, now := w.deliver(name); isEdit(before, now) {
			w.Driver.edits.podChanged(before, now)
		}
	}
}

// has checks what a pod has: the interfaces that plugins have made in its sandbox, the same in
// its network-status in this order, and no record of anything else that needs a DEL.
func (w *editWorld) has(name, sandbox string, networks ...string) {
	w.t.Helper()
	shown, err := networkstatus.Shown(w.pod(name).Annotations[nadv1.NetworkStatusAnnot])
	if err != nil {
		w.t.Error(err)
	}
	var listed, recorded []string
	for _, s := range shown {
		listed = append(listed, strings.TrimPrefix(s.Name, "default/")+"@"+s.Interface)
	}
	made := map[string]bool{}
	for _, r := range w.store.ForPod(name + "-uid") {
		if r.NeedsDEL() {
			recorded = append(recorded, r.Attachment.Network.Name+"@"+r.Attachment.Interface)
			made[sandbox+"/"+r.Attachment.Interface] = true
		}
	}
	drivertest.Same(w.t, "network-status of "+name, networks, listed)
	drivertest.Same(w.t, "records of "+name, networks, recorded)
	drivertest.Same(w.t, "interfaces", made, w.k.Has)
}

// eventReasons returns the reasons of the events since the last call.
func (w *editWorld) eventReasons() []string {
	w.t.Helper()
	var out []string
	for _, e := range eventsOf(w.t, w.Driver) {
		out = append(out, strings.Fields(e)[1])
	}
	return out
}

// admitted checks that a container of the pod starts at once.
func (w *editWorld) admitted(pod *nri.PodSandbox) {
	w.t.Helper()
	if _, _, err := w.CreateContainer(w.t.Context(), pod, &nri.Container{}); err != nil {
		w.t.Error(err)
	}
	records := w.store.ForPod(pod.GetUid())
	files := map[string]bool{}
	for _, r := range records {
		files[r.FileUID()] = true
	}
	for uid := range files {
		data, err := json.Marshal(map[string]any{"version": 1, "records": w.store.ForClaim(uid)})
		if err != nil {
			w.t.Fatal(err)
		}
		here := gate.Where{SandboxID: pod.GetId(), Cookie: drivertest.CookieOf(pod.GetLinux().GetNamespaces()[0].GetPath()), BootID: "boot-1"}
		if verdict, err := gate.Decide(data, here); verdict != gate.Go {
			w.t.Errorf("the gate: %v, %v", verdict, err)
		}
	}
}

// TestDescribedNetworksStay empties the annotation of a pod for which the webhook has written it from the claims, as
// KubeVirt does. The pod keeps the claims' networks, also in its next sandbox, which the kubelet makes with the empty one.
func TestDescribedNetworksStay(t *testing.T) {
	inEditWorld(t, func(t *testing.T, w *editWorld) {
		w.described = true
		first := w.run("web", "s1", "default/blue,default/blue")
		w.has("web", "s1", "blue@net1", "blue@net2")
		w.edit("web", "red")
		w.has("web", "s1", "blue@net1", "blue@net2", "red@net3")
		w.edit("web", "")
		w.has("web", "s1", "blue@net1", "blue@net2")
		if err := w.StopPodSandbox(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		w.run("web", "s2", "")
		w.has("web", "s2", "blue@net1", "blue@net2")
	})
}
