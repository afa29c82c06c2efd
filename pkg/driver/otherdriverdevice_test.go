package driver

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/podedit"
	"github.com/nadra-dev/nadra/test/drivertest"
)

// otherDriversClaim returns a claim with devices of the other driver.
func otherDriversClaim(name string, devices ...string) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	c.Status.Allocation = &resourceapi.AllocationResult{}
	for _, device := range devices {
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results, resourceapi.DeviceRequestAllocationResult{
			Request: "vf", Driver: drivertest.OtherDriver, Pool: "node-1", Device: device,
		})
	}
	return c
}

// webWithClaims returns the pod of claim(), with claims of another driver by a name and by a
// template.
func webWithClaims() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "web-uid"},
		Spec: corev1.PodSpec{ResourceClaims: []corev1.PodResourceClaim{
			{Name: "nadra", ResourceClaimTemplateName: ptr.To("nadra")},
			{Name: "named", ResourceClaimName: ptr.To("named")},
			{Name: "made", ResourceClaimTemplateName: ptr.To("vf")},
		}},
		Status: corev1.PodStatus{ResourceClaimStatuses: []corev1.PodResourceClaimStatus{
			{Name: "nadra", ResourceClaimName: ptr.To("c")}, {Name: "made", ResourceClaimName: ptr.To("made-x")},
		}},
	}
}

// TestPrepareTakesTheDeviceOfAnotherDriver checks which devices of another driver networks use.
func TestPrepareTakesTheDeviceOfAnotherDriver(t *testing.T) {
	for name, tt := range map[string]struct {
		networks    []string
		named, made []string
		want        string
		refused     []string // parts of the error
	}{
		"by a claim of its name":      {networks: []string{"vf"}, named: []string{"dev-7"}, want: "vf=7"},
		"by a template, beside a GPU": {networks: []string{"vf"}, made: []string{"gpu", "dev-8"}, want: "vf=8"},
		"two, and a network without": {
			networks: []string{"vf", "blue", "vf2"}, named: []string{"dev-8"}, made: []string{"dev-7"}, want: "vf=7 blue= vf2=8",
		},
		"none":                    {networks: []string{"vf"}, refused: []string{"example.com/vf"}},
		"one that is not for CNI": {networks: []string{"vf"}, named: []string{"gpu"}, refused: []string{"example.com/vf"}},
		"too few":                 {networks: []string{"vf", "vf2"}, named: []string{"dev-7"}, refused: []string{"default/vf2"}},
		"too many":                {networks: []string{"vf"}, named: []string{"dev-7", "dev-8"}, refused: []string{"default/vf", "dev-7", "dev-8"}},
	} {
		t.Run(name, func(t *testing.T) {
			own := claim("c", tt.networks...)
			kube := fake.NewClientset(webWithClaims(), own, otherDriversClaim("named", tt.named...), otherDriversClaim("made-x", tt.made...), drivertest.OtherDriversSlice("7", "8"))
			d := newDriverWith(t, setup{clients: func(c *Clients) { c.Kube = kube }},
				drawing("example.com/vf", nad("vf", drivertest.VFConf)), drawing("example.com/vf", nad("vf2", drivertest.VFConf)), nad("blue", blueConf))
			err := prepare(t, d, own)["c-uid"].Err
			if tt.refused != nil {
				drivertest.WantReason(t, err, reason.DeviceMismatch, tt.refused...)
				drivertest.Same(t, "recorded", 0, len(d.store.ForClaim("c-uid")))
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, r := range d.store.ForClaim("c-uid") {
				var list struct{ Plugins []struct{ DeviceID string } }
				if err := json.Unmarshal(r.Attachment.Conflist, &list); err != nil {
					t.Fatal(err)
				}
				got = append(got, fmt.Sprintf("%s=%s", r.Attachment.Network.Name, list.Plugins[0].DeviceID))
				drivertest.Same(t, "a device of nadra's", (*attachment.Hardware)(nil), r.Hardware)
			}
			drivertest.Same(t, "the plugins' devices", tt.want, strings.Join(got, " "))
		})
	}
}

// claimOn returns a claim for networks that run on devices of the other driver, network@device, in that order. A network without a
// device of its own uses that of the request before.
func claimOn(name string, networks ...string) *resourceapi.ResourceClaim {
	var nads []string
	for _, n := range networks {
		nad, _, _ := strings.Cut(n, "@")
		nads = append(nads, nad)
	}
	c := claim(name, nads...)
	last := ""
	for i, n := range networks {
		if _, device, own := strings.Cut(n, "@"); own {
			last = fmt.Sprintf("nic%d", i)
			c.Spec.Devices.Requests = append(c.Spec.Devices.Requests, resourceapi.DeviceRequest{Name: last})
			c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results, resourceapi.DeviceRequestAllocationResult{
				Request: last, Driver: drivertest.OtherDriver, Pool: "node-1", Device: device,
			})
		}
		configure(c, fmt.Sprintf("req%d", i), fmt.Sprintf(`"deviceFrom":%q`, last))
	}
	return c
}

