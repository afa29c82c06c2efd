//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

// TestPoolsAndClaimsOfOthers tests NADs with resources that are not nadra's pools, and pods
// with handwritten claims, with all of nadra on the cluster.
func TestPoolsAndClaimsOfOthers(t *testing.T) {
	f := setup(t, "others")
	f.bridge("br-others")
	t.Cleanup(func() { f.Must(f.RemoveController(f.Ctx)) })
	f.Must(f.InstallController(f.Ctx))
	f.Kubectl("label", "namespace", f.NS, "nadra.dev/owner=nadra")
	f.card() // the webhook knows its pool when the last part begins

	f.part("a key that the plugin ignores withdraws no network", (*fixture).idleMaster)
	f.part("a capacity of nodes is no pool", (*fixture).nodeCapacity)
	f.part("a pod is refused if nobody serves its pool", (*fixture).nobodysPool)
	f.part("a network uses the device of another driver", (*fixture).othersDevice)
	f.part("a pod with a claim by hand is completed", (*fixture).claimByHand)
	f.part("pods draw functions from a pool of a device plugin's ConfigMap", (*fixture).functionsOfCard)
}

// drawing creates a NAD that names a resource.
func (f *fixture) drawing(name, resourceName, config string) {
	f.Helper()
	f.Must(f.Apply(f.Ctx, fmt.Sprintf(`{apiVersion: k8s.cni.cncf.io/v1, kind: NetworkAttachmentDefinition,
metadata: {name: %s, namespace: %s, annotations: {k8s.v1.cni.cncf.io/resourceName: %s}}, spec: {config: '%s'}}`, name, f.NS, resourceName, config)))
}

const othersBridge = `{"cniVersion":"1.0.0","name":"others","type":"bridge","bridge":"br-others","ipam":{}}`

func (f *fixture) idleMaster() {
	f.nad("idle", strings.Replace(othersBridge, `"ipam"`, `"master":"nowhere0","ipam"`, 1))
	f.Must(f.Published(f.Ctx, f.NS+"/idle"))
	f.runs(asking(f.NS, "idle", "idle@data"))
	f.Must(f.DeletePod(f.Ctx, f.NS, "idle"))
}

// runs creates a pod, waits until it is Ready and checks that it has the interface data.
func (f *fixture) runs(pod *corev1.Pod) *corev1.Pod {
	f.Helper()
	_, err := f.CreatePod(f.Ctx, pod)
	f.Must(err)
	ready, err := f.Ready(f.Ctx, pod.Namespace, pod.Name, time.Minute)
	f.Must(err)
	if _, err := f.Exec(f.Ctx, pod.Namespace, pod.Name, "ip", "link", "show", "data"); err != nil {
		f.Errorf("pod %s has no interface data: %v", pod.Name, err)
	}
	return ready
}

func (f *fixture) nodeCapacity() {
	const marker = "bridge.network.kubevirt.io/br-others"
	patch := func(op, value string) {
		f.Kubectl("patch", "node", f.node.Name(), "--subresource=status", "--type=json",
			"-p", fmt.Sprintf(`[{"op": %q, "path": "/status/capacity/%s"%s}]`, op, strings.ReplaceAll(marker, "/", "~1"), value))
	}
	patch("add", `, "value": "100"`)
	defer patch("remove", "")
	f.drawing("marked", marker, othersBridge)
	f.Must(f.Published(f.Ctx, f.NS+"/marked"))
	pod := asking(f.NS, "marked", "marked@data")
	one := corev1.ResourceList{marker: resource.MustParse("1")}
	pod.Spec.Containers[0].Resources.Limits = one
	ready := f.runs(pod)
	if got := ready.Spec.Containers[0].Resources; !got.Limits.Name(marker, resource.DecimalSI).Equal(resource.MustParse("1")) || len(got.Claims) != 1 {
		f.Errorf("the pod has resources %+v", got)
	}
	// Without the capacity the pod's limit keeps it off the node.
	patch("add", `, "value": "0"`)
	f.Eventually(time.Minute, func(ctx context.Context) error { // the kubelet copies it
		n, err := f.Kube.CoreV1().Nodes().Get(ctx, f.node.Name(), metav1.GetOptions{})
		if err == nil && !n.Status.Allocatable.Name(marker, resource.DecimalSI).IsZero() {
			err = fmt.Errorf("allocatable: %v", n.Status.Allocatable)
		}
		return err
	})
	pod = asking(f.NS, "kept-off", "marked@data")
	pod.Spec.Containers[0].Resources.Limits = one
	_, err := f.CreatePod(f.Ctx, pod)
	f.Must(err)
	f.Eventually(2*time.Minute, func(ctx context.Context) error {
		if printed := strings.Join(f.Events(ctx, f.NS, "kept-off"), "\n"); !strings.Contains(printed, "Insufficient "+marker) {
			return fmt.Errorf("the events of the pod: %s", printed)
		}
		return nil
	})
	f.Must(f.DeletePod(f.Ctx, f.NS, "kept-off"))
	f.Must(f.DeletePod(f.Ctx, f.NS, "marked"))
}

