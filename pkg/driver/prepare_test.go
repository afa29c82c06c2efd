package driver

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/test/drivertest"
)

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
	drivertest.WantReason(t, results["good-uid"].Err, reason.OtherClaimFailed, "claim default/good ", "claim default/bad")
	if left := interfacesOf(d.store); len(left) > 0 {
		t.Errorf("recorded: %v", left)
	}
}

// TestPrepareAfterHalfAPrepare checks a crash between the records of two claims, in a
// Prepare that was never answered.
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
	ofGroup := claim("c", "blue")
	ofGroup.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{APIGroup: "scheduling.k8s.io", Resource: "podgroups", Name: "trainers", UID: "group-uid"}}
	unreserved := claim("c", "blue")
	unreserved.Status.ReservedFor = nil
	tests := []struct {
		name  string
		claim *resourceapi.ResourceClaim
		code  reason.Code
		want  []string
	}{
		{"unknown field", configure(claim("c", "blue"), "req0", `"mtu":9000`), reason.ClaimInvalid, []string{"claim default/c", "mtu"}},
		{"long name", configure(claim("c", "blue"), "req0", `"interface":"a-name-of-over-15"`), reason.ClaimInvalid, []string{"claim default/c", "interface", "a-name-of-over-15"}},
		{"same name twice", configure(claim("c", "blue", "red"), "req0", `"interface":"net2"`), reason.InterfaceConflict, []string{"net2", "default/blue", "default/red"}},
		{"another NAD", configure(claim("c", "blue"), "req0", `"network":{"name":"red"}`), reason.ClaimInvalid, []string{"default/red", "default/blue"}},
		{"NAD gone", claim("c", "gone"), reason.NetworkNotFound, []string{"claim default/c", "NetworkAttachmentDefinition default/gone "}},
		{"no NAD named", chosen("c", "node-0-0", `"interface":"net5"`), reason.ClaimInvalid, []string{"claim default/c", "network"}},
		{"a NAD with the device of another", chosen("c", attachment.DeviceName(attachment.NetworkRef{Namespace: "default", Name: "blue"}), `"network":{"name":"red"}`), reason.ClaimInvalid, []string{"default/red", "default-blue-"}},
		{"a NAD whose addresses the scheduler has not counted", chosen("c", "node-0-0", `"network":{"name":"tiny"}`), reason.ClaimInvalid, []string{"default/tiny", "node-0-0"}},
		{"not JSON", claim("c", "broken"), reason.NetworkInvalid, []string{"default/broken", "spec.config"}},
		{"plugin missing", claim("c", "noplugin"), reason.PluginMissing, []string{"default/noplugin", "absent", "/opt/cni/bin"}},
		{"master missing", claim("c", "nomaster"), reason.MasterMissing, []string{"default/nomaster", `"lan9"`, "master"}},
		{"pool", claim("c", "pooled"), reason.DeviceMismatch, []string{"default/pooled", "intel.com/sriov"}},
		{"shared by two pods", shared, reason.ClaimShared, []string{"web, api", "ResourceClaimTemplate"}},
		{"reserved for a PodGroup", ofGroup, reason.ClaimShared, []string{"PodGroup trainers", "spec.resourceClaims", "ResourceClaimTemplate"}},
		{"reserved for nobody", unreserved, reason.ClaimNotReserved, []string{"status.reservedFor"}},
	}
	pooled := nad("pooled", redConf)
	pooled.Annotations = map[string]string{attachment.ResourceNameAnnotation: "intel.com/sriov"}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newDriver(t, nad("blue", blueConf), nad("red", redConf), nad("broken", `{"type":`), pooled,
				nad("tiny", `{"cniVersion":"1.0.0","type":"bridge","ipam":{"type":"host-local","subnet":"10.0.0.0/29"}}`),
				nad("noplugin", `{"type":"absent"}`), nad("nomaster", strings.ReplaceAll(blueConf, "lan0", "lan9")))
			drivertest.WantReason(t, prepare(t, d, tt.claim)["c-uid"].Err, tt.code, tt.want...)
			if left := interfacesOf(d.store); len(left) > 0 {
				t.Errorf("recorded: %v", left)
			}
		})
	}
}

// TestPrepareIsolatesNamespaces checks that, with namespace isolation, a pod gets no network of a
// namespace that is neither its own nor global, whatever its claim's class allows.
func TestPrepareIsolatesNamespaces(t *testing.T) {
	for _, tt := range []struct {
		isolation attachment.Isolation
		refused   bool
	}{
		{attachment.Isolation{}, false},
		{attachment.Isolation{On: true, Global: []string{"default"}}, false},
		{attachment.Isolation{On: true, Global: []string{"shared"}}, true},
	} {
		d := newDriverWith(t, setup{cfg: func(c *Config) { c.Isolation = tt.isolation }}, nad("blue", blueConf))
		c := claim("c", "blue")
		c.Namespace = "dev" // and the NAD is in default
		err := prepare(t, d, c)["c-uid"].Err
		if tt.refused {
			drivertest.WantReason(t, err, reason.NamespaceIsolation, "claim dev/c", "network default/blue")
		} else if err != nil {
			t.Errorf("%+v: %v", tt.isolation, err)
		}
	}
}

