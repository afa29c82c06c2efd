package upgrade

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nadra-dev/nadra/pkg/translate"
)

// Facts describe the cluster as it is now. Plans are made from them.
type Facts struct {
	// Source names the cluster for people: its context.
	Source string
	Nodes  []Node
	// Pods are the running pods with networks besides the default network.
	Pods    []Pod
	Budgets []Budget
	// Stays are the workloads that nadra cannot serve, according to scan.
	Stays []Stay
	// Owners are the values of the label nadra.dev/owner, by namespace.
	// DefaultOwner applies to namespaces without the label.
	Owners       map[string]string
	DefaultOwner string
	Multus       []Multus
	// Doctor are the messages of doctor's checks that are blockers.
	Doctor []string
	// Installed is true if driver and controller are installed, Labelled if the
	// driver serves only labelled nodes.
	Installed, Labelled bool
	// BesideMultus is true if Multus stays on nadra's nodes, and namespaces move instead of
	// nodes.
	BesideMultus bool
	// Controllers are the workloads that a rollout restarts.
	Controllers []Controller
	// Blind are doctor's warnings about programs that do not see the networks of nadra's pods beside Multus.
	Blind []translate.Finding
}

// Node is a node of the cluster.
type Node struct {
	Name string
	// Domain is the node's failure domain, for example its zone; empty if it
	// has no such label.
	Domain string
	Ready  bool
	// Linux is false for nodes that neither Multus nor nadra serves.
	Linux bool
	// Nadra is true for nodes that nadra serves already.
	Nadra bool
}

// Workload identifies the workload that creates a pod. The zero value stands for
// pods without one.
type Workload struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

func (w Workload) String() string { return w.ref().String() }

func (w Workload) ref() translate.ObjectRef { return ref(w.Kind, w.Namespace, w.Name) }

// Pod is a pod with networks.
type Pod struct {
	Namespace, Name, Node string
	UID                   types.UID
	// Workload recreates the pod after an eviction; its Kind is empty if nothing does.
	Workload Workload
	// Static is true if the kubelet creates the pod from a file.
	Static bool
	// Disposable is true if nobody misses the pod: it is being deleted, or is a canary that an interrupted
	// command left behind.
	Disposable bool
	// Tolerates is true if the pod can come back to its node at once, because it tolerates the taint of a move. Most
	// such pods are of a DaemonSet.
	Tolerates bool
	// Nadra is true if nadra attached the pod's networks by claims.
	Nadra bool
	// Unclaimed is true if nadra attaches them without a claim for networks, as attachment.AttacherOf decides.
	Unclaimed bool
	// OnlyDefault is true if the pod replaces its default network, and names no other: beside Multus, that stays
	// Multus' part.
	OnlyDefault bool
	// Started is when the kubelet accepted the pod.
	Started time.Time
	// Pinned is true if the pod's own label leaves it to Multus.
	Pinned bool
	// Ready is the pod's condition Ready.
	Ready bool
}

// String returns namespace/name.
func (p Pod) String() string { return p.Namespace + "/" + p.Name }

// isBare reports whether an eviction would end the pod for good, and somebody would miss it.
func (p Pod) isBare() bool { return p.Workload.Kind == "" && !p.Static && !p.Disposable }

// daemon reports whether a DaemonSet created the pod for its node.
func (p Pod) daemon() bool { return p.Workload.Kind == "DaemonSet" }

// Budget is a PodDisruptionBudget.
type Budget struct {
	Namespace, Name string
	// Allowed is the number of its pods that may be evicted now.
	Allowed int32
	// Expected and Healthy are the numbers of healthy pods that it requires and has.
	Expected, Healthy int32
	// Pods are the names of the pods that it protects.
	Pods []string
}

// String returns namespace/name.
func (b Budget) String() string { return b.Namespace + "/" + b.Name }

// covers reports whether the budget protects p.
func (b Budget) covers(p Pod) bool {
	return p.Namespace == b.Namespace && slices.Contains(b.Pods, p.Name)
}

// Stay is a workload that nadra cannot serve.
type Stay struct {
	Workload Workload
	// Codes are the codes of the findings that block the workload.
	Codes []string
	// Pinned is true if its pods are labelled for Multus, so that its namespace can
	// move without them.
	Pinned bool
	// Unserved is true if only resource pools block it. Beside Multus, the webhook leaves such pods to
	// Multus, so that their namespace can move.
	Unserved bool
}

// Multus is an installation of Multus.
type Multus struct {
	MultusRef
	// ManagedBy names the manager that would revert a change of the DaemonSet;
	// empty if none is known.
	ManagedBy string
}

// podsOn returns the pods of a node whose networks Multus attached.
func (f *Facts) podsOn(node string) []Pod { return f.disturbed(node, ToNadra) }

// disturbed returns the pods that the move of a node concerns: those whose networks its
// present owner attached. nadra adopts those of Multus; its own, by claims, are evicted.
func (f *Facts) disturbed(node string, direction Direction) []Pod {
	var out []Pod
	for _, p := range f.Pods {
		if p.Node == node && p.Nadra == (direction == ToMultus) {
			out = append(out, p)
		}
	}
	return out
}

// readyOf counts the ready pods of the workloads of some pods, on any node. It leaves
// out workloads whose pods do not come back: bare pods and jobs.
func (f *Facts) readyOf(pods []Pod) []WorkloadPods {
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

// Ready counts the ready pods of a workload.
func (f *Facts) Ready(w Workload) int {
	n := 0
	for _, p := range f.Pods {
		if p.Workload == w && p.Ready {
			n++
		}
	}
	return n
}

// Namespaces returns the namespaces of pods with networks and of workloads that
// stay, sorted.
func (f *Facts) Namespaces() []string {
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

// owner returns the present owner of the pods of a namespace.
func (f *Facts) owner(namespace string) string {
	return cmp.Or(f.Owners[namespace], f.DefaultOwner)
}

// countBy counts pods by workload, sorted. A pod without one counts for itself.
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
