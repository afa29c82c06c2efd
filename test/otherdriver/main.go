// Command otherdriver is a small DRA driver of another vendor, for the lanes that compose nadra with others. It publishes
// devices with the attributes that the caller names, prepares claims, and gives containers nothing, so that what a pod with
// a claim for its devices costs is what claims cost by themselves. All of it is in main.go.
//
//	otherdriver [FLAG …] KUBECONFIG NODE DRIVER NAME[,ATTRIBUTE=VALUE]… …
//
// A VALUE of digits only is an integer.
//
//	-move early|late  The devices are interfaces. The driver moves them into pods, in a hook of NRI before nadra's (early)
//	                  or a moment after it (late), says so in the claim, and moves them back when the sandbox stops. What it
//	                  has prepared is in a file, for its next process.
//	-attach DIR       The driver runs the CNI plugins of the configuration lists in DIR that a pod's annotation
//	                  otherdriver/attach names, beside the kubelet, and nothing waits for them: what networks cost at
//	                  least. It writes the network-status of pods with the annotation otherdriver/status.
//	-shared           Several claims may have one device.
//	-kubelet DIR      The kubelet's root directory.
//
// It dies at a step, or deletes an interface in Prepare, if a test has written a file that orders it (failpoint.Dir).
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
	"github.com/containernetworking/cni/libcni"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	nadutils "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/utils"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/retry"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/internal/failpoint"
	"github.com/nadra-dev/nadra/internal/kube"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// hookDelay is how long after its hook a late driver moves an interface: nadra must wait for it.
const hookDelay = 700 * time.Millisecond

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	move := flag.String("move", "", "when to move interfaces into pods: early or late")
	attach := flag.String("attach", "", "the directory of the networks that annotated pods get")
	kubelet := flag.String("kubelet", "/var/lib/kubelet", "the kubelet's root directory")
	shared := flag.Bool("shared", false, "several claims may have one device")
	flag.Parse()
	if err := run(ctx, *kubelet, *move, *attach, *shared, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "otherdriver:", err)
		stop()
		os.Exit(1)
	}
}

// run publishes devices, and serves the kubelet until ctx ends.
func run(ctx context.Context, kubelet, move, attach string, shared bool, args []string) error {
	if len(args) < 4 {
		return fmt.Errorf("otherdriver [FLAG …] KUBECONFIG NODE DRIVER DEVICE …: %q is not that", args)
	}
	config, err := clientcmd.BuildConfigFromFlags("", args[0])
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.UserAgent = args[2]
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	config.QPS, config.Burst = 50, 100
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	host, err := netns.Get()
	if err != nil {
		return fmt.Errorf("opening the node's network namespace: %w", err)
	}
	folder := filepath.Join(kubelet, "plugins", args[2])
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return err
	}
	d := &driver{kube: kube, name: args[2], host: host, moves: move != "", file: filepath.Join(folder, "allocated.json"), allocated: map[types.UID][]allocation{}, networks: map[string]*libcni.NetworkConfigList{}}
	if err := d.load(); err != nil {
		return err
	}
	if attach != "" {
		files, err := libcni.ConfFiles(attach, []string{".conflist"})
		if err != nil {
			return fmt.Errorf("reading the networks: %w", err)
		}
		if len(files) == 0 {
			return fmt.Errorf("reading the networks: %s has no .conflist", attach)
		}
		for _, file := range files {
			network, err := libcni.NetworkConfFromFile(file)
			if err != nil {
				return fmt.Errorf("reading the networks: %w", err)
			}
			d.networks[network.Name] = network
		}
		move = cmp.Or(move, "early")
	}
	if index := map[string]string{"early": "00", "late": "99"}[move]; index != "" {
		if move == "late" {
			d.delay = hookDelay
		}
		plugin, err := stub.New(d, stub.WithPluginName(d.name), stub.WithPluginIdx(index))
		if err != nil {
			return fmt.Errorf("connecting to NRI: %w", err)
		}
		if err := plugin.Start(ctx); err != nil {
			return fmt.Errorf("connecting to NRI: %w", err)
		}
		defer plugin.Stop()
	}
	helper, err := kubeletplugin.Start(ctx, d, kubeletplugin.DriverName(d.name), kubeletplugin.KubeClient(kube),
		kubeletplugin.NodeName(args[1]), kubeletplugin.PluginDataDirectoryPath(folder),
		kubeletplugin.RegistrarDirectoryPath(filepath.Join(kubelet, "plugins_registry")), kubeletplugin.Serialize(false), kubeletplugin.HealthService(false))
	if err != nil {
		return fmt.Errorf("registering with the kubelet: %w", err)
	}
	defer helper.Stop()
	if err := helper.PublishResources(ctx, devices(args[1], shared, args[3:])); err != nil {
		return fmt.Errorf("publishing the devices: %w", err)
	}
	<-ctx.Done()
	return nil
}

