package claimstatus

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/test/drivertest"
)

// asDevice reads back what server-side apply would store.
func asDevice(t *testing.T, s Device) resourceapi.AllocatedDeviceStatus {
	t.Helper()
	s.Pool = "node-1/networks"
	raw, err := json.Marshal(s.apply("node-1", time.Unix(0, 0)))
	if err != nil {
		t.Fatal(err)
	}
	var out resourceapi.AllocatedDeviceStatus
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestDeviceStatus(t *testing.T) {
	got := asDevice(t, Attached(drivertest.Attached("net1", drivertest.BridgeResult)))
	want := &resourceapi.NetworkDeviceData{InterfaceName: "net1", IPs: []string{"10.1.0.5/24", "fd00::5/64"}, HardwareAddress: "02:00:00:00:00:03"}
	if diff := cmp.Diff(want, got.NetworkData); diff != "" {
		t.Errorf("network data (-want +got):\n%s", diff)
	}
	c := got.Conditions[0]
	if c.Type != "Ready" || c.Status != "True" || c.Reason != "Attached" || c.Message != "network default/blue is attached as net1" {
		t.Errorf("condition %+v", c)
	}
	if got.ShareID == nil || got.Data == nil {
		t.Errorf("share ID %v, data %v", got.ShareID, got.Data)
	}
	failed := asDevice(t, AttachFailed(drivertest.Attached("net1", ""), errors.New(strings.Repeat("é", maxMessage))))
	if c := failed.Conditions[0]; c.Status != "False" || len(c.Message) > maxMessage || failed.NetworkData != nil || failed.Data != nil {
		t.Errorf("failed: %s, %d bytes, %v", c.Status, len(c.Message), failed.NetworkData)
	}
}

// TestDeviceStatusKeepsTheLimits checks the API's limits: the API server would refuse the
// whole status.
func TestDeviceStatusKeepsTheLimits(t *testing.T) {
	var ips []string
	for i := range 200 {
		ips = append(ips, fmt.Sprintf(`{"address":"10.1.0.%d/24"}`, i))
	}
	big := `{"cniVersion":"1.1.0","ips":[` + strings.Join(ips, ",") + `],"dns":{"domain":"` + strings.Repeat("x", maxData) + `"}}`
	r := drivertest.Attached("net1", big)
	got := asDevice(t, Attached(r))
	if len(got.NetworkData.IPs) > maxIPs || got.Data != nil {
		t.Errorf("%d addresses, data %v", len(got.NetworkData.IPs), got.Data != nil)
	}
	r.Plugins = []string{"/opt/cni/bin/bridge@sha256:0"}
	if got := asDevice(t, Attached(r)); got.Data == nil || string(got.Data.Raw) != `{"nadraPlugins":["/opt/cni/bin/bridge@sha256:0"]}` {
		t.Errorf("data without room for the result: %v", got.Data)
	}
	full := drivertest.Attached("net1", `{"cniVersion":"1.1.0","dns":{"domain":"`+strings.Repeat("x", maxData-100)+`"}}`)
	full.Plugins = []string{"/opt/cni/bin/" + strings.Repeat("x", 100)}
	if got := asDevice(t, Attached(full)); got.Data == nil || string(got.Data.Raw) != string(full.Result) {
		t.Errorf("the plugins have taken the result's place: %v", got.Data)
	}
	r.Plugins = []string{strings.Repeat("x", maxData)}
	if got := asDevice(t, Attached(r)); got.Data != nil {
		t.Errorf("%d bytes of data", len(got.Data.Raw))
	}
}

// TestDeviceStatusHasThePlugins checks that the data of a device has the plugins' files beside the result, which stays
// as it is, and beside the node of a device that nodes share.
func TestDeviceStatusHasThePlugins(t *testing.T) {
	r := drivertest.Attached("net1", `{"cniVersion":"1.1.0","ips":[{"address":"10.1.0.5/24"}],"big":12345678901234567890}`)
	r.Plugins = []string{"/opt/cni/bin/bridge@sha256:0", "/opt/cni/bin/host-local@sha256:1"}
	const plugins = `"nadraPlugins":["/opt/cni/bin/bridge@sha256:0","/opt/cni/bin/host-local@sha256:1"]`
	want := `{"big":12345678901234567890,"cniVersion":"1.1.0","ips":[{"address":"10.1.0.5/24"}],` + plugins
	if got := asDevice(t, Attached(r)); got.Data == nil || string(got.Data.Raw) != want+"}" {
		t.Errorf("of the node: %v", got.Data)
	}
	r.Result = json.RawMessage(strings.Replace(string(r.Result), `"big"`, `"node":"another","big"`, 1))
	shared := Attached(r)
	shared.Pool = "shared"
	if got := shared.apply("node-1", time.Unix(0, 0)).Data; got == nil || string(got.Raw) != want+`,"node":"node-1"}` {
		t.Errorf("of a device that nodes share: %v", got)
	}
}

// TestCheckFailedStands repeats the status of an attached device after a failed CHECK:
// only the next CHECK replaces the condition.
func TestCheckFailedStands(t *testing.T) {
	record := drivertest.Attached("net1", drivertest.BridgeResult)
	failed := CheckFailed(record, "its CHECK fails: the address is gone (CNI code 999)")
	c := &resourceapi.ResourceClaim{Status: resourceapi.ResourceClaimStatus{Devices: []resourceapi.AllocatedDeviceStatus{{
		Driver: "net.nadra.dev", Pool: record.Pool, Device: record.Device, ShareID: ptr.To(record.ShareID),
		Conditions: []metav1.Condition{{Type: reason.ConditionReady, Status: metav1.ConditionFalse, Reason: failed.Reason, Message: failed.Message}},
	}}}}
	for name, tt := range map[string]struct {
		state Device
		want  bool
	}{
		"repeated":          {AttachedBefore(record), true},
		"fails again":       {failed, true},
		"fails differently": {CheckFailed(record, "the route is gone"), false},
		"passes":            {Attached(record), false},
	} {
		if got := isStored(c, []Device{tt.state}); got != tt.want {
			t.Errorf("%s: stored already: %t", name, got)
		}
	}
	got := asDevice(t, failed)
	if c := got.Conditions[0]; c.Status != metav1.ConditionFalse || c.Reason != "CheckFailed" ||
		c.Message != "network default/blue is attached as net1, but its CHECK fails: the address is gone (CNI code 999)" || got.NetworkData == nil {
		t.Errorf("device %+v", got)
	}
}
