//go:build e2e

package beside

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/test/conformance"
	"github.com/nadra-dev/nadra/test/conformance/compare"
	"github.com/nadra-dev/nadra/test/lab"
)

// more are further workloads, whose pods have networks with other arguments.
var more = []kind{
	{"route", `[{"name":"wan","default-route":["10.61.0.1"]},{"name":"blue"}]`, []string{"wan@net1", "blue@net2"}},
	{"mac", `[{"name":"chained","interface":"sig0"}]`, []string{"chained@sig0"}},
}

// TestSameOnOneNode runs each workload under both on one node, and compares the pods as the
// conformance suite does.
func TestSameOnOneNode(t *testing.T) {
	f := setup(t)
	for _, k := range slices.Concat(kinds[1:], more) {
		var sides []compare.Side
		for _, h := range f.halves {
			f.NS = h.namespace
			f.ApplyYAML(lab.Workload("Deployment", k.name, "replicas: 1", k.annotation, ""))
			p := f.pod(h, k.name)
			sandbox, err := f.node.PodSandbox(f.Ctx, string(p.UID))
			f.Must(err)
			path, err := f.node.HostPath(sandbox.NetNS)
			f.Must(err)
			var picked []string
			for _, n := range k.networks {
				_, name, _ := strings.Cut(n, "@")
				picked = append(picked, name)
			}
			text := strings.ReplaceAll(p.Annotations[nadv1.NetworkStatusAnnot], h.namespace+"/", "NAMESPACE/")
			side, err := conformance.Running(path, text, picked...)
			f.Must(err)
			sides = append(sides, side)
		}
		verdict, err := conformance.JudgeRunning(lab.Root(), sides[0], sides[1], k.annotation)
		f.Must(err)
		t.Logf("%s: %s", k.annotation, verdict)
		if len(verdict.Unlisted) > 0 {
			t.Errorf("%s: not the same", k.annotation)
		}
	}
}

// TestNamespaceMoves moves a workload from Multus to nadra and back, by the label of its namespace and a
// rollout, and then nadra's pod without a claim: one that is bound to its node.
func TestNamespaceMoves(t *testing.T) {
	f := setup(t)
	h := f.halves[0]
	f.NS = h.namespace
	f.ApplyYAML(lab.Workload("Deployment", "two", "replicas: 1", "wan,blue@lan", ""))
	f.Must(f.served(h.owner, f.pod(h, "two")))
	for _, owner := range []string{api.OwnerNadra, api.OwnerMultus} {
		f.Must(f.Label(f.Ctx, "namespace/"+f.NS, owner))
		f.Kubectl("rollout", "restart", "deployment/two")
		f.Kubectl("rollout", "status", "deployment/two", "--timeout=60s")
		f.Must(f.served(owner, f.pod(half{f.NS, owner}, "two")))
	}
	f.Must(f.Label(f.Ctx, "namespace/"+f.NS, api.OwnerNadra))
	f.ApplyYAML(lab.Workload("Deployment", "bound", "replicas: 1", "blue", "nodeName: "+f.node.Name()))
	p := f.pod(half{f.NS, api.OwnerNadra}, "bound")
	if got := attachment.NetworksKey(p.Annotations); got != attachment.OwnNetworksAnnotation || len(p.Spec.ResourceClaims) > 0 {
		t.Errorf("the pod with a node names its networks in %s and has %d claims", got, len(p.Spec.ResourceClaims))
	}
	var out found
	links, err := f.linksOfPod(p)
	f.Must(err)
	compareLinks(&out, links, []string{"blue@net1"})
	if len(out.twice)+len(out.missing) > 0 {
		t.Errorf("the pod with a node: %+v", out)
	}
}

// TestEditFollowsItsOwner edits the networks of running pods: nadra follows its own annotation, and
// leaves that of Multus alone.
func TestEditFollowsItsOwner(t *testing.T) {
	f := setup(t)
	h := f.halves[1]
	f.NS = h.namespace
	f.ApplyYAML(lab.Workload("Deployment", "one", "replicas: 1", "blue", ""))
	p := f.pod(h, "one")
	f.annotate(p, attachment.OwnNetworksAnnotation, "blue,wan@late")
	f.Eventually(30*time.Second, f.hasLinks(p, "blue@net1", "wan@late"))
	f.annotate(p, attachment.NetworksAnnotation, "chained@other")
	f.annotate(p, attachment.OwnNetworksAnnotation, "wan@late")
	f.Eventually(30*time.Second, f.hasLinks(p, "wan@late"))
}

// pod waits for the one pod of a workload.
func (f *fixture) pod(h half, name string) (out *corev1.Pod) {
	f.Helper()
	f.Eventually(2*time.Minute, func(ctx context.Context) error {
		pods, err := f.Kube.CoreV1().Pods(h.namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + name})
		if err != nil {
			return err
		}
		if len(pods.Items) != 1 || !lab.IsReady(&pods.Items[0]) {
			return fmt.Errorf("workload %s/%s has %d pods, or its pod is not Ready", h.namespace, name, len(pods.Items))
		}
		out = &pods.Items[0]
		return nil
	})
	return out
}

// served returns an error unless a pod is all right as one of an owner.
func (f *fixture) served(owner string, p *corev1.Pod) error {
	out, _, err := f.inspect(f.Ctx, half{p.Namespace, owner}, p)
	if err == nil && len(out.twice)+len(out.missing) > 0 {
		err = fmt.Errorf("pod %s of %s: %+v", p.Name, owner, out)
	}
	return err
}

func (f *fixture) linksOfPod(p *corev1.Pod) (map[string][]string, error) {
	sandbox, err := f.node.PodSandbox(f.Ctx, string(p.UID))
	if err != nil {
		return nil, err
	}
	return f.linksOf(sandbox.NetNS)
}

// hasLinks returns a check that succeeds when a pod has exactly these networks, also in network-status.
func (f *fixture) hasLinks(p *corev1.Pod, want ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		links, err := f.linksOfPod(p)
		if err != nil {
			return err
		}
		status, err := f.NetworkStatus(ctx, p.Namespace, p.Name)
		if err != nil {
			return err
		}
		var out found
		compareLinks(&out, links, want)
		compareStatus(&out, status, links, half{namespace: p.Namespace}, want)
		if len(out.twice)+len(out.missing) > 0 {
			return fmt.Errorf("pod %s: %+v", p.Name, out)
		}
		return nil
	}
}

// annotate sets an annotation of a pod.
func (f *fixture) annotate(p *corev1.Pod, key, value string) {
	f.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value)
	_, err := f.Kube.CoreV1().Pods(p.Namespace).Patch(f.Ctx, p.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	f.Must(err)
}