// TestPrepareRunsOnTheDeviceOfARequest checks networks that name the request for a device of another driver.
func TestPrepareRunsOnTheDeviceOfARequest(t *testing.T) {
	for name, tt := range map[string]struct {
		networks []string
		moved    string // a device that its driver has moved into the pod
		want     string
		code     reason.Code
		refused  []string // parts of the error
	}{
		"a function":                         {networks: []string{"sriov@dev-7"}, want: "sriov: 7"},
		"a function of the network's pool":   {networks: []string{"vf@dev-7"}, want: "vf: 7"},
		"two, each with its function":        {networks: []string{"sriov@dev-8", "vf@dev-7"}, want: "sriov: 8, vf: 7"},
		"an interface":                       {networks: []string{"whole@link"}, want: "whole: eth7"},
		"two on one interface":               {networks: []string{"lan@link", "lan2"}, want: "lan: eth7, lan2: eth7"},
		"an interface in the pod":            {networks: []string{"inner@link"}, moved: "link", want: "inner: eth7"},
		"one that its driver moves":          {networks: []string{"lan@link"}, moved: "link", code: reason.DeviceMismatch, refused: []string{drivertest.OtherDriver, "default/lan", "link"}},
		"two on one function":                {networks: []string{"sriov@dev-7", "sriov2"}, code: reason.DeviceMismatch, refused: []string{"dev-7", "req0"}},
		"one for itself, and one on it":      {networks: []string{"whole@link", "lan"}, code: reason.DeviceMismatch, refused: []string{"link", "req0"}},
		"nothing that a plugin could use":    {networks: []string{"sriov@gpu"}, code: reason.DeviceMismatch, refused: []string{"gpu", drivertest.OtherDriver}},
		"on an interface of the network's":   {networks: []string{"stacked@link"}, code: reason.DeviceMismatch, refused: []string{"master net1", "another interface of the pod"}},
		"a device of another pool":           {networks: []string{"elsewhere@dev-7"}, code: reason.DeviceMismatch, refused: []string{"example.com/other", "example.com/vf"}},
		"one that is not published any more": {networks: []string{"sriov@dev-9"}, code: reason.DeviceGone, refused: []string{"dev-9", drivertest.OtherDriver}},
	} {
		t.Run(name, func(t *testing.T) {
			own := claimOn("c", tt.networks...)
			if tt.moved != "" {
				own.Status.Devices = []resourceapi.AllocatedDeviceStatus{{
					Driver: drivertest.OtherDriver, Pool: "node-1", Device: tt.moved, NetworkData: &resourceapi.NetworkDeviceData{InterfaceName: "eth7"},
				}}
			}
			slice := drivertest.OtherDriversSlice("7", "8")
			slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: "link", Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
				"ifName": {StringValue: ptr.To("eth7")},
			}})
			kube := fake.NewClientset(own, slice)
			d := newDriverWith(t, setup{clients: func(c *Clients) { c.Kube = kube }},
				nad("sriov", drivertest.VFConf), nad("sriov2", drivertest.VFConf), drawing("example.com/vf", nad("vf", drivertest.VFConf)), drawing("example.com/other", nad("elsewhere", drivertest.VFConf)),
				nad("whole", `{"cniVersion":"1.0.0","type":"host-device"}`), nad("lan", `{"cniVersion":"1.0.0","type":"macvlan"}`), nad("lan2", `{"cniVersion":"1.0.0","type":"macvlan"}`),
				nad("inner", `{"cniVersion":"1.0.0","type":"macvlan","linkInContainer":true}`),
				nad("stacked", `{"cniVersion":"1.0.0","type":"macvlan","linkInContainer":true,"master":"net1"}`))
			err := prepare(t, d, own)["c-uid"].Err
			if tt.refused != nil {
				drivertest.WantReason(t, err, tt.code, tt.refused...)
				drivertest.Same(t, "recorded", 0, len(d.store.ForClaim("c-uid")))
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, r := range d.store.ForClaim("c-uid") {
				var list struct {
					Plugins []struct{ DeviceID, Device, Master string }
				}
				if err := json.Unmarshal(r.Attachment.Conflist, &list); err != nil {
					t.Fatal(err)
				}
				p := list.Plugins[0]
				got = append(got, fmt.Sprintf("%s: %s", r.Attachment.Network.Name, cmp.Or(p.DeviceID, p.Device, p.Master)))
				drivertest.Same(t, "a device of nadra's", (*attachment.Hardware)(nil), r.Hardware)
			}
			drivertest.Same(t, "the plugins' devices", tt.want, strings.Join(got, ", "))
		})
	}
}