func (f *fixture) nobodysPool() {
	f.drawing("nobodys", "example.com/none", othersBridge)
	f.Eventually(2*time.Minute, func(context.Context) error { // the controller sees the NAD later
		_, err := f.dry(asking(f.NS, "nobodys", "nobodys"))
		if err == nil || !strings.Contains(err.Error(), "NADRA-067") {
			return fmt.Errorf("a pod whose pool nobody serves is not refused with NADRA-067: %w", cmp.Or(err, errors.New("it is accepted")))
		}
		return nil
	})
	f.isRefused(asking(f.NS, "nobodys", "nobodys"), "NADRA-067", "example.com/none")

	manifests := f.t2file("nobodys.yaml", `{apiVersion: v1, kind: Pod, metadata: {name: x, namespace: others, annotations: {k8s.v1.cni.cncf.io/networks: nobodys}}, spec: {containers: [{name: a}]}}`)
	code, printed, err := f.cli(f.Ctx, "scan", "-f", manifests, "--with-cluster", "--fail-on", "blocker")
	f.Must(err)
	if code == 0 || !strings.Contains(printed, "NADRA-067") {
		f.Errorf("scan of the live cluster ends with %d:\n%s", code, printed)
	}
}

// t2file writes a manifest for kubectl-nadra.
func (f *fixture) t2file(name, text string) string {
	f.Helper()
	path := f.TempDir() + "/" + name
	f.Must(os.WriteFile(path, []byte(text), 0o600))
	return path
}

// others is another vendor's DRA driver, and its class.
const others = "others.example.com"

