package inspect

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// The networks of a pod with many claims: all requests are for common, except for one of the last claim.
var (
	common = attachment.NetworkRef{Namespace: "default", Name: "a-network-whose-name-is-so-long-that-joining-it-allocates"}
	last   = attachment.NetworkRef{Namespace: "default", Name: "last"}
)

// manyClaims returns a pending pod with n claims of 32 requests, which all exist, and of each unrelated kind of objects 60 times
// as many. If offered is set, its networks exist and have devices, of which those of the last one are all in use.
func manyClaims(t *testing.T, n int, offered bool) chainInput {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "pod-1", Annotations: map[string]string{}},
		Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/1 nodes are available: 1 cannot allocate all claims.",
		}}},
	}
	in := chainInput{Pod: pod, Input: Input{Unread: map[Kind]bool{Classes: true}, Pods: []*corev1.Pod{pod}}}
	for i := range n {
		of, requests := common, make([]resourceapi.DeviceRequest, 32)
		if i == n-1 {
			of, requests = last, requests[:1]
		}
		for j := range requests {
			requests[j] = resourceapi.DeviceRequest{
				Name: fmt.Sprint("r", j), Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: attachment.DeviceClassName(of), Count: 32},
			}
		}
		claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: fmt.Sprint("web-", i), Annotations: map[string]string{createdFor: fmt.Sprint("c", i)},
			OwnerReferences: []metav1.OwnerReference{{Kind: "Pod", Name: "web", UID: "pod-1", Controller: new(true)}},
		}}
		claim.Spec.Devices.Requests = requests
		in.Claims = append(in.Claims, claim)
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: fmt.Sprint("c", i), ResourceClaimTemplateName: new("hand")})
		pod.Status.ResourceClaimStatuses = append(pod.Status.ResourceClaimStatuses, corev1.PodResourceClaimStatus{Name: fmt.Sprint("c", i), ResourceClaimName: &claim.Name})
	}
	var status []nadv1.NetworkStatus
	for i := range 60 * n {
		status = append(status, nadv1.NetworkStatus{Name: fmt.Sprint("default/unrelated-", i)})
		in.Networks = append(in.Networks, &nadv1.NetworkAttachmentDefinition{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("unrelated-", i)}})
	}
	text, err := json.Marshal(status)
	if err != nil {
		t.Fatal(err)
	}
	pod.Annotations[nadv1.NetworkStatusAnnot] = string(text)
	if offered {
		in.offer(common, true)
		in.offer(last, false)
	}
	return in
}

// offer adds a network with one device, which any number of claims can have, or which another claim has.
func (in *chainInput) offer(network attachment.NetworkRef, shared bool) {
	in.Networks = append(in.Networks, &nadv1.NetworkAttachmentDefinition{
		ObjectMeta: metav1.ObjectMeta{Namespace: network.Namespace, Name: network.Name}, Spec: nadv1.NetworkAttachmentDefinitionSpec{Config: `{"type": "macvlan"}`},
	})
	device := resourceapi.Device{Name: network.Name, Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}, AllowMultipleAllocations: &shared}
	attachment.NetworkIDOf(network).AddTo(device.Attributes)
	in.Slices = append(in.Slices, &resourceapi.ResourceSlice{Spec: resourceapi.ResourceSliceSpec{
		Driver: v1alpha1.DriverName, NodeName: new("n1"), Pool: resourceapi.ResourcePool{Name: "n1"}, Devices: []resourceapi.Device{device},
	}})
	if shared {
		return
	}
	taken := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "taken", UID: types.UID("taken")}}
	taken.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
		{Driver: v1alpha1.DriverName, Pool: "n1", Device: network.Name, Request: "r"},
	}}}
	in.Claims = append(in.Claims, taken)
}

// TestWorkGrowsLinearly checks that a pod with four times as many claims, and four times as many other objects, costs about four
// times as many allocations: for each want, no step goes through all others.
func TestWorkGrowsLinearly(t *testing.T) {
	for name, work := range map[string]func(chainInput){
		"get":     func(in chainInput) { Attachments(in.Input) },
		"explain": func(in chainInput) { Explain(in) },
	} {
		for _, offered := range []bool{false, true} {
			few, many := manyClaims(t, v1alpha1.MaxPodClaims/4, offered), manyClaims(t, v1alpha1.MaxPodClaims, offered)
			before, after := testing.AllocsPerRun(1, func() { work(few) }), testing.AllocsPerRun(1, func() { work(many) })
			if after > 6*before {
				t.Errorf("%s, offered %v: %.0f allocations, and for four times as much %.0f", name, offered, before, after)
			}
		}
	}
}

