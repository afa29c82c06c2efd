// Package owned knows what nadra's controller and admission have made: by which
// sign, and who uses it. The controller collects by it, the command line cleans
// up by it; live beside it takes all of it away.
package owned

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// Managed reports an object that the controller or admission has made.
func Managed(o metav1.Object) bool {
	return o.GetLabels()[v1alpha1.ManagedByLabel] == v1alpha1.Controller
}

// Collectable reports a template that admission has made and that nobody else
// has laid hands on. One that was applied from a manifest, too, since a
// conversion gives equal ones equal names, is what its workload stands on when
// there are no pods.
func Collectable(t *resourceapi.ResourceClaimTemplate) bool {
	if !Managed(t) || !translate.MadeTemplate(t.Name) || !t.DeletionTimestamp.IsZero() {
		return false
	}
	for _, m := range t.ManagedFields {
		if m.Operation == metav1.ManagedFieldsOperationApply {
			return false
		}
	}
	for name := range t.Labels {
		if name != v1alpha1.ManagedByLabel {
			return false
		}
	}
	return len(t.Annotations) == 0 && len(t.OwnerReferences) == 0 && len(t.Finalizers) == 0
}

// TemplatesOf are the templates of admission that a pod refers to.
func TemplatesOf(spec *corev1.PodSpec) []string {
	return slices.DeleteFunc(AllTemplates(spec), func(name string) bool { return !translate.MadeTemplate(name) })
}

// AllTemplates are those that a pod refers to.
func AllTemplates(spec *corev1.PodSpec) []string {
	var out []string
	for _, c := range spec.ResourceClaims {
		if c.ResourceClaimTemplateName != nil {
			out = append(out, *c.ResourceClaimTemplateName)
		}
	}
	return out
}

// ClassesIn are those that a claim asks for.
func ClassesIn(spec resourceapi.ResourceClaimSpec) []string {
	var out []string
	for _, r := range spec.Devices.Requests {
		if r.Exactly != nil {
			out = append(out, r.Exactly.DeviceClassName)
		}
		for _, sub := range r.FirstAvailable {
			out = append(out, sub.DeviceClassName)
		}
	}
	return out
}
