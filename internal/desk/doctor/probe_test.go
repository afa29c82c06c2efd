package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/nadra-dev/nadra/internal/desk/nodepod"
	"github.com/nadra-dev/nadra/internal/probe"
	"github.com/nadra-dev/nadra/pkg/api/reason"
)

// probing returns a probe whose pods get a status and have a report in their logs.
func probing(t *testing.T, status corev1.PodStatus) (Probe, *fake.Clientset) {
	t.Helper()
	c, kube := world()
	kube.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		a.(clienttesting.CreateAction).GetObject().(*corev1.Pod).Status = status
		return false, nil, nil
	})
	report, err := json.Marshal(probe.Report{APIVersion: probe.APIVersion, Kind: probe.Kind, Kernel: "6.1.0"})
	if err != nil {
		t.Fatal(err)
	}
	c.Raw = func(_ context.Context, path string) ([]byte, error) {
		if strings.HasPrefix(path, "/api/v1/namespaces/nadra/pods/nadra-probe-") && strings.HasSuffix(path, "/log") {
			return report, nil
		}
		return nil, errors.New("unexpected path " + path)
	}
	return Probe{Pods: nodepod.Runner{Kube: c.Kube, Raw: c.Raw, Namespace: "nadra", Image: "nadra-node:dev", Timeout: time.Minute, Poll: time.Second}}, kube
}

func twoNodes() *Capabilities {
	return &Capabilities{
		Nodes: []Node{{Name: "node-1", OS: "linux"}, {Name: "node-2", OS: "linux"}, {Name: "edge", OS: "windows"}},
		Gaps:  []Gap{{Part: PartProbe, Reason: "from outside"}},
	}
}

// nothingLeft reports pods that a probe has left behind.
func nothingLeft(t *testing.T, kube *fake.Clientset, created int) {
	t.Helper()
	did := map[string]int{}
	for _, a := range kube.Actions() {
		did[a.GetVerb()]++
	}
	if did["create"] != created || did["delete"] != created {
		t.Errorf("%d pods created and %d deleted, want %d", did["create"], did["delete"], created)
	}
}

func TestProbe(t *testing.T) {
	p, kube := probing(t, corev1.PodStatus{Phase: corev1.PodSucceeded})
	caps := twoNodes()
	if err := p.Run(t.Context(), caps); err != nil {
		t.Fatal(err)
	}
	for i, probed := range []bool{true, true, false} {
		if n := caps.Nodes[i]; (n.Probe != nil) != probed {
			t.Errorf("%s is probed: %v", n.Name, n.Probe != nil)
		}
	}
	if len(caps.Gaps) != 0 {
		t.Errorf("gaps %+v", caps.Gaps)
	}
	nothingLeft(t, kube, 2)
}

// TestProbeOfAnOlderDriver checks that the probe of a driver without images has no flag that an older driver lacks.
func TestProbeOfAnOlderDriver(t *testing.T) {
	for bins, want := range map[string]bool{"/opt/cni/bin": false, "/opt/cni/bin,image:reference": true} {
		args := Probe{BinDirs: bins}.args(nil)
		if got := slices.Contains(args, "--state-dir=/var/lib/nadra"); got != want || !slices.Contains(args, "--cni-bin-dirs="+bins) {
			t.Errorf("%s: %q", bins, args)
		}
	}
}

// TestProbeFails checks that the reason for which a pod does not end is reported, and that the
// pod is deleted.
func TestProbeFails(t *testing.T) {
	waiting := []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "not found"}}}}
	for name, test := range map[string]struct {
		status corev1.PodStatus
		code   reason.Code
		says   string
	}{
		"the image cannot be pulled": {corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: waiting}, reason.NodePodTimeout, "ImagePullBackOff not found"},
		"the kubelet is away":        {corev1.PodStatus{Phase: corev1.PodPending}, reason.NodePodTimeout, "kubelet"},
		"the kubelet ends it":        {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "DeadlineExceeded", ContainerStatuses: waiting}, reason.NodePodTimeout, "ImagePullBackOff not found"},
		"the node refuses it":        {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfpods", Message: "too many"}, reason.NodePodRefused, "OutOfpods too many"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, kube := probing(t, test.status)
				caps := twoNodes()
				if err := p.Run(t.Context(), caps); err != nil {
					t.Fatal(err)
				}
				if len(caps.Gaps) != 2 || caps.Gaps[0].Node != "node-1" || reason.In(caps.Gaps[0].Reason) != test.code || !strings.Contains(caps.Gaps[0].Reason, test.says) {
					t.Errorf("gaps %+v", caps.Gaps)
				}
				nothingLeft(t, kube, 2)
			})
		})
	}
}

// TestProbeWithoutATurn checks that the pod's state is reported when client-go's rate limiter
// has no turn left before the deadline.
func TestProbeWithoutATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, kube := probing(t, corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}},
		}}})
		var gets atomic.Int32
		kube.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			if gets.Add(1) <= 2 { // once for each node
				return false, nil, nil
			}
			return true, nil, errors.New("client rate limiter Wait returned an error: rate: Wait(n=1) would exceed context deadline")
		})
		caps := twoNodes()
		if err := p.Run(t.Context(), caps); err != nil {
			t.Fatal(err)
		}
		if len(caps.Gaps) == 0 || !strings.Contains(caps.Gaps[0].Reason, "ImagePullBackOff") {
			t.Errorf("gaps %+v", caps.Gaps)
		}
	})
}

