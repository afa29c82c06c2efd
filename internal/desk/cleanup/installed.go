package cleanup

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// object identifies an object that the manifests install.
type object struct {
	Kind            string
	Resource        schema.GroupVersionResource
	Namespace, Name string
}

// String returns kind and name.
func (o object) String() string {
	if o.Namespace == "" {
		return o.Kind + " " + o.Name
	}
	return o.Kind + " " + o.Namespace + "/" + o.Name
}

// Names of objects that the manifests install.
const (
	driver       = "nadra-node"
	controller   = v1alpha1.Controller
	certificates = "nadra-certificates"
	job          = "nadra-uninstall"
)

// poolConfigs is the namespace of the device plugins' ConfigMaps that the driver
// may read.
const poolConfigs = "kube-system"

// Namespaces are the namespaces of an installation.
type Namespaces struct{ Driver, Controller string }

// objectOf returns an object with the resource of its kind, of version v1.
func objectOf(kind, group, namespace, name string) object {
	resource := strings.ToLower(kind)
	switch {
	case strings.HasSuffix(kind, "Policy"):
		resource = strings.TrimSuffix(resource, "y") + "ies"
	case strings.HasSuffix(kind, "Class"):
		resource += "es"
	case !strings.HasSuffix(kind, "Constraints"):
		resource += "s"
	}
	return object{kind, schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}, namespace, name}
}

// API groups.
const (
	admissionGroup = "admissionregistration.k8s.io"
	rbacGroup      = "rbac.authorization.k8s.io"
	certGroup      = "cert-manager.io"
	openShiftGroup = "security.openshift.io"
)

// webhooks returns the objects to delete first: without them no new pod becomes nadra's.
func (n Namespaces) webhooks() []object {
	return []object{
		objectOf("MutatingWebhookConfiguration", admissionGroup, "", controller),
		objectOf("ValidatingWebhookConfiguration", admissionGroup, "", controller),
	}
}

// controllerObjects returns what runs the controller, and what would recreate its Secret.
func (n Namespaces) controllerObjects() []object {
	return []object{
		objectOf("Deployment", "apps", n.Controller, controller),
		objectOf("Deployment", "apps", n.Controller, certificates),
		objectOf("PodDisruptionBudget", "policy", n.Controller, controller),
		objectOf("Service", "", n.Controller, "nadra-webhook"),
		objectOf("Certificate", certGroup, n.Controller, "nadra-webhook"),
		objectOf("Issuer", certGroup, n.Controller, "nadra-webhook"),
		objectOf("Job", "batch", n.Controller, job),
		objectOf("Lease", "coordination.k8s.io", n.Controller, controller),
	}
}

// driverObjects returns what runs the driver, and the DeviceClass of its devices.
func (n Namespaces) driverObjects() []object {
	return []object{
		objectOf("DeviceClass", "resource.k8s.io", "", v1alpha1.DriverName),
		objectOf("DaemonSet", "apps", n.Driver, driver),
	}
}

// rights returns what is left, besides the namespaces, when nothing runs any more.
func (n Namespaces) rights() []object {
	var out []object
	for _, name := range []string{"nadra-node", "nadra-slices", "nadra-profile", "nadra-pod-status", "nadra-claim-status", "nadra-classes", "nadra-templates", certificates} {
		out = append(out, objectOf("ValidatingAdmissionPolicyBinding", admissionGroup, "", name),
			objectOf("ValidatingAdmissionPolicy", admissionGroup, "", name))
	}
	for _, account := range []struct{ name, namespace, roles string }{
		{controller, n.Controller, n.Controller}, {certificates, n.Controller, n.Controller}, {job, n.Controller, n.Controller}, {driver, n.Driver, poolConfigs},
	} {
		out = append(out, objectOf("ClusterRoleBinding", rbacGroup, "", account.name), objectOf("ClusterRole", rbacGroup, "", account.name),
			objectOf("RoleBinding", rbacGroup, account.roles, account.name), objectOf("Role", rbacGroup, account.roles, account.name),
			objectOf("ServiceAccount", "", account.namespace, account.name))
	}
	out = append(out, objectOf("ClusterRoleBinding", rbacGroup, "", "nadra-profile"), objectOf("ClusterRole", rbacGroup, "", "nadra-profile"))
	out = append(out, objectOf("SecurityContextConstraints", openShiftGroup, "", driver),
		objectOf("RoleBinding", rbacGroup, n.Driver, "nadra-node-scc"), objectOf("Role", rbacGroup, n.Driver, "nadra-node-scc"),
		objectOf("RoleBinding", rbacGroup, n.Controller, "nadra-controller-scc"))
	return append(out, objectOf("ConfigMap", "", n.Controller, "nadra-upgrade"), objectOf("Lease", "coordination.k8s.io", n.Controller, "nadra-upgrade"))
}

// last returns the namespaces. Pods on nodes run in the driver's.
func (n Namespaces) last() []object {
	return []object{objectOf("Namespace", "", "", n.Controller), objectOf("Namespace", "", "", n.Driver)}
}