// devices returns a device for each description.
func devices(node string, shared bool, described []string) resourceslice.DriverResources {
	var slice resourceslice.Slice
	for _, d := range described {
		fields := strings.Split(d, ",")
		device := resourceapi.Device{Name: fields[0], Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}}
		if shared {
			device.AllowMultipleAllocations = ptr.To(true)
		}
		for _, field := range fields[1:] {
			key, value, _ := strings.Cut(field, "=")
			attribute := resourceapi.DeviceAttribute{StringValue: &value}
			if number, err := strconv.ParseInt(value, 10, 64); err == nil {
				attribute = resourceapi.DeviceAttribute{IntValue: &number}
			}
			device.Attributes[resourceapi.QualifiedName(key)] = attribute
		}
		slice.Devices = append(slice.Devices, device)
	}
	return resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{node: {Slices: []resourceslice.Slice{slice}}}}
}

// allocation is an interface that a claim has.
type allocation struct {
	UID          types.UID // of the claim
	Claim        types.NamespacedName
	Pool, Device string
}

type driver struct {
	kube kubernetes.Interface
	name string
	// host is the node's network namespace. moves is set if the driver moves interfaces.
	host  netns.NsHandle
	moves bool
	// file has allocated, for the next process.
	file string
	// networks are those of annotated pods, by name.
	networks map[string]*libcni.NetworkConfigList
	// delay is how long after the hook interfaces are moved; 0 is in the hook.
	delay time.Duration

	mu        sync.Mutex
	allocated map[types.UID][]allocation // by pod
}

// reach dies as by SIGKILL if a test has ordered it for this step.
func (d *driver) reach(step string) {
	if d.ordered("kill", step) {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
}

// ordered reports whether a test has ordered something, and removes the order.
func (d *driver) ordered(what, name string) bool {
	return os.Remove(filepath.Join(failpoint.Dir, what, d.name+"."+name)) == nil
}

// load reads what earlier processes have prepared.
func (d *driver) load() error {
	content, err := os.ReadFile(d.file)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return errors.Join(err, json.Unmarshal(content, &d.allocated))
}

// save writes what is prepared, if interfaces move.
func (d *driver) save() error {
	if !d.moves {
		return nil
	}
	content, err := json.Marshal(d.allocated)
	return errors.Join(err, os.WriteFile(d.file+".new", content, 0o600), os.Rename(d.file+".new", d.file))
}

// PrepareResourceClaims remembers the interfaces of each pod.
func (d *driver) PrepareResourceClaims(_ context.Context, claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	d.reach("prepare.before")
	defer d.reach("prepare.after")
	d.mu.Lock()
	defer d.mu.Unlock()
	out := map[types.UID]kubeletplugin.PrepareResult{}
	for _, claim := range claims {
		var result kubeletplugin.PrepareResult
		for _, r := range claim.Status.Allocation.Devices.Results {
			if r.Driver != d.name {
				continue
			}
			result.Devices = append(result.Devices, kubeletplugin.Device{Requests: []string{r.Request}, PoolName: r.Pool, DeviceName: r.Device, ShareID: r.ShareID})
			one := allocation{claim.UID, types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}, r.Pool, r.Device}
			if d.ordered("vanish", r.Device) {
				d.report(r.Device, change(r.Device, d.host, (*netlink.Handle).LinkDel))
			}
			for _, pod := range claim.Status.ReservedFor {
				if d.moves && !slices.Contains(d.allocated[pod.UID], one) {
					d.allocated[pod.UID] = append(d.allocated[pod.UID], one)
				}
			}
		}
		out[claim.UID] = result
	}
	return out, d.save()
}

