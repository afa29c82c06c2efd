package driver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	nri "github.com/containerd/nri/pkg/api"
	nadfake "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/client/clientset/versioned/fake"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/features"
	featurestesting "k8s.io/client-go/features/testing"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1"

	"github.com/nadra-dev/nadra/internal/metrics"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/test/drivertest"
)

// running is a driver that runs, between a kubelet's gRPC client and the real
// NRI of a container runtime, over real sockets. Only the API server, the
// plugins and the network namespaces are not real.
type running struct {
	*Driver
	k       *drivertest.Kernel
	runtime *adaptation.Adaptation
	kubelet drapb.DRAPluginClient
	// stop ends the driver and returns what Run returned.
	stop func() error
	// drainTime is how long operations have to end when the driver stops.
	drainTime time.Duration
	// ended receives what Run returns, if stop is not called.
	ended chan error
}

// awaitAttach waits until pod web is not being attached. The driver runs, so its operations may not be
// waited for: others may begin.
func (n *running) awaitAttach(t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(tolerant)
	for n.jobs.running(drivertest.Web.UID) {
		if time.Now().After(deadline) {
			t.Fatalf("pod web is still being attached after %s", tolerant)
		}
		time.Sleep(time.Millisecond)
	}
}

// webWith returns pod web, whose container references the claim.
func webWith(claim *resourceapi.ResourceClaim) *corev1.Pod {
	pod, _ := objects()
	pod.Spec = corev1.PodSpec{
		NodeName:       "node-1",
		ResourceClaims: []corev1.PodResourceClaim{{Name: "net", ResourceClaimName: &claim.Name}},
		Containers:     []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "net"}}}}},
	}
	return pod
}

// startNode starts a driver with pod web's claim, and waits until it serves
// both sides.
func startNode(t *testing.T, claim *resourceapi.ResourceClaim, changes ...func(*Config, *Clients)) *running {
	t.Helper()
	return (&running{drainTime: drainTime}).start(t, claim, changes...)
}