// chosen returns a claim of the class of all devices, which names its network itself.
func chosen(name, device, parameters string) *resourceapi.ResourceClaim {
	c := claim(name, "any")
	c.Status.Allocation.Devices.Config = nil
	c.Status.Allocation.Devices.Results[0].Device = device
	return configure(c, "req0", parameters)
}

// TestPrepareAttachesWhatTheClaimChooses checks a claim whose class names no network.
func TestPrepareAttachesWhatTheClaimChooses(t *testing.T) {
	d := newDriver(t, nad("blue", blueConf), nad("red", redConf))
	if err := prepare(t, d, chosen("c", "node-0-0", `"network":{"name":"red"}`))["c-uid"].Err; err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"net1 default/red"}, interfacesOf(d.store)); diff != "" {
		t.Errorf("attachments (-want +got):\n%s", diff)
	}
}

// TestPrepareAfterTheNetworkHasMoved checks that a claim of the network's class is prepared although the
// network has another device since: its range has shrunk after the allocation.
func TestPrepareAfterTheNetworkHasMoved(t *testing.T) {
	d := newDriver(t, nad("tiny", `{"cniVersion":"1.0.0","type":"bridge","ipam":{"type":"host-local","subnet":"10.0.0.0/29"}}`))
	if err := prepare(t, d, claim("c", "tiny"))["c-uid"].Err; err != nil {
		t.Error(err)
	}
}

func TestUnprepare(t *testing.T) {
	d := newDriver(t, nad("blue", blueConf))
	k := kernelOf(d)
	prepare(t, d, claim("a", "blue"), claim("b", "blue"))
	if err := attachOnce(t, d, drivertest.SandboxNo(1)); err != nil {
		t.Fatal(err)
	}
	k.End(drivertest.SandboxNo(1))
	unprepare := func(uid types.UID) error {
		results, err := d.plugin.UnprepareResourceClaims(t.Context(), []kubeletplugin.NamespacedObject{{UID: uid}})
		if err != nil {
			t.Fatal(err)
		}
		return results[uid]
	}
	k.Failures["DEL net1"] = errors.New("daemon is down")
	drivertest.WantReason(t, unprepare("a-uid"), reason.DELFailed, "claim default/a", "daemon is down")
	if got := len(d.store.ForClaim("a-uid")); got != 1 {
		t.Error("the claim's records were removed before its DEL")
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

// TestUnprepareWaitsForTheSandbox checks the kubelet's loop over claims of pods that are gone,
// which does not wait for their containers.
func TestUnprepareWaitsForTheSandbox(t *testing.T) {
	d, k := attachedDriver(t)
	drivertest.WantReason(t, d.preparer.unprepare(t.Context(), "a-uid"), reason.DELUnfinished, "claim default/a", "sandbox-1")
	drivertest.Same(t, "plugins", nil, k.Calls)
	records := d.store.All()
	deleted := referringTo("web", nil)
	deleted.DeletionTimestamp = &metav1.Time{}
	see(t, d, deleted)
	if err := d.preparer.stillRuns(records, time.Now().Add(refuseRunning)); err != nil {
		t.Errorf("a namespace that outlives its sandbox holds its pod for ever: %v", err)
	}
	k.End(drivertest.SandboxNo(1))
	if err := d.preparer.unprepare(t.Context(), "a-uid"); err != nil {
		t.Error(err)
	}
	drivertest.Same(t, "plugins", []string{`DEL net1 in sandbox-1 netns ""`}, k.Calls)
}

// TestPrepareAfterItsCallHasEnded checks that a call for which the kubelet no longer waits records nothing: nobody would
// unprepare it. Whether it gets the pod's lock is chance, so it tries often.
func TestPrepareAfterItsCallHasEnded(t *testing.T) {
	d := newDriver(t, nad("blue", blueConf))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 30 {
		if err := d.preparer.prepare(ctx, []*resourceapi.ResourceClaim{claim("a", "blue")})["a-uid"]; !errors.Is(err, context.Canceled) {
			t.Fatalf("the claim: %v", err)
		}
		drivertest.Same(t, "records", 0, len(d.store.All()))
	}
}

// TestNewClaimBesideAnAttachedOne checks that a pod whose record was lost while another claim of it is attached keeps
// what it has: planned again, both claims would get the same interface.
func TestNewClaimBesideAnAttachedOne(t *testing.T) {
	d, k := attachedDriver(t)
	for uid, result := range prepare(t, d, claim("a", "blue"), claim("b", "blue")) {
		if reason.Of(result.Err) != reason.ClaimIncomplete {
			t.Errorf("claim %s: %v", uid, result.Err)
		}
	}
	drivertest.Same(t, "phases", map[string]checkpoint.Phase{"net1": checkpoint.Attached}, drivertest.Phases(d.store))
	drivertest.Same(t, "plugins", nil, k.Calls)
}
