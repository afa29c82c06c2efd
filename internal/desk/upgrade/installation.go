package upgrade

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/internal/installation"
)

// readInstallation reads the settings of nadra's driver and controller.
func (f *Facts) readInstallation(o *Objects) {
	s := installation.Of(o.DaemonSets, o.Deployments)
	f.Installed, f.Labelled, f.DefaultOwner = s.Complete(), s.Labelled(), s.DefaultOwner()
	f.BesideMultus = s.BesideMultus()
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
