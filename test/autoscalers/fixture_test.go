//go:build e2e

package autoscalers

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/test/lab"
)

const (
	// caseLimit is how long a case may take, and waitLimit how long each of its waits. Karpenter looks for nodes to
	// remove every ten seconds.
	caseLimit = 8 * time.Minute
	waitLimit = 2 * time.Minute
)

// fixture is a case with a namespace that has the network lan, and a Karpenter of its own.
type fixture struct {
	lab.Fixture
	// real is the real node before the case.
	real *corev1.Node
	// restore undoes what the case has changed of nadra, once there are no nodes but the real one.
	restore func(context.Context) error
}

// setup creates the namespace with its network and starts Karpenter with flags. At the end the case must have left no
// node, and the real node as it was.
func setup(t *testing.T, namespace string, flags ...string) *fixture {
	t.Helper()
	cases.Add(1)
	ctx, cancel := context.WithTimeout(interrupted, caseLimit)
	t.Cleanup(cancel)
	f := &fixture{Fixture: lab.Fixture{Lab: theLab, T: t, Ctx: ctx, NS: namespace}}
	f.Must(f.CreateNamespace(ctx, namespace))
	f.Must(f.Label(ctx, "namespace/"+namespace, api.OwnerNadra))
	f.Must(f.CreateNAD(ctx, namespace, "lan", `{"cniVersion": "1.0.0", "type": "macvlan", "master": "`+master+`"}`))
	f.Must(f.Published(ctx, namespace+"/lan"))
	f.real = f.realNode()
	flags = append(flags, "--disable-leader-election=true")
	stop, err := run(ctx, "karpenter", karpenter.Program, flags...)
	f.Must(err)
	t.Cleanup(func() { f.cleanUp(stop) })
	return f
}

// cleanUp removes the case's objects, and checks that nothing is left of them and that the real node is as before.
func (f *fixture) cleanUp(stop func()) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(f.Ctx), waitLimit)
	defer cancel()
	f.Ctx = ctx
	if f.Failed() {
		f.logState()
	}
	f.Kubectl("delete", "pods", "--all", "--timeout=60s")
	f.Kubectl("delete", "nodepools,nodeclaims,kwoknodeclasses", "--all", "--timeout=90s")
	f.Eventually(waitLimit, func(context.Context) error { return f.nodes() })
	stop()
	if f.restore != nil {
		f.Must(f.restore(ctx))
	}
	after := f.realNode()
	if before := f.real; after.UID != before.UID || !equality.Semantic.DeepEqual(after.Spec, before.Spec) {
		f.Errorf("the real node has changed: it was %s %+v and is %s %+v", before.UID, before.Spec, after.UID, after.Spec)
	}
	f.Kubectl("delete", "namespace", f.NS, "--wait=false")
	if !f.Failed() {
		passed.Add(1)
	}
}

// logState prints what a person needs after a failure.
func (f *fixture) logState() {
	for _, args := range [][]string{
		{"-n", f.NS, "get", "pods,resourceclaims", "-o", "wide"},
		{"-n", f.NS, "get", "events"},
		{"get", "nodepools,nodeclaims,nodes", "--show-labels"},
		{"get", "resourceslices", "-o", "yaml"},
	} {
		out, _ := f.Cluster.Kubectl(f.Ctx, args...)
		f.Logf("kubectl %s\n%s", strings.Join(args, " "), out)
	}
	for _, name := range []string{"karpenter", "kwok"} {
		text, _ := os.ReadFile(logFile(name))
		f.Logf("the end of the log of %s:\n%s", name, text[max(0, len(text)-8000):])
	}
}

func (f *fixture) realNode() *corev1.Node {
	f.Helper()
	n, err := f.Kube.CoreV1().Nodes().Get(f.Ctx, f.Cluster.Node(1).Name(), metav1.GetOptions{})
	f.Must(err)
	return n
}

// profile returns the profile of the real node, once nodes of the profile share a slice with the case's network.
func (f *fixture) profile() (profile string) {
	f.Helper()
	f.Eventually(waitLimit, func(ctx context.Context) error {
		profile = f.realNode().Labels[api.ProfileLabel]
		list, err := f.Kube.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{LabelSelector: api.ProfileLabel + "=" + profile})
		if err != nil {
			return err
		}
		for _, s := range list.Items {
			if profile != "" && strings.Contains(s.Annotations[api.OffersAnnotation], f.NS+"/lan") {
				return nil
			}
		}
		return fmt.Errorf("no slice of profile %q has the network", profile)
	})
	return profile
}

