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

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// Objects are what a cluster has, as its API server tells it. Pods are all of
// them; of the others, those that Facts says something of.
type Objects struct {
	Nodes       []corev1.Node
	Pods        []corev1.Pod
	Namespaces  []corev1.Namespace
	Budgets     []policyv1.PodDisruptionBudget
	Claims      []resourceapi.ResourceClaim
	ReplicaSets []appsv1.ReplicaSet
	Jobs        []batchv1.Job
	DaemonSets  []appsv1.DaemonSet
	Deployments []appsv1.Deployment
}

// Facts tells what a plan needs to know of the objects. domainLabel is the node
// label of failure domains, and multus are the DaemonSets of Multus.
func (o *Objects) Facts(domainLabel string, multus []MultusRef) Facts {
	f := Facts{Owners: map[string]string{}, DefaultOwner: v1alpha1.OwnerMultus}
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
		f.Multus = append(f.Multus, Multus{Namespace: ref.Namespace, DaemonSet: ref.DaemonSet, ManagedBy: o.managerOf(ref)})
	}
	f.readInstallation(o)
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

// pods are those that run with networks, sorted.
func (o *Objects) pods() []Pod {
	makers, attached := o.makers(), o.attachedByNadra()
	var out []Pod
	for i := range o.Pods {
		if p := &o.Pods[i]; hasNetworks(p) {
			pod := podOf(p, makers)
			pod.Nadra = slices.ContainsFunc(claimsOf(p), func(name string) bool { return attached[p.Namespace+"/"+name] })
			out = append(out, pod)
		}
	}
	slices.SortFunc(out, func(a, b Pod) int { return strings.Compare(a.String(), b.String()) })
	return out
}

// hasNetworks reports whether a pod is on a node with networks beside the
// default one, or with another default one.
func hasNetworks(p *corev1.Pod) bool {
	if p.Spec.HostNetwork || p.Spec.NodeName == "" || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return false
	}
	networks := strings.TrimSpace(p.Annotations[attachment.NetworksAnnotation])
	return networks != "" && networks != "[]" || p.Annotations[attachment.DefaultNetworkAnnotation] != ""
}

// PodReady reports whether a pod says that it is ready.
func PodReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func podOf(p *corev1.Pod, makers map[Workload]Workload) Pod {
	_, static := p.Annotations[corev1.MirrorPodAnnotationKey]
	out := Pod{
		Namespace: p.Namespace, Name: p.Name, UID: p.UID, Node: p.Spec.NodeName, Static: static,
		Pinned: p.Labels[v1alpha1.OwnerLabel] == v1alpha1.OwnerMultus,
		Ready:  PodReady(p) && p.DeletionTimestamp == nil,
	}
	if owner := metav1.GetControllerOf(p); owner != nil && !static {
		out.Workload = Workload{Kind: owner.Kind, Namespace: p.Namespace, Name: owner.Name}
		if maker, known := makers[out.Workload]; known {
			out.Workload = maker
		}
	}
	for _, t := range p.Spec.Tolerations {
		out.Tolerates = out.Tolerates || t.Key == "" && t.Operator == corev1.TolerationOpExists && (t.Effect == "" || t.Effect == corev1.TaintEffectNoSchedule)
	}
	for _, v := range p.Spec.Volumes {
		out.LocalData = out.LocalData || v.EmptyDir != nil && v.EmptyDir.Medium != corev1.StorageMediumMemory
	}
	return out
}

// makers has, for what makes pods and is made itself, who makes it.
func (o *Objects) makers() map[Workload]Workload {
	out := map[Workload]Workload{}
	note := func(kind string, made *metav1.ObjectMeta) {
		if owner := metav1.GetControllerOf(made); owner != nil {
			out[Workload{kind, made.Namespace, made.Name}] = Workload{owner.Kind, made.Namespace, owner.Name}
		}
	}
	for i := range o.ReplicaSets {
		note("ReplicaSet", &o.ReplicaSets[i].ObjectMeta)
	}
	for i := range o.Jobs {
		note("Job", &o.Jobs[i].ObjectMeta)
	}
	return out
}

// attachedByNadra has the claims, as namespace/name, that nadra's devices were
// allocated to.
func (o *Objects) attachedByNadra() map[string]bool {
	out := map[string]bool{}
	for i := range o.Claims {
		c := &o.Claims[i]
		if c.Status.Allocation == nil {
			continue
		}
		for _, r := range c.Status.Allocation.Devices.Results {
			if r.Driver == v1alpha1.DriverName {
				out[c.Namespace+"/"+c.Name] = true
			}
		}
	}
	return out
}

// claimsOf are the names of a pod's claims.
func claimsOf(p *corev1.Pod) []string {
	var out []string
	for _, c := range p.Spec.ResourceClaims {
		if c.ResourceClaimName != nil {
			out = append(out, *c.ResourceClaimName)
		}
	}
	for _, s := range p.Status.ResourceClaimStatuses {
		if s.ResourceClaimName != nil {
			out = append(out, *s.ResourceClaimName)
		}
	}
	return out
}

// budgets are those that protect one of the pods.
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
			continue // the API server does not let such a one in
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