// TestProbeIsInterrupted checks that an interrupted probe leaves no pods behind.
func TestProbeIsInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, kube := probing(t, corev1.PodStatus{Phase: corev1.PodRunning})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(5*time.Second, cancel)
		if err := p.Run(ctx, twoNodes()); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		nothingLeft(t, kube, 2)
	})
}

func TestProbeIsForbidden(t *testing.T) {
	p, kube := probing(t, corev1.PodStatus{})
	kube.PrependReactor("create", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "x", errors.New(`violates PodSecurity "restricted:latest"`))
	})
	caps := twoNodes()
	if err := p.Run(t.Context(), caps); err != nil {
		t.Fatal(err)
	}
	if len(caps.Gaps) != 2 || !strings.Contains(caps.Gaps[0].Reason, "violates PodSecurity") || !strings.Contains(caps.Gaps[0].Remedy, "--probe-namespace") {
		t.Errorf("gaps %+v", caps.Gaps)
	}
}

func TestProbeWithoutImage(t *testing.T) {
	p, kube := probing(t, corev1.PodStatus{})
	p.Pods.Image = ""
	caps := twoNodes()
	if err := p.Run(t.Context(), caps); err != nil {
		t.Fatal(err)
	}
	if len(caps.Gaps) != 1 || !strings.Contains(caps.Gaps[0].Remedy, "--image") || len(kube.Actions()) != 0 {
		t.Errorf("gaps %+v, actions %v", caps.Gaps, kube.Actions())
	}
}

// TestProbePod checks that the pod can only read the host.
func TestProbePod(t *testing.T) {
	p, _ := probing(t, corev1.PodStatus{})
	nadra := &Nadra{Namespace: "nadra", PullSecrets: []string{"registry"}, Args: []string{"--nri-socket=/run/n.sock", "--cni-bin-dirs=/usr/lib/cni"}}
	pod := nadra.Pods(p.Pods).Pod("node-1", p.args(nadra))
	c := pod.Spec.Containers[0]
	switch {
	case pod.Spec.NodeName != "node-1" || pod.Spec.RestartPolicy != corev1.RestartPolicyNever || *pod.Spec.ActiveDeadlineSeconds != 60:
		t.Errorf("spec %+v", pod.Spec)
	case *pod.Spec.AutomountServiceAccountToken || c.SecurityContext.Privileged != nil || !c.VolumeMounts[0].ReadOnly:
		t.Errorf("it may too much: %+v", pod.Spec)
	case pod.Spec.ImagePullSecrets[0].Name != "registry":
		t.Errorf("secrets %v", pod.Spec.ImagePullSecrets)
	case !slices.Contains(c.Args, "--nri-socket=/run/n.sock") || !slices.Contains(c.Args, "--cni-bin-dirs=/usr/lib/cni") || c.Args[0] != "probe":
		t.Errorf("arguments %v", c.Args)
	}
	p.BinDirs = "/opt/bin"
	if args := p.args(nil); !slices.Contains(args, "--cni-bin-dirs=/opt/bin") || !slices.Contains(args, "--cdi-dirs=/etc/cdi,/var/run/cdi") {
		t.Errorf("arguments %v", args)
	}
}

// TestProbeRunsNoImageOfATenant checks that the pods, which see the host, get the image of no DaemonSet outside of their
// namespace.
func TestProbeRunsNoImageOfATenant(t *testing.T) {
	p, kube := probing(t, corev1.PodStatus{Phase: corev1.PodSucceeded})
	p.Pods.Image = ""
	caps := twoNodes()
	caps.Nadra = &Nadra{Namespace: "shop", DaemonSet: "nadra-node", Image: "evil"}
	if err := p.Run(t.Context(), caps); err != nil {
		t.Fatal(err)
	}
	if len(caps.Gaps) != 1 || caps.Gaps[0].Remedy != remedyImage {
		t.Errorf("gaps %+v", caps.Gaps)
	}
	nothingLeft(t, kube, 0)
}

// TestDriverOf checks which DaemonSet with a container of the driver's name counts: that of a namespace, or the oldest.
func TestDriverOf(t *testing.T) {
	nadra, forged := daemonSet("nadra", "nadra-node", corev1.Container{Name: "nadra-node"}), daemonSet("shop", "nadra-node", corev1.Container{Name: "nadra-node"})
	nadra.CreationTimestamp, forged.CreationTimestamp = metav1.Unix(1, 0), metav1.Unix(2, 0)
	for in, want := range map[string]string{"": "nadra", "nadra": "nadra", "shop": "shop"} {
		got, err := Driver(t.Context(), fake.NewClientset(nadra, forged), in)
		if err != nil || got == nil || got.Namespace != want {
			t.Errorf("in %q: %+v, %v", in, got, err)
		}
	}
}
