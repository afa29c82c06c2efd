package upgrade

import (
	"cmp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/kubectl/pkg/util/podutils"

	"github.com/nadra-dev/nadra/internal/desk/canary"
	"github.com/nadra-dev/nadra/internal/desk/inspect"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// Objects are the objects of a cluster that Facts are made from.
type Objects struct {
	Nodes        []corev1.Node
	Pods         []corev1.Pod
	Namespaces   []corev1.Namespace
	Claims       []resourceapi.ResourceClaim
	ReplicaSets  []appsv1.ReplicaSet
	Jobs         []batchv1.Job
	DaemonSets   []appsv1.DaemonSet
	Deployments  []appsv1.Deployment
	StatefulSets []appsv1.StatefulSet
	// Budgets are read beside Multus only.
	Budgets []policyv1.PodDisruptionBudget
	// BesideMultus is set if the user says that nadra will run beside Multus on one node.
	BesideMultus bool
}

// Facts extracts the facts that a plan needs. domainLabel is the node label of
// failure domains, and multus are the DaemonSets of Multus.
func (o *Objects) Facts(domainLabel string, multus []MultusRef) Facts {
	f := Facts{Owners: map[string]string{}}
	for i := range o.Nodes {
		f.Nodes = append(f.Nodes, nodeOf(&o.Nodes[i], domainLabel))
	}
	slices.SortFunc(f.Nodes, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	for _, ns := range o.Namespaces {
		if owner := ns.Labels[v1alpha1.OwnerLabel]; owner != "" {
			f.Owners[ns.Name] = owner
		}
	}
	f.Pods = o.pods()
	f.Budgets = o.budgets(f.Pods)
	for _, ref := range multus {
		f.Multus = append(f.Multus, Multus{ref, o.managerOf(ref)})
	}
	f.readInstallation(o)
	f.BesideMultus = f.BesideMultus || o.BesideMultus
	f.Controllers = o.controllers()
	return f
}

func nodeOf(n *corev1.Node, domainLabel string) Node {
	out := Node{
		Name: n.Name, Domain: n.Labels[domainLabel],
		Linux: cmp.Or(n.Status.NodeInfo.OperatingSystem, n.Labels[corev1.LabelOSStable], "linux") == "linux",
		Nadra: n.Labels[v1alpha1.OwnerLabel] == v1alpha1.OwnerNadra,
	}
	for _, c := range n.Status.Conditions {
		out.Ready = out.Ready || c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	}
	return out
}

// pods returns the running pods with networks, sorted.
func (o *Objects) pods() []Pod {
	var parents inspect.Parents
	for i := range o.ReplicaSets {
		parents.Add("ReplicaSet", &o.ReplicaSets[i])
	}
	for i := range o.Jobs {
		parents.Add("Job", &o.Jobs[i])
	}
	attached := o.attachedByNadra()
	var out []Pod
	for i := range o.Pods {
		if p := &o.Pods[i]; hasNetworks(p) {
			pod := podOf(p, parents)
			pod.Nadra = slices.ContainsFunc(attachment.ClaimNames(p), func(name string) bool { return attached[p.Namespace+"/"+name] })
			pod.Unclaimed = !pod.Nadra && servedUnclaimed(p)
			out = append(out, pod)
		}
	}
	slices.SortFunc(out, func(a, b Pod) int { return strings.Compare(a.String(), b.String()) })
	return out
}

// servedUnclaimed reports whether nadra serves a pod without a claim. attachment.AttacherOf answers who has attached
// networks: nobody, if a pod runs without those that only nadra attaches.
func servedUnclaimed(p *corev1.Pod) bool {
	return attachment.NamesOwn(p.Annotations) && attachment.NamesNetworks(p) || attachment.AttacherOf(p, false) == attachment.OfNadra
}

// hasNetworks reports whether a pod runs with networks besides the default network,
// or with another default network.
func hasNetworks(p *corev1.Pod) bool {
	if p.Spec.HostNetwork || p.Spec.NodeName == "" || attachment.IsOver(p) {
		return false
	}
	return attachment.NamesNetworks(p) || p.Annotations[attachment.DefaultNetworkAnnotation] != ""
}

func podOf(p *corev1.Pod, parents inspect.Parents) Pod {
	_, static := p.Annotations[corev1.MirrorPodAnnotationKey]
	out := Pod{
		Namespace: p.Namespace, Name: p.Name, UID: p.UID, Node: p.Spec.NodeName, Static: static,
		Pinned:      p.Labels[v1alpha1.OwnerLabel] == v1alpha1.OwnerMultus,
		OnlyDefault: !attachment.NamesNetworks(p),
		Started:     p.CreationTimestamp.Time,
		Ready:       podutils.IsPodReady(p) && p.DeletionTimestamp == nil,

		Disposable: p.DeletionTimestamp != nil ||
			p.Labels[canary.NameLabel] == canary.Name && p.Labels[canary.ManagerLabel] == canary.ManagerName,
	}
	if owner := parents.WorkloadOf(p); owner != nil {
		out.Workload = Workload{Kind: owner.Kind, Namespace: p.Namespace, Name: owner.Name}
		out.Tolerates = slices.ContainsFunc(p.Spec.Tolerations, func(t corev1.Toleration) bool {
			return (t.Key == moving.Key && t.Value == "" || t.Key == "" && t.Operator == corev1.TolerationOpExists) &&
				(t.Effect == "" || t.Effect == moving.Effect)
		})
	}
	return out
}

// attachedByNadra returns the claims, as namespace/name, that have devices of nadra.
func (o *Objects) attachedByNadra() map[string]bool {
	out := map[string]bool{}
	for i := range o.Claims {
		c := &o.Claims[i]
		out[c.Namespace+"/"+c.Name] = attachment.HasDevices(c)
	}
	return out
}

// budgets returns the budgets that protect one of the pods, sorted.
func (o *Objects) budgets(pods []Pod) []Budget {
	ours := map[string]bool{}
	for _, p := range pods {
		ours[p.String()] = true
	}
	var out []Budget
	for i := range o.Budgets {
		b := &o.Budgets[i]
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil {
			continue // the API server rejects such selectors
		}
		one := Budget{
			Namespace: b.Namespace, Name: b.Name,
			Allowed: b.Status.DisruptionsAllowed, Expected: b.Status.DesiredHealthy, Healthy: b.Status.CurrentHealthy,
		}
		for j := range o.Pods {
			p := &o.Pods[j]
			if p.Namespace == b.Namespace && ours[p.Namespace+"/"+p.Name] && selector.Matches(labels.Set(p.Labels)) {
				one.Pods = append(one.Pods, p.Name)
			}
		}
		if len(one.Pods) > 0 {
			out = append(out, one)
		}
	}
	slices.SortFunc(out, func(a, b Budget) int { return strings.Compare(a.String(), b.String()) })
	return out
}