// UnprepareResourceClaims forgets claims: what was moved is back since the sandbox was stopped.
func (d *driver) UnprepareResourceClaims(_ context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	d.reach("unprepare.before")
	defer d.reach("unprepare.after")
	d.mu.Lock()
	defer d.mu.Unlock()
	out := map[types.UID]error{}
	for _, claim := range claims {
		for pod, has := range d.allocated {
			if d.allocated[pod] = slices.DeleteFunc(has, func(a allocation) bool { return a.UID == claim.UID }); len(d.allocated[pod]) == 0 {
				delete(d.allocated, pod)
			}
		}
		out[claim.UID] = nil
	}
	return out, d.save()
}

// HandleError prints errors of the library.
func (d *driver) HandleError(_ context.Context, err error, msg string) {
	fmt.Fprintln(os.Stderr, d.name+":", msg+":", err)
}

// WatchHealthStatus returns that the driver does not support it.
func (d *driver) WatchHealthStatus(context.Context, chan<- kubeletplugin.DeviceHealthReport) error {
	return kubeletplugin.ErrHealthNotSupported
}

// of returns the interfaces of a pod.
func (d *driver) of(pod *api.PodSandbox) []allocation {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.allocated[types.UID(pod.GetUid())])
}

// Synchronize moves the interfaces that a process before did not move any more.
func (d *driver) Synchronize(ctx context.Context, pods []*api.PodSandbox, _ []*api.Container) ([]*api.ContainerUpdate, error) {
	for _, pod := range pods {
		for _, a := range d.of(pod) {
			if change(a.Device, d.host, func(*netlink.Handle, netlink.Link) error { return nil }) == nil {
				d.report(a.Device, d.RunPodSandbox(ctx, pod))
			} else {
				d.report(a.Device, d.write(ctx, a))
			}
		}
	}
	return nil, nil
}

// RunPodSandbox moves the pod's interfaces into it.
func (d *driver) RunPodSandbox(_ context.Context, pod *api.PodSandbox) error {
	if pod.GetAnnotations()[attachAnnotation] != "" {
		go d.add(context.Background(), pod)
	}
	for _, a := range d.of(pod) {
		move := func() {
			d.reach("move.before")
			err := d.move(pod, a.Device, true)
			d.reach("move.after")
			d.report(a.Device, errors.Join(err, d.write(context.Background(), a)))
		}
		if d.delay == 0 {
			move()
		} else {
			time.AfterFunc(d.delay, move)
		}
	}
	return nil
}

// StopPodSandbox moves the interfaces back.
func (d *driver) StopPodSandbox(ctx context.Context, pod *api.PodSandbox) error {
	if pod.GetAnnotations()[attachAnnotation] != "" {
		d.attach(pod, func(n *libcni.NetworkConfigList, rt *libcni.RuntimeConf) error {
			return plugins.DelNetworkList(ctx, n, rt)
		})
	}
	for _, a := range d.of(pod) {
		d.reach("back.before")
		d.report(a.Device, d.move(pod, a.Device, false))
		d.reach("back.after")
	}
	return nil
}

// attachAnnotation has the names of the networks that a pod gets. statusAnnotation asks for its network-status.
const (
	attachAnnotation = "otherdriver/attach"
	statusAnnotation = "otherdriver/status"
)

// plugins runs the node's CNI plugins.
var plugins = libcni.NewCNIConfigWithCacheDir([]string{"/opt/cni/bin"}, "/var/lib/cni/otherdriver", nil)

