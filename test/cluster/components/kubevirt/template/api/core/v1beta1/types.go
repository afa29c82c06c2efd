// Package v1beta1 has of KubeVirt's templates what virt-api and virt-controller compile with.
package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ConditionReady is the type of the condition of a template that can be used.
const ConditionReady = "Ready"

// VirtualMachineTemplate is a template for virtual machines.
type VirtualMachineTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   VirtualMachineTemplateSpec   `json:"spec"`
	Status VirtualMachineTemplateStatus `json:"status,omitempty"`
}

// VirtualMachineTemplateSpec has a machine with the parameters in it.
type VirtualMachineTemplateSpec struct {
	VirtualMachine *runtime.RawExtension `json:"virtualMachine,omitempty"`
	Parameters     []Parameter           `json:"parameters,omitempty"`
}

// Parameter is a value that a template's user may give.
type Parameter struct {
	Name  string `json:"name"`
	Value string `json:"value,omitempty"`
}

// VirtualMachineTemplateStatus says whether a template can be used.
type VirtualMachineTemplateStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// DeepCopy copies the template.
func (t *VirtualMachineTemplate) DeepCopy() *VirtualMachineTemplate {
	out := *t
	t.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	if t.Spec.VirtualMachine != nil {
		out.Spec.VirtualMachine = t.Spec.VirtualMachine.DeepCopy()
	}
	out.Spec.Parameters = append([]Parameter(nil), t.Spec.Parameters...)
	out.Status.Conditions = append([]metav1.Condition(nil), t.Status.Conditions...)
	return &out
}

// DeepCopyObject copies the template.
func (t *VirtualMachineTemplate) DeepCopyObject() runtime.Object { return t.DeepCopy() }
