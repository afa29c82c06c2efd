// Package installation reads from the arguments of nadra's own workloads how nadra runs in a
// cluster, and deletes the objects that its controller and admission created. All commands read it
// here, so that they take the same cluster for the same.
package installation

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubectl/pkg/util/podutils"

	"github.com/nadra-dev/nadra/pkg/admission"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// Names of nadra's containers, by which its workloads are recognized.
const (
	DriverContainer     = "nadra-node"
	ControllerContainer = "nadra-controller"
)

// WebhookService is the Service of the controller's webhooks.
const WebhookService = "nadra-webhook"

// besideFlag is the flag of both programs for nodes on which Multus stays.
const besideFlag = "beside-multus"

// Program is a workload that runs one of nadra's programs.
type Program struct {
	Namespace, Name string
	Args            []string
	created         metav1.Time
}

// String returns namespace/name.
func (p *Program) String() string { return p.Namespace + "/" + p.Name }

// Flag returns the value of a flag, or otherwise if the program is missing or does not have the flag. If the flag is there
// twice, the last one counts, as it does for the program.
func (p *Program) Flag(name, otherwise string) string {
	if p == nil {
		return otherwise
	}
	for _, arg := range slices.Backward(p.Args) {
		if flag, value, _ := strings.Cut(strings.TrimLeft(arg, "-"), "="); flag == name && strings.HasPrefix(arg, "-") {
			return value
		}
	}
	return otherwise
}

// On reports whether a flag without a value, or with a true one, is set.
func (p *Program) On(name string) bool {
	value := p.Flag(name, "false")
	on, err := strconv.ParseBool(value)
	return value == "" || err == nil && on
}

// containerArgs returns the arguments of a container, and false if the pod does not
// have it.
func containerArgs(spec *corev1.PodSpec, container string) ([]string, bool) {
	i := slices.IndexFunc(spec.Containers, func(c corev1.Container) bool { return c.Name == container })
	if i < 0 {
		return nil, false
	}
	return spec.Containers[i].Args, true
}

// DriverReady reports whether a pod runs the driver, of a DaemonSet in a namespace, and is ready. A tenant's pod may have
// everything that the driver's has, except for the namespace.
func DriverReady(pod *corev1.Pod, namespace string) bool {
	_, is := containerArgs(&pod.Spec, DriverContainer)
	owner := metav1.GetControllerOf(pod)
	return is && pod.Namespace == namespace && owner != nil && owner.Kind == "DaemonSet" && podutils.IsPodReady(pod)
}

// Settings are the programs of an installation. Each is nil if it is missing.
type Settings struct {
	Driver, Controller *Program
}

// Of finds nadra's programs among workloads.
func Of(daemonSets []appsv1.DaemonSet, deployments []appsv1.Deployment) Settings {
	var s Settings
	for i := range daemonSets {
		s.Add(&daemonSets[i])
	}
	for i := range deployments {
		s.Add(&deployments[i])
	}
	return s
}

// Add sets the driver if a DaemonSet runs it, or the controller if a Deployment does, and reports whether the workload does.
// A tenant may have a workload with such a container, too, and cannot make it the oldest, so only an older one takes another's place.
func (s *Settings) Add(workload metav1.Object) bool {
	program, spec, container := &s.Driver, (*corev1.PodSpec)(nil), DriverContainer
	switch w := workload.(type) {
	case *appsv1.DaemonSet:
		spec = &w.Spec.Template.Spec
	case *appsv1.Deployment:
		program, spec, container = &s.Controller, &w.Spec.Template.Spec, ControllerContainer
	}
	created := workload.GetCreationTimestamp()
	args, found := containerArgs(spec, container)
	if !found || *program != nil && !created.Before(&(*program).created) {
		return false
	}
	*program = &Program{Namespace: workload.GetNamespace(), Name: workload.GetName(), Args: args, created: created}
	return true
}

// Complete reports whether both programs are installed.
func (s Settings) Complete() bool { return s.Driver != nil && s.Controller != nil }

// BesideMultus reports whether Multus stays on nadra's nodes. The webhook decides which pods nadra serves, so
// the controller's flag counts, and the driver's where there is no controller.
func (s Settings) BesideMultus() bool {
	if s.Controller != nil {
		return s.Controller.On(besideFlag)
	}
	return s.Driver.On(besideFlag)
}

// Contradiction reports whether only one of the two programs has the flag --beside-multus.
func (s Settings) Contradiction() bool {
	return s.Complete() && s.Driver.On(besideFlag) != s.Controller.On(besideFlag)
}

// Labelled reports whether the driver serves labelled nodes only.
func (s Settings) Labelled() bool { return s.Driver.Flag("owned-nodes", "") == "labelled" }

// DefaultOwner returns the owner of pods that no label assigns to an owner.
func (s Settings) DefaultOwner() string {
	return cmp.Or(s.Controller.Flag("default-owner", ""), v1alpha1.OwnerMultus)
}

// Pools reports whether nadra serves resource pools: beside Multus only if the controller's flags say so.
func (s Settings) Pools() bool {
	if value := s.Controller.Flag("pools", "unset"); value != "unset" {
		return s.Controller.On("pools")
	}
	return !s.BesideMultus()
}

// Admission returns the options by which the webhook decides who serves a pod.
func (s Settings) Admission() admission.Options {
	return admission.Options{DefaultOwner: s.DefaultOwner(), BesideMultus: s.BesideMultus(), Pools: s.Pools()}
}