// nodePool creates a NodePool whose nodes have these labels.
func (f *fixture) nodePool(name string, labels map[string]string) {
	f.Helper()
	var lines strings.Builder
	for key, value := range labels {
		fmt.Fprintf(&lines, "%s: %q, ", key, value)
	}
	f.ApplyYAML(`
apiVersion: karpenter.kwok.sh/v1alpha1
kind: KWOKNodeClass
metadata: {name: default}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: ` + name + `}
spec:
  disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 1s}
  template:
    metadata: {labels: {` + lines.String() + `}}
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
      requirements:
        - {key: karpenter.kwok.sh/instance-cpu, operator: In, values: ["4"]}
        - {key: kubernetes.io/os, operator: In, values: [linux]}
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
`)
}

// pod creates a pod with these networks; none if empty.
func (f *fixture) pod(name, networks string) {
	f.Helper()
	annotations := ""
	if networks != "" {
		annotations = ", annotations: {k8s.v1.cni.cncf.io/networks: " + networks + "}"
	}
	f.ApplyYAML(`
apiVersion: v1
kind: Pod
metadata: {name: ` + name + annotations + `}
spec:
  containers: [{name: main, image: "localhost/test:1", imagePullPolicy: Never, resources: {requests: {cpu: "1"}}}]
`)
}

// getPod returns a pod.
func (f *fixture) getPod(name string) *corev1.Pod {
	f.Helper()
	p, err := f.Kube.CoreV1().Pods(f.NS).Get(f.Ctx, name, metav1.GetOptions{})
	f.Must(err)
	return p
}

// runsOn waits until a pod runs on a node of a NodePool, and returns the node's name.
func (f *fixture) runsOn(name, pool string) string {
	f.Helper()
	p, err := f.Ready(f.Ctx, f.NS, name, waitLimit)
	f.Must(err)
	n, err := f.Kube.CoreV1().Nodes().Get(f.Ctx, p.Spec.NodeName, metav1.GetOptions{})
	f.Must(err)
	if got := n.Labels[poolLabel]; got != pool {
		f.Fatalf("pod %s is on node %s of NodePool %q, want %q", name, n.Name, got, pool)
	}
	return n.Name
}

// poolLabel is the label with the NodePool of nodes and NodeClaims.
const poolLabel = "karpenter.sh/nodepool"

// nodes returns an error unless the nodes of Karpenter and its NodeClaims are those of these NodePools, one for each
// name.
func (f *fixture) nodes(pools ...string) error {
	list, err := f.Kube.CoreV1().Nodes().List(f.Ctx, metav1.ListOptions{LabelSelector: poolLabel})
	if err != nil {
		return err
	}
	var nodes []string
	for _, n := range list.Items {
		nodes = append(nodes, n.Labels[poolLabel])
	}
	out, err := f.Cluster.Kubectl(f.Ctx, "get", "nodeclaims", "--no-headers", "-o", `custom-columns=POOL:.metadata.labels.karpenter\.sh/nodepool`)
	if err != nil {
		return err
	}
	claims := strings.Fields(out)
	for _, got := range [][]string{nodes, claims} {
		slices.Sort(got)
		if !slices.Equal(got, pools) {
			return fmt.Errorf("NodePools have nodes %q and NodeClaims %q, want %q", nodes, claims, pools)
		}
	}
	return nil
}

// refused waits until Karpenter says in an Event that it has no node for a pod, and that the pod waits.
func (f *fixture) refused(name, why string) {
	f.Helper()
	f.Eventually(waitLimit, func(ctx context.Context) error {
		events := f.Events(ctx, f.NS, name)
		for _, e := range events {
			if strings.HasPrefix(e, "FailedScheduling: Failed to schedule pod, ") && strings.Contains(e, why) {
				return nil
			}
		}
		return fmt.Errorf("no event of Karpenter has %q: %q", why, events)
	})
	if p := f.getPod(name); p.Spec.NodeName != "" {
		f.Fatalf("pod %s is on %s", name, p.Spec.NodeName)
	}
}