// TestDeviceFromIsRequired checks that a network whose NAD requires deviceFrom is refused without it: by a claim, by the
// annotation of a pod without a claim, and by an edit of the annotation.
func TestDeviceFromIsRequired(t *testing.T) {
	bound := nad("bound", `{"cniVersion":"1.0.0","type":"macvlan"}`)
	bound.Annotations = map[string]string{attachment.DeviceFromAnnotation: "required"}
	d := newDriver(t, bound)
	selection := attachment.Selection{Network: attachment.NetworkRef{Namespace: "default", Name: "bound"}}
	_, unclaimed := d.planner.planUnclaimed(t.Context(), drivertest.Web, []attachment.Selection{selection}, false)
	_, edited := d.planner.planAdded(drivertest.Web, podedit.Addition{Selection: selection, Interface: "net1"})
	for _, err := range []error{prepare(t, d, claim("c", "bound"))["c-uid"].Err, unclaimed, edited} {
		drivertest.WantReason(t, err, reason.DeviceMismatch, "default/bound", `nadra.dev/device-from: "required"`, "remove the annotation")
	}
}

// TestPublishedDevices checks in which slices a device is found, and with how many requests.
func TestPublishedDevices(t *testing.T) {
	slice := func(name, node, pool string, generation, count int64, devices ...string) *resourceapi.ResourceSlice {
		s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}}
		s.Spec.Driver, s.Spec.Pool = drivertest.OtherDriver, resourceapi.ResourcePool{Name: pool, Generation: generation, ResourceSliceCount: count}
		if s.Spec.AllNodes = ptr.To(true); node != "" {
			s.Spec.AllNodes, s.Spec.NodeName = nil, &node
		}
		for _, device := range devices {
			s.Spec.Devices = append(s.Spec.Devices, resourceapi.Device{Name: device})
		}
		return s
	}
	for name, tt := range map[string]struct {
		pool, device string
		refused      reason.Code // by describe
		requests     int
	}{
		"of the node":                      {"node-1", "new", "", 1},
		"of an earlier generation":         {"node-1", "old", reason.DeviceGone, 1},
		"of a pool that is published anew": {"half", "nic", "", 1},
		"not yet published":                {"half", "late", reason.PodNotRead, 2},
		"of several nodes":                 {"fabric", "port", "", 2},
		"of several nodes, in a pool that has slices of the node": {"mixed", "port", "", 2},
		"of a pool that nobody publishes":                         {"none", "nic", reason.DeviceGone, 2},
	} {
		t.Run(name, func(t *testing.T) {
			kube := fake.NewClientset(slice("a", "node-1", "node-1", 1, 1, "old"), slice("b", "node-1", "node-1", 2, 1, "new"),
				slice("c", "node-1", "half", 3, 2, "nic"), slice("d", "node-1", "half", 2, 1, "late"), slice("e", "", "fabric", 1, 1, "port"),
				slice("f", "node-1", "mixed", 1, 2, "nic"), slice("g", "", "mixed", 1, 2, "port"))
			kube.PrependReactor("list", "resourceslices", func(action k8stesting.Action) (bool, runtime.Object, error) {
				list, err := kube.Tracker().List(resourceapi.SchemeGroupVersion.WithResource("resourceslices"), resourceapi.SchemeGroupVersion.WithKind("ResourceSlice"), "")
				if err != nil {
					return true, nil, err
				}
				out := list.(*resourceapi.ResourceSliceList)
				out.Items = slices.DeleteFunc(out.Items, func(s resourceapi.ResourceSlice) bool {
					return !action.(k8stesting.ListAction).GetListRestrictions().Fields.Matches(fields.Set{
						resourceapi.ResourceSliceSelectorDriver: s.Spec.Driver, resourceapi.ResourceSliceSelectorNodeName: ptr.Deref(s.Spec.NodeName, ""),
					})
				})
				return true, out, nil
			})
			d := newDriverWith(t, setup{clients: func(c *Clients) { c.Kube = kube }})
			kube.ClearActions()
			published := publishedDevices{d.planner.node, map[string][]resourceapi.ResourceSlice{}}
			for range 2 {
				device, _, err := published.get(t.Context(), drivertest.OtherDriver, tt.pool, tt.device)
				if err != nil {
					t.Fatal(err)
				}
				drivertest.Same(t, "found", tt.refused == "", device.Name == tt.device)
				other := &attachment.OtherDriverDevice{Driver: drivertest.OtherDriver, Pool: tt.pool, Device: tt.device}
				if err := published.describe(t.Context(), []request{{Requested: attachment.Requested{Other: other}}}); tt.refused != "" {
					drivertest.WantReason(t, err, tt.refused, drivertest.OtherDriver, tt.pool, tt.device)
				} else if err != nil {
					t.Error(err)
				}
			}
			drivertest.Same(t, "requests", tt.requests, len(kube.Actions()))
		})
	}
}

