// Package cleanuprun finds in a cluster and on its nodes what package cleanup calls
// orphans, and frees it.
package cleanuprun

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	nadclient "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/client/clientset/versioned"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/nadra-dev/nadra/internal/cleanup"
	"github.com/nadra-dev/nadra/internal/nodepod"
)

// Cleaner cleans up.
type Cleaner struct {
	Kube    kubernetes.Interface
	NADs    nadclient.Interface
	Dynamic dynamic.Interface
	// Pods run on nodes; nil looks at none.
	Pods *nodepod.Runner
	// Only are the names of the nodes to look at; empty means all.
	Only []string
	// Namespace limits objects to one namespace, and what is on nodes to its
	// pods; empty does not.
	Namespace string
	// OlderThan is the age from which something can be an orphan.
	OlderThan time.Duration
	// AllCNI has what the cluster's default network has left freed, too.
	AllCNI bool
	// NodeArgs are more arguments of what runs on nodes.
	NodeArgs []string
}

// Find looks everywhere and changes nothing.
func (c Cleaner) Find(ctx context.Context) (cleanup.Report, error) { return c.run(ctx, false) }

// Free looks everywhere anew and frees what it finds.
func (c Cleaner) Free(ctx context.Context) (cleanup.Report, error) { return c.run(ctx, true) }

func (c Cleaner) run(ctx context.Context, apply bool) (cleanup.Report, error) {
	r := cleanup.Report{APIVersion: cleanup.APIVersion, Kind: cleanup.ReportKind, Orphans: []cleanup.Orphan{}}
	// Before the pods are listed: a claim or lease that is seen has a pod by then.
	facts, err := c.objects(ctx)
	if err != nil {
		return r, err
	}
	sandboxes := cleanup.Sandboxes{Unknown: "no node was looked at"}
	if c.Pods != nil {
		reports, err := c.nodes(ctx, apply)
		if err != nil {
			return r, err
		}
		sandboxes = c.add(&r, reports)
	}
	if facts.Pods, err = c.pods(ctx); err != nil {
		return r, err
	}
	facts.Now = time.Now()
	objects := slices.DeleteFunc(cleanup.Objects(facts, c.OlderThan, sandboxes), func(o cleanup.Orphan) bool { return !c.wants(o) })
	if apply {
		c.free(ctx, facts, objects)
	}
	r.Orphans = append(objects, r.Orphans...)
	return r, ctx.Err()
}

// wants reports an orphan of the namespace.
func (c Cleaner) wants(o cleanup.Orphan) bool {
	whose := o.Object
	if o.Node != "" || o.Kind == cleanup.Whereabouts || o.Kind == cleanup.Reservation {
		whose = o.Pod
	}
	return c.Namespace == "" || strings.HasPrefix(whose, c.Namespace+"/")
}

// add adds what the nodes say, and returns the sandboxes of all of them.
func (c Cleaner) add(r *cleanup.Report, reports []cleanup.NodeReport) cleanup.Sandboxes {
	s := cleanup.Sandboxes{IDs: map[string]bool{}}
	if len(c.Only) > 0 {
		s.Unknown = "not all nodes were looked at"
	}
	for _, n := range reports {
		for _, id := range n.Sandboxes {
			s.IDs[id] = true
		}
		for _, e := range n.Errors {
			r.Errors = append(r.Errors, cleanup.NodeProblem{Node: n.Node, Message: e})
		}
		if n.Refused != "" {
			r.Refused = append(r.Refused, cleanup.NodeProblem{Node: n.Node, Message: n.Refused})
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

func (c Cleaner) on(node string) bool { return len(c.Only) == 0 || slices.Contains(c.Only, node) }