// otherDriver runs another vendor's DRA driver on the node.
func (f *fixture) otherDriver(devices ...string) {
	f.Helper()
	program, err := cluster.Program{
		Suite: "e2e", Name: "otherdriver", Dir: ".", Package: "./test/otherdriver", Sources: []string{"test/otherdriver/*.go"},
	}.Build(f.Ctx, os.Stderr)
	f.Must(err)
	ctx, stop := context.WithCancel(f.Ctx)
	cmd := f.node.Command(ctx, program, append([]string{"-kubelet=" + f.at.Kubelet, f.Cluster.Kubeconfig(), f.node.Name(), others}, devices...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	var out safeBuffer
	cmd.Stdout, cmd.Stderr = &out, &out
	done := make(chan error, 1)
	go func() { done <- f.node.Run(cmd) }()
	f.Cleanup(func() {
		stop()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) && !errors.As(err, new(*exec.ExitError)) {
			f.Errorf("the other driver: %v", err)
		}
		if f.Failed() {
			f.Logf("the other driver: %s", out.String())
		}
		f.Kubectl("delete", "resourceslices", "--field-selector=spec.driver="+others)
		f.Kubectl("delete", "deviceclass", others)
	})
	f.Must(f.Apply(f.Ctx, fmt.Sprintf(`{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: %s},
spec: {selectors: [{cel: {expression: 'device.driver == "%s"'}}]}}`, others, others)))
}

// sawDevices has the configurations that the plugin of recordsDevices got with ADD, recordedBridge is a network with it.
const (
	sawDevices     = "/var/tmp/nadra-others"
	recordedBridge = `{"cniVersion":"1.0.0","name":"others","plugins":[{"type":"bridge","bridge":"br-others","ipam":{}},{"type":"nadra-device"}]}`
)

// recordsDevices installs a plugin that records its configurations, for the duration of the part.
func (f *fixture) recordsDevices() {
	f.Helper()
	installPlugin(f.T, "nadra-device", `input=$(cat); [ "$CNI_COMMAND" != ADD ] || { echo "$input" >> `+sawDevices+`; echo "$input" | `+passOn+`; }; exit 0`)
	f.sh("rm -f " + sawDevices)
	f.Cleanup(func() { f.sh("rm -f " + sawDevices) })
}

// admitted creates a pod once the webhook knows the pools: each of its replicas caches slices for some seconds.
func (f *fixture) admitted(pod *corev1.Pod) {
	f.Helper()
	f.Eventually(time.Minute, func(ctx context.Context) error {
		_, err := f.CreatePod(ctx, pod)
		return err
	})
}

// othersDevice runs a pod with another driver's device for its network, by a claim of its
// own.
func (f *fixture) othersDevice() {
	f.recordsDevices()
	device := func(id string) string {
		return "vf-" + id + ",k8s.cni.cncf.io/resourceName=example.com/vf,k8s.cni.cncf.io/deviceID=0000:0a:00." + id
	}
	f.drawing("theirs", "example.com/vf", recordedBridge)
	f.otherDriver(device("1"), device("2"), device("3"))
	f.Must(f.Published(f.Ctx, f.NS+"/theirs"))
	f.Must(f.Apply(f.Ctx, fmt.Sprintf(`{apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, metadata: {name: vf, namespace: %s},
spec: {spec: {devices: {requests: [{name: vf, exactly: {deviceClassName: %s}}]}}}}`, f.NS, others)))
	claiming := func(name, networks string) *corev1.Pod {
		pod := asking(f.NS, name, networks)
		pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "vf", ResourceClaimTemplateName: ptr.To("vf")}}
		pod.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "vf"}}
		return pod
	}
	f.admitted(claiming("web", "theirs@data"))
	ready, err := f.Ready(f.Ctx, f.NS, "web", 3*time.Minute)
	f.Must(err)
	if len(ready.Spec.ResourceClaims) != 2 {
		f.Errorf("the pod has claims %+v", ready.Spec.ResourceClaims)
	}
	id := f.allocatedTo(ready)
	if seen := f.sh("cat " + sawDevices); !strings.Contains(seen, `"deviceID":"`+id+`"`) {
		f.Errorf("the pod was allocated %s, and the plugin saw\n%s", id, seen)
	}
	f.Must(f.DeletePod(f.Ctx, f.NS, "web"))

	f.admitted(claiming("two", "theirs,theirs"))
	// It has one device for two networks.
	f.Eventually(time.Minute, f.podEvent("two", lab.Code(reason.DeviceMismatch), "others/theirs", "example.com/vf"))
	f.Must(f.DeletePod(f.Ctx, f.NS, "two"))
}

// allocatedTo returns the deviceID of a pod's device of the other driver.
func (f *fixture) allocatedTo(pod *corev1.Pod) string {
	f.Helper()
	for _, s := range pod.Status.ResourceClaimStatuses {
		claim, err := f.Kube.ResourceV1().ResourceClaims(pod.Namespace).Get(f.Ctx, *s.ResourceClaimName, metav1.GetOptions{})
		f.Must(err)
		for _, r := range claim.Status.Allocation.Devices.Results {
			if r.Driver == others {
				return "0000:0a:00." + strings.TrimPrefix(r.Device, "vf-")
			}
		}
	}
	f.Fatalf("pod %s has no device of the other driver", pod.Name)
	return ""
}

// makeCard makes the sysfs of a card with two virtual functions in a folder, because this machine has no such card.
const (
	cardSysfs = "/var/tmp/nadra-sys"
	makeCard  = `set -e
bus=` + cardSysfs + `/bus/pci parent=devices/pci0000:3a/0000:3a:00.0 card=` + cardSysfs + `/devices/pci0000:3a/0000:3a:00.0
mkdir -p $card $bus/devices $bus/drivers/mlx5_core
add() {
	mkdir $card/$1; ln -s ../../../$parent/$1 $bus/devices/$1; ln -s ../../../../bus/pci/drivers/mlx5_core $card/$1/driver
	echo 0x020000 >$card/$1/class; echo 0x15b3 >$card/$1/vendor; echo $2 >$card/$1/device
}
add 0000:3b:00.0 0x101d; echo 2 >$card/0000:3b:00.0/sriov_totalvfs; echo 2 >$card/0000:3b:00.0/sriov_numvfs
for vf in 0 1; do
	add 0000:3b:01.$vf 0x101e
	ln -s ../0000:3b:00.0 $card/0000:3b:01.$vf/physfn; ln -s ../0000:3b:01.$vf $card/0000:3b:00.0/virtfn$vf
done`
)

