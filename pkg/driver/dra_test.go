package driver

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	nri "github.com/containerd/nri/pkg/api"
	"github.com/google/go-cmp/cmp"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/attach"
	"github.com/nadra-dev/nadra/pkg/driver/internal/cdi"
	"github.com/nadra-dev/nadra/pkg/driver/internal/claimstatus"
	"github.com/nadra-dev/nadra/pkg/driver/internal/drivertest"
	"github.com/nadra-dev/nadra/pkg/driver/internal/events"
	"github.com/nadra-dev/nadra/pkg/driver/internal/networkstatus"
)

func nad(name, config string) *nadv1.NetworkAttachmentDefinition {
	return &nadv1.NetworkAttachmentDefinition{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       nadv1.NetworkAttachmentDefinitionSpec{Config: config},
	}
}

const (
	blueConf = `{"cniVersion":"1.0.0","type":"macvlan","master":"lan0","mode":"bridge","ipam":{"type":"host-local","subnet":"10.1.0.0/24"}}`
	redConf  = `{"cniVersion":"1.0.0","name":"red","plugins":[{"type":"bridge"},{"type":"tuning"}]}`
)

// nowhere is for sandboxes of which none has the host's namespace.
func nowhere(string) bool { return false }

// newDriver is a driver on a node with link lan0 and all plugins but "absent".
func newDriver(t *testing.T, nads ...*nadv1.NetworkAttachmentDefinition) *Driver {
	t.Helper()
	a, _ := newAttacher(t)
	d := &Driver{
		cfg: Config{DriverName: "net.nadra.dev", NodeName: "node-1"}, store: a.Store, attacher: a, networks: &networks{}, owner: &owner{node: "node-1"},
		isHost: nowhere, events: events.NewFake("node-1"), failed: make(chan error, 1), sweeper: newSweeper(),
	}
	d.jobs.base, d.quiet.base = t.Context(), t.Context()
	d.retrier = attach.NewDelRetrier(a)
	t.Cleanup(func() {
		d.claimStatus.ShutDown()
		d.networkStatus.ShutDown()
		d.retrier.ShutDown()
	})
	d.checks = newChecker()
	d.checks.plugins = a.Plugins.(*drivertest.Kernel)
	d.cache = a.Plugins.(*drivertest.Kernel)
	d.cdi = cdi.NewWriter(cdi.Options{SpecDir: t.TempDir(), PluginDir: t.TempDir(), Records: a.Store.Dir(), Slow: a.Limits.Slow})
	d.claimStatus = claimstatus.NewWriter(fake.NewClientset(), "net.nadra.dev")
	d.networkStatus = networkstatus.NewWriter(networkstatus.Options{
		Kube: fake.NewClientset(), Manager: "net.nadra.dev", DefaultNetwork: drivertest.CBR0, Pods: d.watch, Stored: a.Store.MarkStatusStored, Stale: d.attachAgain, Late: func(attachment.PodRef, error) {},
	})
	h := host{links: map[string]link{"lan0": {}}, binDirs: []string{"/opt/cni/bin"}, missing: func(types []string) (out []string) {
		for _, pluginType := range types {
			if pluginType == "absent" {
				out = append(out, pluginType)
			}
		}
		return out
	}}
	candidates := map[attachment.NetworkRef]candidate{}
	for _, def := range (&definitions{}).of(nads, nil) {
		candidates[def.network.Ref] = h.candidate(def)
	}
	d.networks.set(candidates)
	d.runtime.found()
	d.clients.Kube = fake.NewClientset(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "web-uid"}})
	return d
}

// claim is one allocated for pod web, with a result for each NAD; request i is
// called req<i>.
func claim(name string, nads ...string) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name + "-uid")}}
	c.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "web", UID: "web-uid"}}
	c.Status.Allocation = &resourceapi.AllocationResult{}
	for i, n := range nads {
		request := fmt.Sprintf("req%d", i)
		c.Spec.Devices.Requests = append(c.Spec.Devices.Requests, resourceapi.DeviceRequest{Name: request})
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results, resourceapi.DeviceRequestAllocationResult{
			Request: request, Driver: "net.nadra.dev", Pool: "node-1/networks",
			Device:  attachment.DeviceName(attachment.NetworkRef{Namespace: "default", Name: n}),
			ShareID: ptr.To(types.UID(name + request)),
		})
	}
	return c
}

func configure(c *resourceapi.ResourceClaim, request, parameters string) *resourceapi.ResourceClaim {
	c.Status.Allocation.Devices.Config = append(c.Status.Allocation.Devices.Config, resourceapi.DeviceAllocationConfiguration{
		Source: resourceapi.AllocationConfigSourceClaim, Requests: []string{request},
		DeviceConfiguration: resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{
			Driver:     "net.nadra.dev",
			Parameters: runtime.RawExtension{Raw: []byte(`{"apiVersion":"nadra.dev/v1alpha1","kind":"AttachmentConfig",` + parameters + `}`)},
		}},
	})
	return c
}

