package probe

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	anUID = "0a1b2c3d-1111-2222-3333-444455556666"
	aHash = "0123456789abcdef0123456789abcdef"
)

var anID = strings.Repeat("0123456789abcdef", 4)

func TestCgroupOf(t *testing.T) {
	under := strings.ReplaceAll(anUID, "-", "_")
	for name, test := range map[string]struct{ file, pod, container string }{
		"systemd":                    {"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + under + ".slice/cri-containerd-" + anID + ".scope\n", anUID, anID},
		"systemd, guaranteed":        {"0::/kubepods.slice/kubepods-pod" + under + ".slice/crio-" + anID + ".scope\n", anUID, anID},
		"cgroupfs":                   {"0::/kubepods/besteffort/pod" + anUID + "/" + anID + "\n", anUID, anID},
		"cgroupfs below a group":     {"0::/lab/node-1/kubepods/pod" + anUID + "/" + anID + "\n", anUID, anID},
		"from a cgroup namespace":    {"0::/../../kubepods-besteffort-pod" + under + ".slice/cri-containerd-" + anID + ".scope\n", anUID, anID},
		"a group of the container's": {"0::/kubepods/pod" + anUID + "/" + anID + "/init.scope\n", anUID, anID},
		"a static pod":               {"0::/kubepods/burstable/pod" + aHash + "/" + anID + "\n", aHash, anID},
		"version 1":                  {"12:pids:/user.slice\n11:memory:/kubepods/burstable/pod" + anUID + "/" + anID + "\n", anUID, anID},
		"CRI-O's monitor":            {"0::/kubepods.slice/kubepods-pod" + under + ".slice/crio-conmon-" + anID + ".scope\n", "", ""},
		"a service":                  {"0::/system.slice/kubelet.service\n", "", ""},
		"the pod's group itself":     {"0::/kubepods/pod" + anUID + "\n", "", ""},
		"a folder that is called so": {"0::/podman/" + anID + "\n", "", ""},
		"nothing":                    {"", "", ""},
		"an unknown line":            {"x\n", "", ""},
	} {
		pod, container, found := CgroupOf(test.file)
		if pod != test.pod || container != test.container || found != (test.pod != "") {
			t.Errorf("%s: %q, %q, %v", name, pod, container, found)
		}
	}
}

// TestVariables checks that only variables about networks are reported.
func TestVariables(t *testing.T) {
	environ := "PATH=/bin\x00PASSWORD=s3cret\x00PCIDEVICE_INTEL_COM_SRIOV=0000:03:02.0\x00NCCL_IB_HCA=mlx5_1\x00" +
		"AWS_SECRET_ACCESS_KEY=PCIDEVICE_X=1\x00PCIDEVICE_EMPTY\x00KUBEVIRT_RESOURCE_NAME_net1=intel.com/sriov\x00"
	want := map[string]string{
		"PCIDEVICE_INTEL_COM_SRIOV": "0000:03:02.0", "NCCL_IB_HCA": "mlx5_1", "PCIDEVICE_EMPTY": "", "KUBEVIRT_RESOURCE_NAME_net1": "intel.com/sriov",
	}
	if diff := cmp.Diff(want, Variables([]byte(environ))); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
	if got := Variables([]byte("PATH=/bin\x00")); got != nil {
		t.Errorf("variables %v", got)
	}
	if got := Variables([]byte("PCIDEVICE_X=" + strings.Repeat("x", 1<<20) + "\x00")); len(got["PCIDEVICE_X"]) != maxVariable {
		t.Errorf("a value of %d bytes", len(got["PCIDEVICE_X"]))
	}
}

func lines(t *testing.T, values ...any) string {
	t.Helper()
	var b strings.Builder
	for _, v := range values {
		if err := json.NewEncoder(&b).Encode(v); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

func TestDecodePods(t *testing.T) {
	one := Pod{UID: anUID, Links: []Link{{Name: "net1", Kind: "macvlan", Mode: "bridge", Addresses: []string{"10.0.0.2/24"}}}}
	two := Pod{UID: aHash, HostNetwork: true}
	end := PodsReport{APIVersion: APIVersion, Kind: PodsKind, Count: 2, VFs: []VF{{PCI: "0000:03:02.0", VLAN: 7}}, Errors: []string{"no netlink"}}
	got, err := DecodePods([]byte("a warning\n" + lines(t, NewPodReport(one), NewPodReport(two), end) + "later\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := &NodePods{Pods: []Pod{one, two}, VFs: end.VFs, Errors: end.Errors}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
	for name, test := range map[string]struct{ log, want string }{
		"nothing":       {"", "the output is empty"},
		"an error":      {"nadra-node: no such flag\n", "nadra-node: no such flag"},
		"no end":        {lines(t, NewPodReport(one)), "no line of the output is nadra.dev/v1alpha1 PodsProbe"},
		"no beginning":  {lines(t, NewPodReport(two), end), "1 of 2 pods"},
		"half a line":   {`{"apiVersion": `, "unexpected end"},
		"another probe": {`{"apiVersion":"nadra.dev/v1alpha1","kind":"NodeProbe"}`, `kind "NodeProbe" are not`},
	} {
		if _, err := DecodePods([]byte(test.log)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q", name, err, test.want)
		}
	}
}