// TestOthersDevicesInUse checks for which claims a device of another driver is still in use on the node.
func TestOthersDevicesInUse(t *testing.T) {
	on := func(uid, device, share string, phase checkpoint.Phase) checkpoint.Record {
		return checkpoint.Record{Phase: phase, Sandbox: &attachment.Sandbox{ID: "sandbox-1"}, Prepared: attachment.Prepared{
			Claim: attachment.ClaimRef{Namespace: "default", Name: "old", UID: uid}, Pod: drivertest.Web, Request: "req0", Pool: "node-1/networks", Device: "node-0-0", ShareID: "old-share",
			Attachment: attachment.Attachment{On: &attachment.OtherDriverDevice{Driver: drivertest.OtherDriver, Pool: "node-1", Device: device, ShareID: share, ID: "7"}},
		}}
	}
	for name, tt := range map[string]struct {
		record  checkpoint.Record
		pending bool
		change  func(*resourceapi.DeviceRequestAllocationResult)
		held    bool
	}{
		"attached":                {record: on("old-uid", "dev-7", "", checkpoint.Attached), held: true},
		"a pending DEL":           {record: on("old-uid", "dev-7", "", checkpoint.Attached), pending: true, held: true},
		"another device":          {record: on("old-uid", "dev-8", "", checkpoint.Attached)},
		"of its own claim":        {record: on("c-uid", "dev-7", "", checkpoint.Attached)},
		"another share":           {record: on("old-uid", "dev-7", "share-2", checkpoint.Attached)},
		"another driver's":        {record: on("old-uid", "dev-7", "", checkpoint.Attached), change: func(r *resourceapi.DeviceRequestAllocationResult) { r.Driver = "third.example.com" }},
		"only for administration": {record: on("old-uid", "dev-7", "", checkpoint.Attached), change: func(r *resourceapi.DeviceRequestAllocationResult) { r.AdminAccess = ptr.To(true) }},
	} {
		t.Run(name, func(t *testing.T) {
			next := claimOn("c", "lan@dev-7")
			if tt.change != nil {
				tt.change(&next.Status.Allocation.Devices.Results[1])
			}
			records, dels := []checkpoint.Record{tt.record}, []checkpoint.PendingDEL(nil)
			if tt.pending {
				records, dels = nil, []checkpoint.PendingDEL{{Record: tt.record, Cause: "the card does not answer"}}
			}
			err := inUse([]*resourceapi.ResourceClaim{next}, holding(records, dels...))
			if !tt.held {
				if err != nil {
					t.Error(err)
				}
				return
			}
			drivertest.WantReason(t, err, reason.DeviceInUse, "dev-7", drivertest.OtherDriver, "pod")
			drivertest.Same(t, "pending", tt.pending, strings.Contains(err.Error(), "the card does not answer"))
		})
	}
}