func prepare(t *testing.T, d *Driver, claims ...*resourceapi.ResourceClaim) map[types.UID]kubeletplugin.PrepareResult {
	t.Helper()
	results, err := plugin{d}.PrepareResourceClaims(t.Context(), claims)
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != len(claims) {
		t.Errorf("%d results for %d claims", len(results), len(claims))
	}
	return results
}

func interfacesOf(store *checkpoint.Store) []string {
	var out []string
	for _, r := range store.All() {
		out = append(out, r.Attachment.Interface+" "+r.Attachment.Network.String())
	}
	return out
}

func TestPrepareNamesInterfacesOverAllClaims(t *testing.T) {
	d := newDriver(t, nad("blue", blueConf), nad("red", redConf))
	a := configure(claim("a", "red", "blue"), "req1", `"interface":"data0"`)
	for range 2 { // the kubelet may ask again
		for uid, r := range prepare(t, d, a, claim("b", "red")) {
			if r.Err != nil {
				t.Fatalf("claim %s: %v", uid, r.Err)
			}
		}
	}
	want := []string{"net1 default/red", "data0 default/blue", "net3 default/red"}
	if diff := cmp.Diff(want, interfacesOf(d.store)); diff != "" {
		t.Errorf("attachments (-want +got):\n%s", diff)
	}
	devices := prepare(t, d, a, claim("b", "red"))["a-uid"].Devices
	if len(devices) != 2 || devices[1].Requests[0] != "req1" || devices[1].PoolName != "node-1/networks" {
		t.Errorf("devices for the kubelet: %+v", devices)
	}
}

func TestPrepareIsAllOrNothing(t *testing.T) {
	d := newDriver(t, nad("blue", blueConf))
	results := prepare(t, d, claim("good", "blue"), claim("bad", "gone"))
	for _, uid := range []types.UID{"good-uid", "bad-uid"} {
		if results[uid].Err == nil {
			t.Errorf("claim %s was prepared", uid)
		}
	}
	if got := results["good-uid"].Err.Error(); !strings.Contains(got, "waits for the pod's other claims") || !strings.Contains(got, "claim default/bad") {
		t.Errorf("the good claim's error: %s", got)
	}
	if left := interfacesOf(d.store); len(left) > 0 {
		t.Errorf("noted: %v", left)
	}
}

// A crash between the notes of two claims, in a Prepare that was never answered.
func TestPrepareAfterHalfAPrepare(t *testing.T) {
	d := newDriver(t, nad("blue", blueConf))
	prepare(t, d, claim("b", "blue"))
	prepare(t, d, claim("a", "blue"), claim("b", "blue"))
	want := []string{"net1 default/blue", "net2 default/blue"}
	if diff := cmp.Diff(want, interfacesOf(d.store)); diff != "" {
		t.Errorf("attachments (-want +got):\n%s", diff)
	}
}

func TestPrepareRefuses(t *testing.T) {
	shared := claim("c", "blue")
	shared.Status.ReservedFor = append(shared.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: "api", UID: "api-uid"})
	unreserved := claim("c", "blue")
	unreserved.Status.ReservedFor = nil
	tests := []struct {
		name  string
		claim *resourceapi.ResourceClaim
		want  []string
	}{
		{"unknown field", configure(claim("c", "blue"), "req0", `"mtu":9000`), []string{"claim default/c", "mtu"}},
		{"long name", configure(claim("c", "blue"), "req0", `"interface":"a-name-of-over-15"`), []string{"claim default/c", "interface", "a-name-of-over-15"}},
		{"same name twice", configure(claim("c", "blue", "red"), "req0", `"interface":"net2"`), []string{"net2", "default/blue", "default/red"}},
		{"another NAD", configure(claim("c", "blue"), "req0", `"network":{"name":"red"}`), []string{"default/red", "default/blue"}},
		{"NAD gone", claim("c", "gone"), []string{"claim default/c", "default-gone-", "node-1/networks"}},
		{"not JSON", claim("c", "broken"), []string{"default/broken", "spec.config"}},
		{"plugin missing", claim("c", "noplugin"), []string{"default/noplugin", "absent", "/opt/cni/bin"}},
		{"master missing", claim("c", "nomaster"), []string{"default/nomaster", `"lan9"`, "master"}},
		{"pool", claim("c", "pooled"), []string{"default/pooled", "intel.com/sriov"}},
		{"shared by two pods", shared, []string{"web, api", "ResourceClaimTemplate"}},
		{"reserved for nobody", unreserved, []string{"status.reservedFor"}},
	}
	pooled := nad("pooled", redConf)
	pooled.Annotations = map[string]string{attachment.ResourceNameAnnotation: "intel.com/sriov"}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newDriver(t, nad("blue", blueConf), nad("red", redConf), nad("broken", `{"type":`), pooled,
				nad("noplugin", `{"type":"absent"}`), nad("nomaster", strings.ReplaceAll(blueConf, "lan0", "lan9")))
			err := prepare(t, d, tt.claim)["c-uid"].Err
			if err == nil {
				t.Fatal("prepared")
			}
			for _, part := range tt.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error lacks %q: %v", part, err)
				}
			}
			if left := interfacesOf(d.store); len(left) > 0 {
				t.Errorf("noted: %v", left)
			}
		})
	}
}