// attach runs an operation for each network of a pod.
func (d *driver) attach(pod *api.PodSandbox, do func(*libcni.NetworkConfigList, *libcni.RuntimeConf) error) {
	for i, name := range strings.Split(pod.GetAnnotations()[attachAnnotation], ",") {
		n := d.networks[name]
		if n == nil {
			d.report(name, errors.New("no configuration list of -attach has this name"))
			continue
		}
		d.report(name, do(n, &libcni.RuntimeConf{
			ContainerID: pod.GetId(), NetNS: netnsOf(pod), IfName: fmt.Sprintf("net%d", i+1),
			Args: [][2]string{{"IgnoreUnknown", "true"}, {"K8S_POD_NAMESPACE", pod.GetNamespace()}, {"K8S_POD_NAME", pod.GetName()}},
		}))
	}
}

// add runs the ADDs of a pod, and writes its network-status.
func (d *driver) add(ctx context.Context, pod *api.PodSandbox) {
	var statuses []*nadv1.NetworkStatus
	d.attach(pod, func(n *libcni.NetworkConfigList, rt *libcni.RuntimeConf) error {
		result, err := plugins.AddNetworkList(ctx, n, rt)
		if err != nil {
			return err
		}
		status, err := nadutils.CreateNetworkStatuses(result, pod.GetNamespace()+"/"+n.Name, false, nil)
		statuses = append(statuses, status...)
		return err
	})
	if pod.GetAnnotations()[statusAnnotation] == "" {
		return
	}
	text, err := json.MarshalIndent(statuses, "", "    ")
	ref := attachment.PodRef{Namespace: pod.GetNamespace(), Name: pod.GetName(), UID: pod.GetUid()}
	d.report(pod.GetName(), errors.Join(err, kube.AnnotatePod(ctx, d.kube, d.name, ref, "", nadv1.NetworkStatusAnnot, string(text))))
}

// netnsOf returns the path of a sandbox's network namespace.
func netnsOf(pod *api.PodSandbox) string {
	for _, n := range pod.GetLinux().GetNamespaces() {
		if n.GetType() == "network" {
			return n.GetPath()
		}
	}
	return ""
}

func (d *driver) report(device string, err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %s: %v\n", d.name, device, err)
	}
}

// move moves an interface between the node and a sandbox.
func (d *driver) move(pod *api.PodSandbox, name string, in bool) error {
	inPod, err := netns.GetFromPath(netnsOf(pod))
	if err != nil {
		return fmt.Errorf("opening %q: %w", netnsOf(pod), err)
	}
	defer inPod.Close()
	from, to := d.host, inPod
	if !in {
		from, to = inPod, d.host
	}
	return errors.Join(
		change(name, from, func(h *netlink.Handle, link netlink.Link) error { return h.LinkSetNsFd(link, int(to)) }),
		change(name, to, (*netlink.Handle).LinkSetUp))
}

// change changes an interface of a network namespace.
func change(name string, in netns.NsHandle, do func(*netlink.Handle, netlink.Link) error) error {
	h, err := netlink.NewHandleAt(in)
	if err != nil {
		return err
	}
	defer h.Close()
	link, err := h.LinkByName(name)
	if err != nil {
		return err
	}
	return do(h, link)
}

// write records in the claim that the interface is in the pod.
func (d *driver) write(ctx context.Context, a allocation) error {
	claims := d.kube.ResourceV1().ResourceClaims(a.Claim.Namespace)
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		claim, err := claims.Get(ctx, a.Claim.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if slices.ContainsFunc(claim.Status.Devices, func(s resourceapi.AllocatedDeviceStatus) bool { return s.Driver == d.name && s.Device == a.Device }) {
			return nil
		}
		claim.Status.Devices = append(claim.Status.Devices, resourceapi.AllocatedDeviceStatus{
			Driver: d.name, Pool: a.Pool, Device: a.Device, NetworkData: &resourceapi.NetworkDeviceData{InterfaceName: a.Device},
		})
		_, err = claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{})
		return err
	})
}
