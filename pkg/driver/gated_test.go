package driver

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/pkg/driver/internal/drivertest"
)

// referencing is a pod with claim net, made from a template, and a container for
// each list of references.
func referencing(containers ...[]corev1.ResourceClaim) *corev1.Pod {
	p := &corev1.Pod{}
	p.Spec.ResourceClaims = []corev1.PodResourceClaim{
		{Name: "net", ResourceClaimTemplateName: ptr.To("template")}, {Name: "own", ResourceClaimName: ptr.To("own-claim")},
	}
	p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "net", ResourceClaimName: ptr.To("web-net-x")}}
	for i, claims := range containers {
		c := corev1.Container{Name: string(rune('a' + i)), Resources: corev1.ResourceRequirements{Claims: claims}}
		if i == 0 {
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
			continue
		}
		p.Spec.Containers = append(p.Spec.Containers, c)
	}
	return p
}

func allocated(name string, requests map[string]string) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	c.Status.Allocation = &resourceapi.AllocationResult{}
	for request, driver := range requests {
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results, resourceapi.DeviceRequestAllocationResult{Request: request, Driver: driver})
	}
	return c
}

func TestUngated(t *testing.T) {
	const ours = "net.nadra.dev"
	net := allocated("web-net-x", map[string]string{"lan": ours, "gpu": "gpu.example.com", "fast/vf": ours})
	own := allocated("own-claim", map[string]string{"wan": ours})
	ref := func(name, request string) []corev1.ResourceClaim {
		return []corev1.ResourceClaim{{Name: name, Request: request}}
	}
	extended := allocated("web-extended", map[string]string{"container-1-request-0": ours})
	extended.Annotations = map[string]string{extendedClaim: "true"}
	withExtended := referencing(nil, nil)
	withExtended.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{
		ResourceClaimName: "web-extended",
		RequestMappings:   []corev1.ContainerExtendedResourceRequest{{ContainerName: "b", RequestName: "container-1-request-0"}},
	}
	for _, tt := range []struct {
		name   string
		pod    *corev1.Pod
		claims []*resourceapi.ResourceClaim
		want   []string
	}{
		{"all reference it", referencing(ref("net", ""), ref("net", "")), []*resourceapi.ResourceClaim{net}, nil},
		{"one does not, and one is an init container", referencing(nil, ref("net", ""), nil), []*resourceapi.ResourceClaim{net}, []string{"a", "c"}},
		{"another claim of ours is enough", referencing(ref("own", ""), ref("net", "")), []*resourceapi.ResourceClaim{net, own}, nil},
		{"a claim of others is not", referencing(ref("own", ""), ref("net", "")), []*resourceapi.ResourceClaim{net}, []string{"a"}},
		{"a request of ours", referencing(ref("net", "lan"), ref("net", "fast")), []*resourceapi.ResourceClaim{net}, nil},
		{"a request of another driver's", referencing(ref("net", "gpu"), ref("net", "lan")), []*resourceapi.ResourceClaim{net}, []string{"a"}},
		{"an extended resource of one container", withExtended, []*resourceapi.ResourceClaim{extended}, []string{"a"}},
	} {
		drivertest.Same(t, tt.name, tt.want, referencesOf(tt.pod).ungated(tt.claims, ours))
	}
	if got := referencesOf(&corev1.Pod{}); got != nil {
		t.Errorf("a pod without claims: %+v", got)
	}
}

// Prepare waits for the pod as the kubelet has it, and refuses one with a
// container that nothing would hold: nothing of it is prepared.
func TestPrepareRefusesUngatedContainers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver(t, nad("blue", blueConf))
		watch, err := newPodWatch(fake.NewClientset(), "node-1", d.podGone)
		if err != nil {
			t.Fatal(err)
		}
		d.watch = watch
		c := claim("c", "blue")
		see := func(pod *corev1.Pod) {
			t.Helper()
			pod.Namespace, pod.Name, pod.UID = drivertest.Web.Namespace, drivertest.Web.Name, types.UID(drivertest.Web.UID)
			slim, err := slimPod(pod)
			if err != nil {
				t.Fatal(err)
			}
			if err := watch.informer.GetStore().Add(slim); err != nil {
				t.Fatal(err)
			}
		}
		claims := []*resourceapi.ResourceClaim{c}
		drivertest.WantError(t, d.prepare(t.Context(), claims)[c.UID], "pod default/web", "does not name all claims")

		pod := referencing(nil, []corev1.ResourceClaim{{Name: "net"}})
		pod.Status.ResourceClaimStatuses = nil
		see(pod)
		go func() {
			time.Sleep(podSeenWait / 2)
			seen := pod.DeepCopy()
			seen.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "net", ResourceClaimName: &c.Name}}
			see(seen)
		}()
		drivertest.WantError(t, d.prepare(t.Context(), claims)[c.UID], "pod default/web", "nothing would hold container a", "add {name: net}")
		drivertest.Same(t, "records", 0, len(d.store.All()))

		whole := referencing([]corev1.ResourceClaim{{Name: "net"}}, []corev1.ResourceClaim{{Name: "net"}})
		whole.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "net", ResourceClaimName: &c.Name}}
		see(whole)
		if err := d.prepare(t.Context(), claims)[c.UID]; err != nil {
			t.Errorf("a pod whose containers all reference it: %v", err)
		}
	})
}

// The watch lags behind the kubelet: the API server is asked, and what it knows of
// another pod of that name does not count.
func TestPrepareAsksForThePodThatTheWatchLacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver(t, nad("blue", blueConf))
		watch, err := newPodWatch(fake.NewClientset(), "node-1", d.podGone)
		if err != nil {
			t.Fatal(err)
		}
		d.watch = watch
		c := claim("c", "blue")
		pod := referencing([]corev1.ResourceClaim{{Name: "net"}}, []corev1.ResourceClaim{{Name: "net"}})
		pod.Namespace, pod.Name, pod.UID = drivertest.Web.Namespace, drivertest.Web.Name, "another"
		pod.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "net", ResourceClaimName: &c.Name}}
		d.clients.Kube = fake.NewClientset(pod)
		claims := []*resourceapi.ResourceClaim{c}
		drivertest.WantError(t, d.prepare(t.Context(), claims)[c.UID], "pod default/web", "does not name all claims")
		pod.UID = types.UID(drivertest.Web.UID)
		d.clients.Kube = fake.NewClientset(pod)
		begun := time.Now()
		if err := d.prepare(t.Context(), claims)[c.UID]; err != nil {
			t.Error(err)
		}
		drivertest.Same(t, "waited for the watch", podSeenWait, time.Since(begun))
	})
}