// TestHolderOfADevice checks that of several records of a device, in whatever order, the same one decides, and a pending
// DEL before all.
func TestHolderOfADevice(t *testing.T) {
	s := share{drivertest.OtherDriver, "node-1", "dev-7", ""}
	on := func(pod string, index int) checkpoint.Record {
		other := attachment.OtherDriverDevice{Driver: s.driver, Pool: s.pool, Device: s.device}
		return checkpoint.Record{Prepared: attachment.Prepared{Pod: attachment.PodRef{UID: pod}, Index: index, Attachment: attachment.Attachment{On: &other}}}
	}
	records := []checkpoint.Record{on("a", 2), on("b", 0), on("b", 1), {Prepared: attachment.Prepared{Pod: attachment.PodRef{UID: "c"}}}}
	for range records {
		records = append(records[1:], records[0])
		holder, pending := holderOf(s, holding(records))
		if holder == nil || holder.Pod.UID != "b" || holder.Index != 1 || pending != nil {
			t.Errorf("holder %+v, pending DEL %+v", holder, pending)
		}
	}
	holder, pending := holderOf(s, holding(records, checkpoint.PendingDEL{Record: on("a", 0)}))
	if holder.Pod.UID != "a" || pending == nil {
		t.Errorf("with a pending DEL: holder %+v, pending DEL %+v", holder, pending)
	}
}

// TestPendingDELHoldsNoCopy checks that a DEL that never succeeds holds hardware, and no copy of a device that several
// claims may have: each copy that a tenant holds would stop the next pod that the scheduler gives it.
func TestPendingDELHoldsNoCopy(t *testing.T) {
	for name, tt := range map[string]struct {
		hardware *attachment.Hardware
		held     bool
	}{
		"a copy":              {},
		"a function":          {&attachment.Hardware{ID: "0000:3b:02.0"}, true},
		"a copy of functions": {hardware: &attachment.Hardware{ResourceName: "example.com/rdma"}},
	} {
		t.Run(name, func(t *testing.T) {
			next := claim("b", "blue")
			next.Status.Allocation.Devices.Results[0].ShareID = nil
			r := checkpoint.Record{Phase: checkpoint.Attaching, Sandbox: &attachment.Sandbox{ID: "sandbox-1"}, Prepared: attachment.Prepared{
				Claim: attachment.ClaimRef{Namespace: "default", Name: "a", UID: "a-uid"}, Pod: drivertest.Web, Request: "req0", Pool: "node-1/networks", Device: "node-0-0", Hardware: tt.hardware,
			}}
			claims := []*resourceapi.ResourceClaim{next}
			pending := inUse(claims, holding(nil, checkpoint.PendingDEL{Record: r, Cause: "ips is no list"}))
			drivertest.Same(t, "held by a pending DEL", tt.held, reason.Of(pending) == reason.DeviceInUse)
			drivertest.Same(t, "held by a claim", true, reason.Of(inUse(claims, holding([]checkpoint.Record{r}))) == reason.DeviceInUse)
			r.Claim = attachment.ClaimRef{Namespace: "default", Name: "b", UID: string(next.UID)}
			r.Pod.UID = "before"
			drivertest.Same(t, "held by the pending DEL of the pod before, of the same claim", true, reason.Of(inUse(claims, holding(nil, checkpoint.PendingDEL{Record: r}))) == reason.DeviceInUse)
		})
	}
}

// TestOrdinaryPrepareSendsNoRequest checks pods whose networks draw from no pool.
func TestOrdinaryPrepareSendsNoRequest(t *testing.T) {
	kube := fake.NewClientset()
	d := newDriverWith(t, setup{clients: func(c *Clients) { c.Kube = kube }}, nad("blue", blueConf))
	if err := prepare(t, d, claim("c", "blue"))["c-uid"].Err; err != nil {
		t.Fatal(err)
	}
	drivertest.Same(t, "requests", 0, len(kube.Actions()))
}