// start does the same for a driver with another drainTime.
func (n *running) start(t *testing.T, claim *resourceapi.ResourceClaim, changes ...func(*Config, *Clients)) *running {
	t.Helper()
	// The generated fake of NADs knows no streaming lists.
	featurestesting.SetFeatureDuringTest(t, features.WatchListClient, false)
	// Not t.TempDir, whose names are too long for sockets.
	dir, err := os.MkdirTemp("", "nd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for file, content := range map[string]string{"root/" + bootIDFile: "boot-1\n", "nadra-gate": "the gate"} {
		path := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []string{"registry", "root/sys/class/net"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	n.runtime = startRuntime(t, dir)
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	kube := fake.NewClientset(claim, webWith(claim), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}})
	drivertest.AnswerDryRuns(kube, nil)
	clients := Clients{Kube: kube, NADs: nadfake.NewSimpleClientset(), Metadata: metadatafake.NewSimpleMetadataClient(scheme)}
	blue := nad("blue", `{"cniVersion":"1.0.0","type":"bridge"}`)
	if _, err := clients.NADs.K8sCniCncfIoV1().NetworkAttachmentDefinitions("default").Create(t.Context(), blue, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	cfg := Config{
		NodeName: "node-1", HostRoot: filepath.Join(dir, "root"), StateDir: filepath.Join(dir, "state"),
		CDIDir: filepath.Join(dir, "cdi"), NRISocket: filepath.Join(dir, "nri.sock"), GateBinary: filepath.Join(dir, "nadra-gate"),
		KubeletPluginsDir: dir, KubeletRegistryDir: filepath.Join(dir, "registry"), Copies: 1, HookBudget: tolerant, AddTimeout: tolerant, DelTimeout: tolerant,
	}
	clients.NetworkStatus = clients.Kube
	for _, change := range changes {
		change(&cfg, &clients)
	}
	n.k = drivertest.NewKernel()
	n.run(t, cfg, clients)
	return n
}

// beside starts another driver on the same node, in the pod of that UID.
func (n *running) beside(t *testing.T, podUID string) *running {
	t.Helper()
	cfg := n.cfg
	cfg.PodUID = podUID
	out := &running{k: n.k, runtime: n.runtime, drainTime: n.drainTime}
	out.run(t, cfg, n.clients)
	return out
}

// run starts the driver.
func (n *running) run(t *testing.T, cfg Config, clients Clients) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cfg.Metrics = metrics.NewNode()
	env, err := openEnvironment(ctx, cfg, clients)
	if err != nil {
		t.Fatal(err)
	}
	env.plugins, env.netns, env.defaultNetwork = n.k, n.k, drivertest.CBR0
	env.registrationWait = 10 * time.Millisecond // no kubelet answers
	env.drain = n.drainTime
	if n.Driver, err = wire(ctx, cfg, clients, env); err != nil {
		t.Fatal(err)
	}
	n.ended = make(chan error, 1)
	go func() { n.ended <- n.Run(ctx) }()
	_, service := socketNames(n.started)
	conn, err := grpc.NewClient("unix://"+filepath.Join(cfg.pluginDir(), service), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	n.kubelet = drapb.NewDRAPluginClient(conn)
	n.stop = func() error { conn.Close(); cancel(); return <-n.ended }
}

// startRuntime starts the runtime's side of NRI, which is more patient with its
// plugin than a real one.
func startRuntime(t *testing.T, dir string) *adaptation.Adaptation {
	t.Helper()
	adaptation.SetPluginRegistrationTimeout(tolerant)
	adaptation.SetPluginRequestTimeout(tolerant)
	sync := func(ctx context.Context, tell adaptation.SyncCB) error {
		_, err := tell(ctx, nil, nil)
		return err
	}
	update := func(context.Context, []*nri.ContainerUpdate) ([]*nri.ContainerUpdate, error) { return nil, nil }
	r, err := adaptation.New("test", "1", sync, update, adaptation.WithSocketPath(filepath.Join(dir, "nri.sock")),
		adaptation.WithPluginPath(filepath.Join(dir, "none")), adaptation.WithPluginConfigPath(filepath.Join(dir, "none")))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	return r
}

// prepare asks as the kubelet does, until the driver answers.
func (n *running) prepare(t *testing.T, claim *resourceapi.ResourceClaim) {
	t.Helper()
	request := &drapb.NodePrepareResourcesRequest{Claims: []*drapb.Claim{{Namespace: claim.Namespace, Name: claim.Name, Uid: string(claim.UID)}}}
	ctx, cancel := context.WithTimeout(t.Context(), tolerant)
	defer cancel()
	answer, err := n.kubelet.NodePrepareResources(ctx, request, grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
	if e := answer.Claims[string(claim.UID)].GetError(); e != "" {
		t.Fatal(e)
	}
}

func (n *running) unprepare(t *testing.T, claim *resourceapi.ResourceClaim) {
	t.Helper()
	request := &drapb.NodeUnprepareResourcesRequest{Claims: []*drapb.Claim{{Namespace: claim.Namespace, Name: claim.Name, Uid: string(claim.UID)}}}
	answer, err := n.kubelet.NodeUnprepareResources(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	if e := answer.Claims[string(claim.UID)].GetError(); e != "" {
		t.Fatal(e)
	}
}

// tolerant is the limit of what a test waits for: nothing but a failing test
// takes as long, however busy the machine is.
const tolerant = time.Minute

// become waits until a condition holds, which returns why it does not.
func become(t *testing.T, holds func() error) {
	t.Helper()
	deadline := time.Now().Add(tolerant)
	err := holds()
	for ; err != nil && time.Now().Before(deadline); err = holds() {
		time.Sleep(5 * time.Millisecond)
	}
	if err != nil {
		t.Error(err)
	}
}

// publishes waits until the publisher has published exactly these devices.
func (n *running) publishes(t *testing.T, want ...string) {
	t.Helper()
	become(t, func() error {
		if got := n.networks.Published(); got == nil || !slices.Equal(got, want) {
			return fmt.Errorf("published %q, want %q", got, want)
		}
		return nil
	})
}

// runSandbox does as containerd does: no plugin is being synchronised meanwhile,
// so that a sandbox is either listed to it or told.
func (n *running) runSandbox(t *testing.T, pod *nri.PodSandbox) error {
	t.Helper()
	block := n.runtime.BlockPluginSync()
	defer block.Unblock()
	return n.runtime.RunPodSandbox(t.Context(), &nri.RunPodSandboxRequest{Pod: pod})
}

// TestRunAndStop runs a pod's whole life over real sockets. Then the driver stops and
// leaves no goroutine behind.
func TestRunAndStop(t *testing.T) {
	here := goleak.IgnoreCurrent()
	c := claim("a", "blue")
	n := startNode(t, c)
	n.prepare(t, c)
	if err := n.runSandbox(t, podNo(1)); err != nil {
		t.Fatal(err)
	}
	drivertest.Same(t, "phases", map[string]checkpoint.Phase{"net1": checkpoint.Attached}, drivertest.Phases(n.store))
	if _, err := n.runtime.CreateContainer(t.Context(), &nri.CreateContainerRequest{Pod: podNo(1), Container: &nri.Container{Id: "c"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := n.runtime.CreateContainer(t.Context(), &nri.CreateContainerRequest{Pod: podNo(2), Container: &nri.Container{Id: "d"}}); err != nil {
		t.Fatalf("a sandbox of which no hook has heard: %v", err)
	}
	n.awaitAttach(t)
	if err := n.runtime.StopPodSandbox(t.Context(), &nri.StopPodSandboxRequest{Pod: podNo(2)}); err != nil {
		t.Fatal(err)
	}
	drivertest.Same(t, "interfaces", map[string]bool{}, n.k.Has)
	n.unprepare(t, c)
	drivertest.Same(t, "records", nil, n.store.All())
	if err := n.stop(); err != nil {
		t.Error(err)
	}
	n.runtime.Stop()
	goleak.VerifyNone(t, here, goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}

// TestStopWhilePluginsRun stops a driver while a plugin runs: the plugin has some time, is
// ended, and the next driver knows what it has begun.
func TestStopWhilePluginsRun(t *testing.T) {
	here := goleak.IgnoreCurrent()
	c := claim("a", "blue")
	n := (&running{drainTime: 200 * time.Millisecond}).start(t, c)
	n.prepare(t, c)
	running, ended := make(chan struct{}), make(chan time.Time, 1)
	n.k.Slow = func(ctx context.Context) error {
		close(running)
		<-ctx.Done()
		ended <- time.Now()
		return context.Cause(ctx)
	}
	hook := make(chan error, 1)
	go func() { hook <- n.runSandbox(t, podNo(1)) }()
	<-running
	started := time.Now()
	if err := n.stop(); err != nil {
		t.Error(err)
	}
	if moment := (<-ended).Sub(started); moment < n.drain {
		t.Errorf("the plugin was ended after %s, not %s", moment, n.drain)
	}
	// Its answer is an error or none: the runtime has lost its plugin, and the
	// gate decides.
	t.Logf("the runtime was answered: %v", <-hook)
	drivertest.Same(t, "phases", map[string]checkpoint.Phase{"net1": checkpoint.Attaching}, drivertest.Phases(n.store))
	n.runtime.Stop()
	goleak.VerifyNone(t, here)
}

// TestStopWaitsForAPendingDEL checks that SIGTERM, which ends Run, does not end the DEL that a loop of the
// driver has begun, and that its success is recorded.
func TestStopWaitsForAPendingDEL(t *testing.T) {
	c := claim("a", "blue")
	n := startNode(t, c)
	n.prepare(t, c)
	if err := n.runSandbox(t, podNo(1)); err != nil {
		t.Fatal(err)
	}
	n.awaitAttach(t)
	running := make(chan struct{})
	n.k.Deleted = func() {
		close(running)
		<-n.background.Context().Done() // the driver stops
	}
	n.k.End(drivertest.SandboxNo(1))
	key := n.store.All()[0].Key()
	if err := n.store.DeferDEL(key, errors.New("busy")); err != nil {
		t.Fatal(err)
	}
	n.attacher.PendingDELs.Hasten(func(checkpoint.Record) bool { return true })
	<-running
	if err := n.stop(); err != nil {
		t.Error(err)
	}
	drivertest.Same(t, "pending DELs", 0, len(n.store.PendingDELs()))
	n.runtime.Stop()
}
