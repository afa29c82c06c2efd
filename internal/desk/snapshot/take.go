package snapshot

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/nadra-dev/nadra/internal/desk/inspect"
	"github.com/nadra-dev/nadra/internal/desk/nodepod"
	"github.com/nadra-dev/nadra/internal/kube"
	"github.com/nadra-dev/nadra/internal/probe"
)

// Cluster is the cluster, or the part of it, to take a snapshot of.
type Cluster struct {
	inspect.Cluster
	// Name is the name of the context, for people.
	Name string
	// Selector selects pods by label.
	Selector string
	// Known are networks to record even if no pod uses them.
	Known []string
	// Nodes runs the pods that inspect nodes; nil inspects none.
	Nodes *nodepod.Runner
	// Progress is called with the current activity; it may be nil.
	Progress func(string)
}

// Take takes a snapshot. It fails if it cannot read the cluster, or if ctx ends. The
// snapshot has the errors of nodes that could not be inspected.
func (c Cluster) Take(ctx context.Context, now time.Time) (*Snapshot, error) {
	selector, err := labels.Parse(c.Selector)
	if err != nil {
		return nil, fmt.Errorf("reading the selector: %w", err)
	}
	c.progress("Reading the cluster")
	read, err := c.Read(ctx)
	if err != nil {
		return nil, err
	}
	read.Pods = slices.DeleteFunc(read.Pods, func(p *corev1.Pod) bool { return !selector.Matches(labels.Set(p.Labels)) })
	in := Input{
		Input: read, Known: c.Known, Taken: now.UTC().Format(time.RFC3339),
		Source: "cluster " + c.Name, Namespace: c.Namespace, Selector: c.Selector,
	}
	if err := c.readParents(ctx, &in); err != nil {
		return nil, err
	}
	if c.Nodes != nil {
		if in.Nodes, err = c.inspectNodes(ctx, Build(in), read.Pods); err != nil {
			return nil, err
		}
	}
	return Build(in), nil
}

func (c Cluster) progress(activity string) {
	if c.Progress != nil {
		c.Progress(activity)
	}
}

// readParents reads the controllers of ReplicaSets and Jobs. If the user is not allowed
// to, snapshot derives them from names.
func (c Cluster) readParents(ctx context.Context, in *Input) error {
	sets, jobs := c.Kube.AppsV1().ReplicaSets(c.Namespace), c.Kube.BatchV1().Jobs(c.Namespace)
	_, err := kube.EachReadable(ctx, kube.All, sets.List,
		func(o *appsv1.ReplicaSet) { in.parents.Add("ReplicaSet", o) })
	if err != nil {
		return fmt.Errorf("listing replicasets: %w", err)
	}
	_, err = kube.EachReadable(ctx, kube.All, jobs.List,
		func(o *batchv1.Job) { in.parents.Add("Job", o) })
	if err != nil {
		return fmt.Errorf("listing jobs: %w", err)
	}
	return nil
}

// inspectNodes runs a pod on each node with pods of the snapshot, which inspects those.
func (c Cluster) inspectNodes(ctx context.Context, s *Snapshot, pods []*corev1.Pod) (map[string]nodeObservation, error) {
	uids := map[string][]string{}
	for _, p := range pods {
		recorded := slices.ContainsFunc(s.Pods, func(r Pod) bool { return r.Namespace == p.Namespace && r.Name == p.Name })
		if recorded && p.Spec.NodeName != "" {
			uids[p.Spec.NodeName] = append(uids[p.Spec.NodeName], probeUID(p))
		}
	}
	of := "nodes"
	if len(uids) == 1 {
		of = "node"
	}
	c.progress(fmt.Sprintf("Inspecting the pods of %d %s", len(uids), of))
	out := make(map[string]nodeObservation, len(uids))
	inspect := func(node string) (*probe.NodePods, error) { return c.inspectNode(ctx, node, uids[node]) }
	for _, r := range nodepod.OnEach(ctx, *c.Nodes, slices.Collect(maps.Keys(uids)), inspect) {
		out[r.Node] = nodeObservation{Pods: r.Report, Err: r.Err}
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("inspecting the nodes: %w", ctx.Err())
	}
	return out, nil
}

// capabilities are needed to enter the network namespaces of pods, and to read the
// environment of their processes.
var capabilities = []corev1.Capability{"SYS_ADMIN", "SYS_PTRACE"}

// inspectNode runs a pod on a node that inspects the pods with the given UIDs.
func (c Cluster) inspectNode(ctx context.Context, node string, uids []string) (*probe.NodePods, error) {
	slices.Sort(uids)
	args := []string{"probe", "--pods", "--host-root=" + nodepod.HostRoot, "--pod-uids=" + strings.Join(uids, ",")}
	log, err := c.Nodes.Run(ctx, c.Nodes.Pod(node, args, capabilities...))
	if err != nil {
		return nil, err
	}
	return probe.DecodePods(log)
}
