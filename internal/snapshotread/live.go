// Package snapshotread reads from a cluster what package snapshot records. It gets and
// lists; only a look at the nodes creates something, a pod on each, and deletes
// it again.
package snapshotread

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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/nadra-dev/nadra/internal/inspectread"
	"github.com/nadra-dev/nadra/internal/kube"
	"github.com/nadra-dev/nadra/internal/nodepod"
	"github.com/nadra-dev/nadra/internal/probe"
	"github.com/nadra-dev/nadra/internal/snapshot"
)

// Cluster is what to take a snapshot of.
type Cluster struct {
	inspectread.Cluster
	// Name is the context's, for people.
	Name string
	// Selector selects pods by label.
	Selector string
	// Known are networks to record also if no pod uses them.
	Known []string
	// Nodes has pods look at the nodes; nil looks from outside only.
	Nodes *nodepod.Runner
	// Progress is told what is done now.
	Progress func(string)
}

// Take takes a snapshot. What a node cannot be asked is in the snapshot; the
// error is that the cluster cannot be read, or that ctx has ended.
func (c Cluster) Take(ctx context.Context, now time.Time) (*snapshot.Snapshot, error) {
	selector, err := labels.Parse(c.Selector)
	if err != nil {
		return nil, fmt.Errorf("reading the selector: %w", err)
	}
	c.say("Reading the cluster")
	read, err := c.Read(ctx)
	if err != nil {
		return nil, err
	}
	read.Pods = slices.DeleteFunc(read.Pods, func(p *corev1.Pod) bool { return !selector.Matches(labels.Set(p.Labels)) })
	in := snapshot.Input{
		Input: read, Known: c.Known, Taken: now.UTC().Format(time.RFC3339),
		Source: "cluster " + c.Name, Namespace: c.Namespace, Selector: c.Selector,
	}
	if err := c.readMakers(ctx, &in); err != nil {
		return nil, err
	}
	if c.Nodes != nil {
		if in.Nodes, err = c.look(ctx, snapshot.Build(in), read.Pods); err != nil {
			return nil, err
		}
	}
	return snapshot.Build(in), nil
}

func (c Cluster) say(what string) {
	if c.Progress != nil {
		c.Progress(what)
	}
}

// readMakers reads who has made ReplicaSets and Jobs. Where the user may not,
// names have to tell.
func (c Cluster) readMakers(ctx context.Context, in *snapshot.Input) error {
	sets, jobs := c.Kube.AppsV1().ReplicaSets(c.Namespace), c.Kube.BatchV1().Jobs(c.Namespace)
	err := kube.EachItem(ctx, metav1.ListOptions{}, kube.PagesOf(sets.List),
		func(o *appsv1.ReplicaSet) { in.AddMaker("ReplicaSet", o) })
	if err != nil && !apierrors.IsForbidden(err) {
		return fmt.Errorf("listing replicasets: %w", err)
	}
	err = kube.EachItem(ctx, metav1.ListOptions{}, kube.PagesOf(jobs.List),
		func(o *batchv1.Job) { in.AddMaker("Job", o) })
	if err != nil && !apierrors.IsForbidden(err) {
		return fmt.Errorf("listing jobs: %w", err)
	}
	return nil
}

// look has a pod on each node with pods of the snapshot look into those.
func (c Cluster) look(ctx context.Context, s *snapshot.Snapshot, pods []*corev1.Pod) (map[string]snapshot.NodeLook, error) {
	uids := map[string][]string{}
	for _, p := range pods {
		recorded := slices.ContainsFunc(s.Pods, func(r snapshot.Pod) bool { return r.Namespace == p.Namespace && r.Name == p.Name })
		if recorded && p.Spec.NodeName != "" {
			uids[p.Spec.NodeName] = append(uids[p.Spec.NodeName], snapshot.ProbeUID(p))
		}
	}
	c.say(fmt.Sprintf("Looking into the pods of %d nodes", len(uids)))
	out := make(map[string]snapshot.NodeLook, len(uids))
	ask := func(node string) (*probe.NodePods, error) { return c.lookAt(ctx, node, uids[node]) }
	for _, a := range nodepod.Ask(ctx, *c.Nodes, slices.Collect(maps.Keys(uids)), ask) {
		out[a.Node] = snapshot.NodeLook{Pods: a.Said, Err: a.Err}
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("looking at the nodes: %w", ctx.Err())
	}
	return out, nil
}

// capabilities are what it takes to enter the network namespaces of others, and
// to read the environment of their processes.
var capabilities = []corev1.Capability{"SYS_ADMIN", "SYS_PTRACE"}

func (c Cluster) lookAt(ctx context.Context, node string, uids []string) (*probe.NodePods, error) {
	slices.Sort(uids)
	args := []string{"probe", "--pods", "--host-root=" + nodepod.HostRoot, "--pod-uids=" + strings.Join(uids, ",")}
	log, err := c.Nodes.Run(ctx, c.Nodes.Pod(node, args, capabilities...))
	if err != nil {
		return nil, err
	}
	return probe.DecodePods(log)
}
