package upgrade

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Facts are what a plan is made from: the cluster as it is now.
type Facts struct {
	// Source is what was read, for people: a cluster's context.
	Source string
	Nodes  []Node
	// Pods are those that run and have networks beside the default one.
	Pods    []Pod
	Budgets []Budget
	// Stays are workloads that nadra cannot serve, as scan says.
	Stays []Stay
	// Owners are the values of the label nadra.dev/owner of namespaces that have
	// it, and DefaultOwner counts for all others.
	Owners       map[string]string
	DefaultOwner string
	Multus       []Multus
	// Doctor are checks of doctor that came out as blockers, in words.
	Doctor []string
	// Installed says that driver and controller are there, and Labelled that the
	// driver serves labelled nodes only.
	Installed, Labelled bool
}

// Node is a node of the cluster.
type Node struct {
	Name string
	// Domain is the failure domain that it is in, e.g. its zone; empty where it
	// has no such label.
	Domain string
	Ready  bool
	// Linux is false for nodes that neither Multus nor nadra serves.
	Linux bool
	// Nadra says that it is nadra's already.
	Nadra bool
}

// Workload is what makes pods; the zero value is that of pods that a person or
// nobody has made.
type Workload struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

func (w Workload) String() string { return w.Kind + " " + w.Namespace + "/" + w.Name }

// Pod is a pod with networks.
type Pod struct {
	Namespace, Name, Node string
	UID                   types.UID
	// Workload makes it again; Kind is empty where nobody does.
	Workload Workload
	// Static pods are those of a file on the node.
	Static bool
	// Tolerates says that it is scheduled to nodes with any taint.
	Tolerates bool
	// LocalData says that it has an emptyDir on the node's disk.
	LocalData bool
	// Nadra says that nadra has attached its networks.
	Nadra bool
	// Pinned says that its own label has it served by Multus for good.
	Pinned bool
	// Ready is the pod's own condition.
	Ready bool
}

// String returns namespace/name.
func (p Pod) String() string { return p.Namespace + "/" + p.Name }

// daemon reports whether its node is decided before it is scheduled.
func (p Pod) daemon() bool { return p.Workload.Kind == "DaemonSet" }

// Budget is a PodDisruptionBudget.
type Budget struct {
	Namespace, Name string
	// Allowed is how many of its pods may be evicted now.
	Allowed int32
	// Expected and Healthy are how many pods it counts on and has.
	Expected, Healthy int32
	// Pods are the names of those that it protects.
	Pods []string
}

// String returns namespace/name.
func (b Budget) String() string { return b.Namespace + "/" + b.Name }

// covers reports whether it protects a pod.
func (b Budget) covers(p Pod) bool {
	return p.Namespace == b.Namespace && slices.Contains(b.Pods, p.Name)
}

// Stay is a workload that nadra cannot serve.
type Stay struct {
	Workload Workload
	// Codes are those of the findings that block it.
	Codes []string
	// Pinned says that its pods are labelled for Multus, so that its namespace can
	// be nadra's without them.
	Pinned bool
}

// Multus is an installation of Multus.
type Multus struct {
	Namespace, DaemonSet string
	// ManagedBy is who would put back what is changed of the DaemonSet, in words;
	// empty where nobody is known to.
	ManagedBy string
}

// String returns namespace/name of the DaemonSet.
func (m Multus) String() string { return m.Namespace + "/" + m.DaemonSet }

// podsOn are the pods of a node that Multus has attached.
func (f *Facts) podsOn(node string) []Pod { return f.Disturbed(node, Forth) }

// Disturbed are the pods that leave a node when it goes a way: those whose
// networks are of the one that it goes away from.
func (f *Facts) Disturbed(node string, way Way) []Pod {
	var out []Pod
	for _, p := range f.Pods {
		if p.Node == node && p.Nadra == (way == Back) {
			out = append(out, p)
		}
	}
	return out
}

// ReadyOf counts the pods of workloads that are ready, on any node. Those of
// nobody, and those that end on their own, do not come back.
func (f *Facts) ReadyOf(pods []Pod) []WorkloadPods {
	var out []WorkloadPods
	for _, w := range countBy(pods) {
		if w.Kind == "Pod" || w.Kind == "Job" || w.Kind == "CronJob" {
			continue
		}
		w.Pods = f.Ready(w.Workload)
		out = append(out, w)
	}
	return out
}

// Ready is how many pods of a workload are ready.
func (f *Facts) Ready(w Workload) int {
	n := 0
	for _, p := range f.Pods {
		if p.Workload == w && p.Ready {
			n++
		}
	}
	return n
}

// namespaces are those with pods that have networks, and of workloads that stay,
// sorted.
func (f *Facts) namespaces() []string {
	var out []string
	for _, p := range f.Pods {
		out = append(out, p.Namespace)
	}
	for _, s := range f.Stays {
		out = append(out, s.Workload.Namespace)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// owner says who serves the pods of a namespace now.
func (f *Facts) owner(namespace string) string {
	return cmp.Or(f.Owners[namespace], f.DefaultOwner)
}

// countBy counts pods by what they are of, as "Deployment core/upf: 2", sorted.
func countBy(pods []Pod) []WorkloadPods {
	var out []WorkloadPods
	for _, p := range pods {
		w := p.Workload
		if w.Kind == "" {
			w = Workload{Kind: "Pod", Namespace: p.Namespace, Name: p.Name}
		}
		i := slices.IndexFunc(out, func(o WorkloadPods) bool { return o.Workload == w })
		if i < 0 {
			out = append(out, WorkloadPods{Workload: w})
			i = len(out) - 1
		}
		out[i].Pods++
	}
	slices.SortFunc(out, func(a, b WorkloadPods) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
	})
	return out
}
