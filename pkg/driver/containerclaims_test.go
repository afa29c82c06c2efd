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

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/test/drivertest"
)

// referencing returns a pod with claim net, made from a template, and a container for each list of
// references.
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
		drivertest.Same(t, tt.name, tt.want, referencesOf(tt.pod).ungated(tt.claims))
	}
	if got := referencesOf(&corev1.Pod{}); got != nil {
		t.Errorf("a pod without claims: %+v", got)
	}
}

// TestPrepareRefusesUngatedContainers checks that Prepare waits for the pod that the kubelet has,
// and prepares nothing for a pod with a container that nothing would hold.
func TestPrepareRefusesUngatedContainers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriverWith(t, setup{checkContainers: true}, nad("blue", blueConf))
		c := claim("c", "blue")
		seeWeb := func(pod *corev1.Pod) {
			t.Helper()
			pod.Namespace, pod.Name, pod.UID = drivertest.Web.Namespace, drivertest.Web.Name, types.UID(drivertest.Web.UID)
			see(t, d, pod)
		}
		claims := []*resourceapi.ResourceClaim{c}
		drivertest.WantReason(t, d.preparer.prepare(t.Context(), claims)[c.UID], reason.PodNotRead, "pod default/web")

		pod := referencing(nil, []corev1.ResourceClaim{{Name: "net"}})
		pod.Status.ResourceClaimStatuses = nil
		seeWeb(pod)
		go func() {
			time.Sleep(podSeenWait / 2)
			seen := pod.DeepCopy()
			seen.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "net", ResourceClaimName: &c.Name}}
			seeWeb(seen)
		}()
		drivertest.WantReason(t, d.preparer.prepare(t.Context(), claims)[c.UID], reason.ContainerWithoutClaim, "pod default/web", "container a ", "{name: net}", "--keep-annotations")
		drivertest.Same(t, "records", 0, len(d.store.All()))

		made := c.DeepCopy()
		made.Annotations = map[string]string{extendedClaim: "true"}
		extended := referencing(nil, nil)
		extended.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{
			ResourceClaimName: c.Name, RequestMappings: []corev1.ContainerExtendedResourceRequest{{ContainerName: "b", RequestName: c.Spec.Devices.Requests[0].Name}},
		}
		seeWeb(extended)
		drivertest.WantReason(t, d.preparer.prepare(t.Context(), []*resourceapi.ResourceClaim{made})[c.UID], reason.ContainerWithoutClaim, "container a ", "in place of an extended resource")

		whole := referencing([]corev1.ResourceClaim{{Name: "net"}}, []corev1.ResourceClaim{{Name: "net"}})
		whole.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "net", ResourceClaimName: &c.Name}}
		seeWeb(whole)
		if err := d.preparer.prepare(t.Context(), claims)[c.UID]; err != nil {
			t.Errorf("a pod whose containers all reference it: %v", err)
		}
	})
}

// TestPrepareAsksForThePodThatTheWatchLacks checks that the API server is asked if the watch is
// behind the kubelet, and that another pod of that name does not count.
func TestPrepareAsksForThePodThatTheWatchLacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := claim("c", "blue")
		pod := referencing([]corev1.ResourceClaim{{Name: "net"}}, []corev1.ResourceClaim{{Name: "net"}})
		pod.Namespace, pod.Name, pod.UID = drivertest.Web.Namespace, drivertest.Web.Name, "another"
		pod.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "net", ResourceClaimName: &c.Name}}
		kube := fake.NewClientset(pod)
		d := newDriverWith(t, setup{clients: func(c *Clients) { c.Kube = kube }, checkContainers: true}, nad("blue", blueConf))
		claims := []*resourceapi.ResourceClaim{c}
		drivertest.WantReason(t, d.preparer.prepare(t.Context(), claims)[c.UID], reason.PodNotRead, "pod default/web")
		same := pod.DeepCopy()
		same.UID = types.UID(drivertest.Web.UID)
		if err := kube.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), same, same.Namespace); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		if err := d.preparer.prepare(t.Context(), claims)[c.UID]; err != nil {
			t.Error(err)
		}
		drivertest.Same(t, "waited for the watch", podSeenWait, time.Since(begun))
	})
}