// TestManyClaims checks that a pod with more claims for networks than MaxPodClaims has one row for the rest, that these claims
// do not count as claims without a pod, and that claims for other devices have no rows.
func TestManyClaims(t *testing.T) {
	const entries = 1000
	in := manyClaims(t, entries, false)
	rows := Attachments(in.Input)
	refused := slices.DeleteFunc(slices.Clone(rows), func(a Attachment) bool { return a.Reason != string(reason.LimitExceeded) })
	// An allocation has 32 devices at most, so that 32 requests of 32 devices make no more rows.
	if len(rows) != v1alpha1.MaxPodClaims*resourceapi.AllocationResultsMaxSize+1 || len(refused) != 1 {
		t.Errorf("%d rows, %d of them LimitExceeded", len(rows), len(refused))
	}
	if of := slices.IndexFunc(rows, func(a Attachment) bool { return a.Pod == "" || a.State == Unclaimed }); of >= 0 {
		t.Errorf("there is a row %+v", rows[of])
	}
	if c := Explain(in); c.Blocker == nil || c.Blocker.Reason != reason.LimitExceeded || c.Blocker.Owner != reason.OfManifest || len(c.Steps) > 10 {
		t.Errorf("%d steps; blocked by %+v", len(c.Steps), c.Blocker)
	}
	for _, claim := range in.Claims {
		for i := range claim.Spec.Devices.Requests {
			claim.Spec.Devices.Requests[i].Exactly.DeviceClassName = "gpu.example.com"
		}
	}
	if rows := Attachments(in.Input); len(rows) > 0 {
		t.Errorf("%d rows of a pod without networks, one of them %+v", len(rows), rows[0])
	}
}

// TestScansNothing checks that the question whether a step has failed does not take longer after more steps, and that 100 times as
// many claims for other devices take far less than 100² times as long.
func TestScansNothing(t *testing.T) {
	least := func(work func()) time.Duration {
		least := time.Hour
		for range 20 {
			began := time.Now()
			work()
			least = min(least, time.Since(began))
		}
		return least + time.Microsecond
	}
	failed := func(steps int) time.Duration {
		var l stepList
		for range steps {
			l.add("step", nil, ok(""))
		}
		return least(func() {
			for range 100 {
				if l.failed() {
					t.Fatal("no step has failed")
				}
			}
		})
	}
	if few, many := failed(10), failed(100_000); many > 100*few {
		t.Errorf("%s after 10 steps, %s after 100,000", few, many)
	}
	claims := func(n int) time.Duration {
		pod := &corev1.Pod{}
		for i := range n {
			name := fmt.Sprint("c", i)
			pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: name, ResourceClaimTemplateName: new("gpu")})
			pod.Status.ResourceClaimStatuses = append(pod.Status.ResourceClaimStatuses, corev1.PodResourceClaimStatus{Name: name, ResourceClaimName: &name})
		}
		x := newIndex(Input{})
		return least(func() { x.wishOf(pod) })
	}
	if few, many := claims(200), claims(20_000); many > 1000*few {
		t.Errorf("200 claims take %s, 20,000 %s", few, many)
	}
}

// TestEventsOfManyNetworks checks that explain asks for the events of a bounded number of networks.
func TestEventsOfManyNetworks(t *testing.T) {
	in := manyClaims(t, 4, false)
	for i, claim := range in.Claims {
		for j := range claim.Spec.Devices.Requests {
			of := attachment.NetworkRef{Namespace: "default", Name: fmt.Sprint("net-", i, "-", j)}
			claim.Spec.Devices.Requests[j].Exactly = &resourceapi.ExactDeviceRequest{DeviceClassName: attachment.DeviceClassName(of)}
		}
	}
	if n := len(networksOf(in.Input, in.Pod)); n != v1alpha1.MaxNetworks {
		t.Errorf("%d networks", n)
	}
}
