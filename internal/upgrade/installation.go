package upgrade

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Names of nadra's containers, by which its workloads are recognized.
const (
	DriverContainer     = "nadra-node"
	controllerContainer = "nadra-controller"
)

// readInstallation finds nadra's driver and controller, and reads their settings.
func (f *Facts) readInstallation(o *Objects) {
	driver, controller := false, false
	for i := range o.DaemonSets {
		if args, found := ContainerArgs(&o.DaemonSets[i].Spec.Template.Spec, DriverContainer); found {
			driver = true
			f.Labelled = flagOf(args, "owned-nodes") == "labelled"
		}
	}
	for i := range o.Deployments {
		if args, found := ContainerArgs(&o.Deployments[i].Spec.Template.Spec, controllerContainer); found {
			controller = true
			if owner := flagOf(args, "default-owner"); owner != "" {
				f.DefaultOwner = owner
			}
		}
	}
	f.Installed = driver && controller
}

// ContainerArgs returns the arguments of a container, and false if the pod does not
// have it.
func ContainerArgs(spec *corev1.PodSpec, container string) ([]string, bool) {
	i := slices.IndexFunc(spec.Containers, func(c corev1.Container) bool { return c.Name == container })
	if i < 0 {
		return nil, false
	}
	return spec.Containers[i].Args, true
}

func flagOf(args []string, name string) string {
	for _, arg := range args {
		if key, value, _ := strings.Cut(strings.TrimLeft(arg, "-"), "="); key == name {
			return value
		}
	}
	return ""
}

// managers revert the changes of others. Each is recognized by a label or an
// annotation of the objects that it manages.
var managers = []struct{ key, value, name string }{
	{"argocd.argoproj.io/tracking-id", "", "Argo CD"},
	{"argocd.argoproj.io/instance", "", "Argo CD"},
	{"kustomize.toolkit.fluxcd.io/name", "", "Flux"},
	{"helm.toolkit.fluxcd.io/name", "", "Flux"},
	{"objectset.rio.cattle.io/id", "", "the deploy controller of K3s or RKE2"},
	{"addonmanager.kubernetes.io/mode", "Reconcile", "the addon manager"},
	{"operator.tigera.io/managed-by", "", "the Tigera operator"},
}

// managerOf returns the name of the manager that would revert a change of a
// DaemonSet; empty if none is known.
func (o *Objects) managerOf(ref MultusRef) string {
	for i := range o.DaemonSets {
		d := &o.DaemonSets[i]
		if d.Namespace != ref.Namespace || d.Name != ref.DaemonSet {
			continue
		}
		if owner := metav1.GetControllerOf(d); owner != nil {
			return owner.Kind + " " + owner.Name
		}
		if len(d.OwnerReferences) > 0 {
			return d.OwnerReferences[0].Kind + " " + d.OwnerReferences[0].Name
		}
		for _, m := range managers {
			for _, of := range []map[string]string{d.Labels, d.Annotations} {
				if value, has := of[m.key]; has && (m.value == "" || m.value == value) {
					return m.name
				}
			}
		}
	}
	return ""
}