// card defines a pool of the card's functions as the SR-IOV device plugin does, and lets the driver find them.
func (f *fixture) card() {
	f.undo = append(f.undo, "rm -rf "+cardSysfs)
	f.sh("rm -rf " + cardSysfs + "\n" + makeCard)
	f.Kubectl("-n", "kube-system", "create", "configmap", "sriovdp-config", `--from-literal=config.json={"resourceList":[
		{"resourceName":"card","selectors":{"vendors":["15b3"],"devices":["101e"],"rootDevices":["0000:3b:00.0#0-1"]}}]}`)
	f.Cleanup(func() { f.Kubectl("-n", "kube-system", "delete", "configmap", "sriovdp-config") })
	f.drawing("drawn", "intel.com/card", recordedBridge)
	_, err := lab.AddDriverArgs(f.Ctx, f.Lab, "--sysfs-root=/host"+cardSysfs) // until the controller is removed
	f.Must(err)
}

// functionsOfCard runs pods whose networks draw from the card's pool. The scheduler counts the functions, and plugins get
// their addresses.
func (f *fixture) functionsOfCard() {
	f.recordsDevices()
	asks := func(name, networks, functions string) *corev1.Pod {
		pod := asking(f.NS, name, networks)
		pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"intel.com/card": resource.MustParse(functions)}
		return pod
	}
	f.admitted(asks("both", "drawn@data,drawn", "2"))
	_, err := f.Ready(f.Ctx, f.NS, "both", 3*time.Minute)
	f.Must(err)
	f.sawFunctions("0000:3b:01.0", "0000:3b:01.1")
	f.admitted(asks("late", "drawn@data", "1"))
	f.Eventually(time.Minute, func(ctx context.Context) error {
		if printed := f.Events(ctx, f.NS, "late"); !slices.ContainsFunc(printed, func(e string) bool { return strings.HasPrefix(e, "FailedScheduling") }) {
			return fmt.Errorf("pod late is not held back by the scheduler: %q", printed)
		}
		return nil
	})
	f.Kubectl("-n", f.NS, "delete", "pods", "both", "late", "--timeout=120s")
}

// sawFunctions checks that plugins were given exactly these devices.
func (f *fixture) sawFunctions(want ...string) {
	f.Helper()
	var got []string
	for _, m := range regexp.MustCompile(`"deviceID":"([^"]*)"`).FindAllStringSubmatch(f.sh("cat "+sawDevices), -1) {
		got = append(got, m[1])
	}
	slices.Sort(got)
	if got = slices.Compact(got); !slices.Equal(got, want) {
		f.Errorf("plugins got the devices %q, want %q", got, want)
	}
}

// claimByHand creates a pod with a handwritten claim that only one of its containers
// references.
func (f *fixture) claimByHand() {
	f.nad("lan", othersBridge)
	f.Must(f.Published(f.Ctx, f.NS+"/lan"))
	f.Must(f.CreateTemplate(f.Ctx, lab.Template(f.NS, "mine", lab.Want{Network: "lan", Config: map[string]any{"interface": "data"}}, lab.Want{Network: "lan"})))
	pod := lab.Pod(f.NS, "mine", "mine")
	side := *pod.Spec.Containers[0].DeepCopy()
	side.Name, side.Resources = "side", corev1.ResourceRequirements{}
	first := *side.DeepCopy()
	first.Name, first.Command = "first", []string{"ip", "link", "show", "data"}
	pod.Spec.Containers = append(pod.Spec.Containers, side)
	pod.Spec.InitContainers = []corev1.Container{first}
	ready := f.runs(pod)
	for _, c := range slices.Concat(ready.Spec.InitContainers, ready.Spec.Containers) {
		if len(c.Resources.Claims) != 1 || c.Resources.Claims[0].Name != "networks" {
			f.Errorf("container %s refers to %+v", c.Name, c.Resources.Claims)
		}
	}
	if got := ready.Annotations["k8s.v1.cni.cncf.io/networks"]; got != "others/lan@data,others/lan" {
		f.Errorf("the annotation names %q", got)
	}
	if len(ready.Spec.ResourceClaims) != 1 {
		f.Errorf("the pod has claims %+v", ready.Spec.ResourceClaims)
	}
	status, err := f.NetworkStatus(f.Ctx, f.NS, "mine")
	f.Must(err)
	var names []string
	for _, s := range status {
		names = append(names, s.Name+"@"+s.Interface)
	}
	if len(status) != 3 || names[1] != "others/lan@data" || names[2] != "others/lan@net2" {
		f.Errorf("the pod has the networks %v", names)
	}
	f.Must(f.DeletePod(f.Ctx, f.NS, "mine"))
}
