package bundle

import (
	"context"
	"errors"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/nadra-dev/nadra/internal/kube"
)

// ownPrograms selects nadra's workloads and their pods, for every kind of installation.
const ownPrograms = "app.kubernetes.io/name in (nadra-node, nadra-controller)"

// own adds nadra's workloads and their pods.
func (r *collector) own(ctx context.Context) error {
	ours := metav1.ListOptions{LabelSelector: ownPrograms}
	pods, err := kube.AllItems[corev1.Pod](ctx, ours, r.Kube.CoreV1().Pods("").List)
	r.failed("nadra's own pods, and so their logs and metrics", err, "the right to list pods in all namespaces")
	for _, p := range pods {
		if len(r.Nodes) == 0 || p.Labels["app.kubernetes.io/name"] != "nadra-node" || slices.Contains(r.Nodes, p.Spec.NodeName) {
			r.pods = append(r.pods, *p)
		}
	}
	slices.SortFunc(r.pods, func(a, b corev1.Pod) int { return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name) })
	sets, err := kube.AllItems[appsv1.DaemonSet](ctx, ours, r.Kube.AppsV1().DaemonSets("").List)
	r.failed("daemonsets", err, "the right to list daemonsets.apps in all namespaces")
	deployments, err := kube.AllItems[appsv1.Deployment](ctx, ours, r.Kube.AppsV1().Deployments("").List)
	r.failed("deployments", err, "the right to list deployments.apps in all namespaces")
	return errors.Join(
		add(r.out, "nadra-pods", "nadra's own pods", pods),
		add(r.out, "daemonsets", "nadra's DaemonSet", sets),
		add(r.out, "deployments", "nadra's Deployment", deployments),
	)
}

// namespaces returns the namespaces in which nadra is, or would be.
func (r *collector) namespaces() []string {
	out := []string{"nadra", "nadra-system", r.StateNamespace}
	for i := range r.pods {
		out = append(out, r.pods[i].Namespace)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// configuration adds ConfigMaps, webhooks and policies of nadra.
func (r *collector) configuration(ctx context.Context) error {
	var maps []*corev1.ConfigMap
	for _, ns := range r.namespaces() {
		found, err := kube.AllItems[corev1.ConfigMap](ctx, kube.All, r.Kube.CoreV1().ConfigMaps(ns).List)
		r.failed("configmaps of namespace "+ns, err, "the right to list configmaps there")
		maps = append(maps, keep(found, func(o metav1.Object) bool {
			return strings.HasPrefix(o.GetName(), "nadra") && o.GetName() != "nadra-upgrade" // which upgrade.json has
		})...)
	}
	admission := r.Kube.AdmissionregistrationV1()
	return errors.Join(
		add(r.out, "configmaps", "nadra's ConfigMaps", maps),
		addOurs[admissionv1.MutatingWebhookConfiguration](ctx, r, "mutatingwebhookconfigurations", admission.MutatingWebhookConfigurations().List),
		addOurs[admissionv1.ValidatingWebhookConfiguration](ctx, r, "validatingwebhookconfigurations", admission.ValidatingWebhookConfigurations().List),
		addOurs[admissionv1.ValidatingAdmissionPolicy](ctx, r, "validatingadmissionpolicies", admission.ValidatingAdmissionPolicies().List),
		addOurs[admissionv1.ValidatingAdmissionPolicyBinding](ctx, r, "validatingadmissionpolicybindings", admission.ValidatingAdmissionPolicyBindings().List),
	)
}

// addOurs adds the objects of a kind that are nadra's by their name.
func addOurs[T any, P interface {
	*T
	object
}, L runtime.Object](ctx context.Context, r *collector, resource string, f kube.List[L],
) error {
	found, err := kube.AllItems[T](ctx, kube.All, f)
	if !apierrors.IsNotFound(err) { // an older cluster may not have the kind
		r.failed(resource, err, "the right to list "+resource+".admissionregistration.k8s.io")
	}
	var ours []P
	for _, one := range found {
		if P(one).GetName() == "nadra" || strings.HasPrefix(P(one).GetName(), "nadra-") {
			ours = append(ours, one)
		}
	}
	return add[P](r.out, resource, "nadra's "+resource, ours)
}
