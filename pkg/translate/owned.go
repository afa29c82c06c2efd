package translate

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// Managed reports whether the controller or admission created an object.
func Managed(o metav1.Object) bool {
	return o.GetLabels()[v1alpha1.ManagedByLabel] == v1alpha1.Controller
}

// Collectable reports whether admission created a template, and it is unmodified. It
// reports false for a template that was applied from a manifest, too, because a conversion
// gives equal templates equal names: its workload needs it even without pods.
func Collectable(t *resourceapi.ResourceClaimTemplate) bool {
	if !Managed(t) || !MadeTemplate(t.Name) || !t.DeletionTimestamp.IsZero() {
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

// TemplatesOf returns the templates of admission that a pod refers to.
func TemplatesOf(spec *corev1.PodSpec) []string {
	return slices.DeleteFunc(AllTemplates(spec), func(name string) bool { return !MadeTemplate(name) })
}

// AllTemplates returns the templates that a pod refers to.
func AllTemplates(spec *corev1.PodSpec) []string {
	var out []string
	for _, c := range spec.ResourceClaims {
		if c.ResourceClaimTemplateName != nil {
			out = append(out, *c.ResourceClaimTemplateName)
		}
	}
	return out
}

// ClassesIn returns the DeviceClasses that a claim requests.
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
