// Package cleanup frees what deleted pods left behind in a cluster and, by pods, on its nodes, and removes nadra from
// them, unless somebody uses it. Whatever is, or may be, in use is kept. Every step of the removal depends only on what
// still exists, so that a run can be repeated after an interruption.
package cleanup

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	nadclient "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/client/clientset/versioned"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/nadra-dev/nadra/internal/desk/nodepod"
	"github.com/nadra-dev/nadra/internal/kube"
	"github.com/nadra-dev/nadra/internal/probe"
)

// Cleaner cleans up a cluster.
type Cleaner struct {
	Kube    kubernetes.Interface
	NADs    nadclient.Interface
	Dynamic dynamic.Interface
	// Pods runs pods on nodes; nil leaves out the nodes.
	Pods *nodepod.Runner
	// Only are the names of the nodes to clean up; empty means all.
	Only []string
	// Namespace limits objects to a namespace, and orphans of nodes to its pods; empty
	// means all.
	Namespace string
	// OlderThan is the minimum age of an orphan.
	OlderThan time.Duration
	// AllCNI also frees leftovers of the cluster's default network.
	AllCNI bool
	// NodeArgs are further arguments of nadra-node on nodes.
	NodeArgs []string
}

// Find reports orphans, and changes nothing.
func (c Cleaner) Find(ctx context.Context) (Report, error) { return c.run(ctx, false) }

// Free finds orphans again, and frees them.
func (c Cleaner) Free(ctx context.Context) (Report, error) { return c.run(ctx, true) }

func (c Cleaner) run(ctx context.Context, apply bool) (Report, error) {
	r := Report{APIVersion: apiVersion, Kind: reportKind, Orphans: []probe.Orphan{}}
	// Before the pods are listed, so that the pod of every claim and lease exists by then.
	facts, err := c.objects(ctx)
	if err != nil {
		return r, err
	}
	sandboxes := sandboxes{Unknown: "no node was inspected"}
	if c.Pods != nil {
		reports, err := c.nodes(ctx, apply)
		if err != nil {
			return r, err
		}
		sandboxes = c.add(&r, reports)
	}
	// Of all namespaces, because a pool has addresses of pods of any.
	if err := kube.Append(ctx, "pods", kube.All, c.Kube.CoreV1().Pods("").List, &facts.Pods); err != nil {
		return r, err
	}
	facts.Now = time.Now()
	objects := slices.DeleteFunc(orphansIn(facts, c.OlderThan, sandboxes), func(o probe.Orphan) bool { return !c.wants(o) })
	if apply {
		c.free(ctx, facts, objects)
	}
	r.Orphans = append(objects, r.Orphans...)
	return r, ctx.Err()
}

// wants reports whether an orphan belongs to Namespace.
func (c Cleaner) wants(o probe.Orphan) bool {
	whose := o.Object
	if o.Node != "" || o.Kind == probe.OrphanWhereabouts || o.Kind == probe.OrphanReservation {
		whose = o.Pod
	}
	return c.Namespace == "" || strings.HasPrefix(whose, c.Namespace+"/")
}

// add adds the nodes' reports, and returns their sandboxes.
func (c Cleaner) add(r *Report, reports []probe.OrphanReport) sandboxes {
	s := sandboxes{IDs: map[string]bool{}}
	if len(c.Only) > 0 {
		s.Unknown = "not all nodes were inspected"
	}
	for _, n := range reports {
		for _, id := range n.Sandboxes {
			s.IDs[id] = true
		}
		for _, e := range n.Errors {
			r.found(&r.Errors, codeUnread, n.Node, e)
		}
		if n.Refused != "" {
			r.found(&r.Refused, codeNotJudged, n.Node, n.Refused)
			s.Unknown = fmt.Sprintf("node %s was not judged", n.Node)
			continue
		}
		r.Nodes++
		r.Kept += n.Kept
		for _, o := range n.Orphans {
			if o.Node = n.Node; c.wants(o) {
				r.Orphans = append(r.Orphans, o)
			}
		}
	}
	return s
}