// With namespace isolation a pod gets no network of a namespace that is neither
// its own nor global, whatever its claim's class allows.
func TestPrepareIsolatesNamespaces(t *testing.T) {
	for _, tt := range []struct {
		isolation attachment.Isolation
		refused   bool
	}{
		{attachment.Isolation{}, false},
		{attachment.Isolation{On: true, Global: []string{"default"}}, false},
		{attachment.Isolation{On: true, Global: []string{"shared"}}, true},
	} {
		d := newDriver(t, nad("blue", blueConf))
		d.cfg.Isolation = tt.isolation
		c := claim("c", "blue")
		c.Namespace = "dev" // and the NAD is in default
		err := prepare(t, d, c)["c-uid"].Err
		if tt.refused {
			drivertest.WantError(t, err, "claim dev/c", "network default/blue", "namespace isolation")
		} else if err != nil {
			t.Errorf("%+v: %v", tt.isolation, err)
		}
	}
}

// A deleted NAD is named although only its device's name is in the claim.
func TestPrepareNamesADeletedNAD(t *testing.T) {
	d := newDriver(t, nad("blue", blueConf))
	d.networks.set(nil)
	err := prepare(t, d, claim("c", "blue"))["c-uid"].Err
	if err == nil || !strings.Contains(err.Error(), "NetworkAttachmentDefinition default/blue was deleted") {
		t.Errorf("error %v", err)
	}
}

func TestUnprepare(t *testing.T) {
	d := newDriver(t, nad("blue", blueConf))
	k := d.attacher.Plugins.(*drivertest.Kernel)
	prepare(t, d, claim("a", "blue"), claim("b", "blue"))
	if err := attachOnce(t, d.attacher, drivertest.SandboxNo(1)); err != nil {
		t.Fatal(err)
	}
	k.End(drivertest.SandboxNo(1))
	unprepare := func(uid types.UID) error {
		results, err := plugin{d}.UnprepareResourceClaims(t.Context(), []kubeletplugin.NamespacedObject{{UID: uid}})
		if err != nil {
			t.Fatal(err)
		}
		return results[uid]
	}
	k.Failures["DEL net1"] = errors.New("daemon is down")
	if err := unprepare("a-uid"); err == nil || !strings.Contains(err.Error(), "unpreparing claim default/a") {
		t.Errorf("error %v", err)
	}
	if got := len(d.store.ForClaim("a-uid")); got != 1 {
		t.Error("the claim was forgotten while a DEL is owed")
	}
	delete(k.Failures, "DEL net1")
	for range 2 {
		if err := unprepare("a-uid"); err != nil {
			t.Error(err)
		}
	}
	if diff := cmp.Diff([]string{"net2 default/blue"}, interfacesOf(d.store)); diff != "" {
		t.Errorf("the other claim (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]bool{"sandbox-1/net2": true}, k.Has); diff != "" {
		t.Errorf("interfaces (-want +got):\n%s", diff)
	}
}

// The kubelet's loop for claims of pods that are gone does not wait for their
// containers.
func TestUnprepareWaitsForTheSandbox(t *testing.T) {
	d, k := attachedDriver(t)
	drivertest.WantError(t, d.unprepare(t.Context(), "a-uid"), "claim default/a", "sandbox-1", "still has its network namespace")
	drivertest.Same(t, "plugins", nil, k.Calls)
	records := d.store.All()
	if err := d.stillRuns(records, time.Now().Add(runsOnLimit)); err != nil {
		t.Errorf("a namespace that outlives its sandbox holds its pod for ever: %v", err)
	}
	k.End(drivertest.SandboxNo(1))
	if err := d.unprepare(t.Context(), "a-uid"); err != nil {
		t.Error(err)
	}
	drivertest.Same(t, "plugins", []string{`DEL net1 in sandbox-1 netns ""`}, k.Calls)
}

func TestCreateContainerRefusesAnUnattachedPod(t *testing.T) {
	d := newDriver(t, nad("blue", blueConf))
	h := &hooks{d: d}
	create := func(sandbox string) error {
		_, _, err := h.CreateContainer(t.Context(), &nri.PodSandbox{Id: sandbox, Uid: "web-uid", Namespace: "default", Name: "web"}, nil)
		return err
	}
	if err := create("sandbox-1"); err != nil {
		t.Errorf("a pod without claims: %v", err)
	}
	prepare(t, d, claim("a", "blue"))
	if err := create("sandbox-1"); err == nil || !strings.Contains(err.Error(), "default/blue (net1)") {
		t.Errorf("prepared only: %v", err)
	}
	if err := attachOnce(t, d.attacher, drivertest.SandboxNo(1)); err != nil {
		t.Fatal(err)
	}
	if err := create("sandbox-1"); err != nil {
		t.Errorf("attached: %v", err)
	}
	if err := create("sandbox-2"); err == nil {
		t.Error("attached in another sandbox only: accepted")
	}
}