// withNextPod returns a driver whose pool network draws from one function of another driver. Pod web has claim c for the
// network, pod next the returned one, and both refer to the claim for the function.
func withNextPod(t *testing.T) (d *Driver, ofNext *resourceapi.ResourceClaim) {
	t.Helper()
	next, ofNext := webWithClaims(), claim("d", "vf")
	next.Name, next.UID = "next", "next-uid"
	next.Status.ResourceClaimStatuses[0].ResourceClaimName = ptr.To("d")
	ofNext.Status.ReservedFor[0] = resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: next.Name, UID: next.UID}
	kube := fake.NewClientset(webWithClaims(), next, claim("c", "vf"), ofNext, otherDriversClaim("named", "dev-7"), otherDriversClaim("made-x"), drivertest.OtherDriversSlice("7", "8"))
	return newDriverWith(t, setup{clients: func(c *Clients) { c.Kube = kube }}, drawing("example.com/vf", nad("vf", drivertest.VFConf))), ofNext
}

// TestDeviceOfPoolIsHeld checks that a function of another driver, which a network has by its pool, goes to no other pod
// before the DEL of the network has succeeded: neither by the pool nor by deviceFrom.
func TestDeviceOfPoolIsHeld(t *testing.T) {
	d, claimed := withNextPod(t)
	for _, again := range []string{"at first", "again, as by another driver"} {
		if err := prepare(t, d, claim("c", "vf"))["c-uid"].Err; err != nil {
			t.Fatalf("%s: %v", again, err)
		}
	}
	from := claimOn("d", "sriov@dev-7")
	from.Status.ReservedFor = claimed.Status.ReservedFor
	held := func(what string) {
		t.Helper()
		if err := prepare(t, d, claimed)["d-uid"].Err; reason.Of(err) != reason.DeviceInUse {
			t.Errorf("%s, by the pool: %v", what, err)
		}
		if err := inUse([]*resourceapi.ResourceClaim{from}, d.store.Holders); reason.Of(err) != reason.DeviceInUse {
			t.Errorf("%s, by deviceFrom: %v", what, err)
		}
	}
	held("before ADD")
	key := d.store.ForClaim("c-uid")[0].Key()
	s := attachment.Sandbox{ID: "sandbox-1", NetNS: "/run/netns/gone", Pod: drivertest.Web}
	err := errors.Join(d.store.MarkAttaching([]checkpoint.Key{key}, s, nil), d.store.DeferDEL(key, errors.New("the card does not answer")), d.store.DeleteClaim("c-uid", drivertest.Web.UID))
	if err != nil {
		t.Fatal(err)
	}
	held("while its DEL is pending")
}

// TestDeviceOfPoolIsItsPods checks that a pod is not held up by a device that it has by a pool: not if the kubelet prepares
// its claims again, of which another one has the device, and not if its claims pass to it from a pod that has ended.
func TestDeviceOfPoolIsItsPods(t *testing.T) {
	pod := webWithClaims()
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "pool", ResourceClaimName: ptr.To("c")}, {Name: "both", ResourceClaimName: ptr.To("d")}}
	pod.Status.ResourceClaimStatuses = nil
	ofPool, both := claim("c", "vf"), claim("d", "blue")
	both.Status.Allocation.Devices.Results = append(both.Status.Allocation.Devices.Results, resourceapi.DeviceRequestAllocationResult{
		Request: "nic", Driver: drivertest.OtherDriver, Pool: "node-1", Device: "dev-7",
	})
	next := pod.DeepCopy()
	next.Name, next.UID = "next", "next-uid"
	kube := fake.NewClientset(pod, next, ofPool, both, drivertest.OtherDriversSlice("7", "8"))
	d := newDriverWith(t, setup{clients: func(c *Clients) { c.Kube = kube }}, drawing("example.com/vf", nad("vf", drivertest.VFConf)), nad("blue", blueConf))
	succeeds := func(what string) {
		for uid, result := range prepare(t, d, ofPool, both) {
			if result.Err != nil {
				t.Errorf("%s: %s: %v", what, uid, result.Err)
			}
		}
	}
	succeeds("at first")
	succeeds("again")
	for _, c := range []*resourceapi.ResourceClaim{ofPool, both} {
		c.Status.ReservedFor[0] = resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: next.Name, UID: next.UID}
	}
	succeeds("for the next pod")
}

// TestDeviceOfPoolGoesToOnePod plans two pods that share the claim for a function of another driver, before either is
// recorded.
func TestDeviceOfPoolGoesToOnePod(t *testing.T) {
	d, claimed := withNextPod(t)
	errs := make(chan error, 2)
	var takes []func()
	for _, c := range []*resourceapi.ResourceClaim{claim("c", "vf"), claimed} {
		claims := []*resourceapi.ResourceClaim{c}
		prepared, failed := d.planner.plan(t.Context(), claims)
		if len(failed) > 0 {
			t.Fatal(failed)
		}
		takes = append(takes, func() { errs <- d.preparer.take(claims, claims, prepared) })
	}
	for _, take := range takes {
		go take()
	}
	first, second := <-errs, <-errs
	if first == nil {
		first, second = second, first
	}
	if second != nil || reason.Of(first) != reason.DeviceInUse {
		t.Errorf("two pods with one device: %v and %v, want that one is refused", first, second)
	}
}

// TestAdminAccessIsNoDevice checks that a network takes no device of another driver that its pod only administers.
func TestAdminAccessIsNoDevice(t *testing.T) {
	own, admin := claim("c", "vf"), otherDriversClaim("named", "dev-7")
	admin.Status.Allocation.Devices.Results[0].AdminAccess = ptr.To(true)
	kube := fake.NewClientset(webWithClaims(), own, admin, otherDriversClaim("made-x"), drivertest.OtherDriversSlice("7"))
	d := newDriverWith(t, setup{clients: func(c *Clients) { c.Kube = kube }}, drawing("example.com/vf", nad("vf", drivertest.VFConf)))
	drivertest.WantReason(t, prepare(t, d, own)["c-uid"].Err, reason.DeviceMismatch, "default/vf", "dev-7", "adminAccess")
	drivertest.Same(t, "recorded", 0, len(d.store.ForClaim("c-uid")))
}

// TestDeviceInfoOfAnotherDriver checks what network-status gets of the device of another driver on which a network runs,
// by deviceFrom or by a pool, if no plugin describes it.
func TestDeviceInfoOfAnotherDriver(t *testing.T) {
	const address = "0000:3b:02.1"
	info := `{"type":"pci","version":"1.1.0","pci":{"pci-address":"` + address + `"}}`
	slice := drivertest.OtherDriversSlice(address, "7")
	slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: "link", Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
		"ifName": {StringValue: ptr.To("eth7")}, "resource.kubernetes.io/pciBusID": {StringValue: ptr.To(address)},
	}})
	for name, tt := range map[string]struct {
		own     *resourceapi.ResourceClaim
		plugins string // the device information of the plugins
		want    string
	}{
		"by deviceFrom":               {claimOn("c", "sriov@dev-"+address), "", info},
		"by the bus ID":               {claimOn("c", "sriov@link"), "", info},
		"a master, which others have": {claimOn("c", "lan@link"), "", ""},
		"of a pool":                   {claim("c", "vf"), "", info},
		"a plugin describes it":       {claimOn("c", "sriov@dev-"+address), `{"type":"memif"}`, `{"type":"memif"}`},
		"a device without a function": {claimOn("c", "sriov@dev-7"), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			kube := fake.NewClientset(webWithClaims(), tt.own, otherDriversClaim("named", "dev-"+address), otherDriversClaim("made-x"), slice)
			d := newDriverWith(t, setup{clients: func(c *Clients) { c.Kube = kube }},
				nad("sriov", drivertest.VFConf), nad("lan", `{"cniVersion":"1.0.0","type":"macvlan"}`), drawing("example.com/vf", nad("vf", drivertest.VFConf)))
			if err := prepare(t, d, tt.own)["c-uid"].Err; err != nil {
				t.Fatal(err)
			}
			kernelOf(d).Info = json.RawMessage(tt.plugins)
			if err := attachOnce(t, d, drivertest.SandboxNo(1)); err != nil {
				t.Fatal(err)
			}
			drivertest.Same(t, "device-info", tt.want, string(d.store.ForClaim("c-uid")[0].DeviceInfo))
		})
	}
}

// holding yields records and pending DELs as the store does.
func holding(records []checkpoint.Record, dels ...checkpoint.PendingDEL) holders {
	return func(yield func(*checkpoint.Record, *checkpoint.PendingDEL) bool) {
		for i := range records {
			if !yield(&records[i], nil) {
				return
			}
		}
		for i := range dels {
			if !yield(&dels[i].Record, &dels[i]) {
				return
			}
		}
	}
}
