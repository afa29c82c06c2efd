package uninstall

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// Object identifies an object that the manifests install.
type Object struct {
	Kind            string
	Resource        schema.GroupVersionResource
	Namespace, Name string
}

// String returns kind and name.
func (o Object) String() string {
	if o.Namespace == "" {
		return o.Kind + " " + o.Name
	}
	return o.Kind + " " + o.Namespace + "/" + o.Name
}

// Names of objects that the manifests install.
const (
	Driver       = "nadra-node"
	controller   = v1alpha1.Controller
	certificates = "nadra-certificates"
	job          = "nadra-uninstall"
)

// poolConfigs is the namespace of the device plugins' ConfigMaps that the driver
// may read.
const poolConfigs = "kube-system"

// Namespaces are the namespaces of an installation.
type Namespaces struct{ Driver, Controller string }

// object returns an Object with the resource of its kind, of version v1.
func object(kind, group, namespace, name string) Object {
	resource := strings.ToLower(kind)
	switch {
	case strings.HasSuffix(kind, "Policy"):
		resource = strings.TrimSuffix(resource, "y") + "ies"
	case strings.HasSuffix(kind, "Class"):
		resource += "es"
	case !strings.HasSuffix(kind, "Constraints"):
		resource += "s"
	}
	return Object{kind, schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}, namespace, name}
}

// API groups.
const (
	admissionGroup = "admissionregistration.k8s.io"
	rbacGroup      = "rbac.authorization.k8s.io"
	certGroup      = "cert-manager.io"
	openShiftGroup = "security.openshift.io"
)

// Webhooks returns the objects to delete first: without them no new pod becomes nadra's.
func (n Namespaces) Webhooks() []Object {
	return []Object{
		object("MutatingWebhookConfiguration", admissionGroup, "", controller),
		object("ValidatingWebhookConfiguration", admissionGroup, "", controller),
	}
}

// ControllerObjects returns what runs the controller, and what would recreate its Secret.
func (n Namespaces) ControllerObjects() []Object {
	return []Object{
		object("Deployment", "apps", n.Controller, controller),
		object("Deployment", "apps", n.Controller, certificates),
		object("PodDisruptionBudget", "policy", n.Controller, controller),
		object("Service", "", n.Controller, "nadra-webhook"),
		object("Certificate", certGroup, n.Controller, "nadra-webhook"),
		object("Issuer", certGroup, n.Controller, "nadra-webhook"),
		object("Job", "batch", n.Controller, job),
		object("Lease", "coordination.k8s.io", n.Controller, controller),
	}
}

// DriverObjects returns what runs the driver, and the DeviceClass of its devices.
func (n Namespaces) DriverObjects() []Object {
	return []Object{
		object("DeviceClass", "resource.k8s.io", "", v1alpha1.DriverName),
		object("DaemonSet", "apps", n.Driver, Driver),
	}
}

// Rights returns what is left, besides the namespaces, when nothing runs any more.
func (n Namespaces) Rights() []Object {
	var out []Object
	for _, name := range []string{"nadra-node", "nadra-slices", "nadra-pod-status", "nadra-claim-status", "nadra-classes", "nadra-templates", certificates} {
		out = append(out, object("ValidatingAdmissionPolicyBinding", admissionGroup, "", name),
			object("ValidatingAdmissionPolicy", admissionGroup, "", name))
	}
	for _, account := range []struct{ name, namespace, roles string }{
		{controller, n.Controller, n.Controller}, {certificates, n.Controller, n.Controller}, {job, n.Controller, n.Controller}, {Driver, n.Driver, poolConfigs},
	} {
		out = append(out, object("ClusterRoleBinding", rbacGroup, "", account.name), object("ClusterRole", rbacGroup, "", account.name),
			object("RoleBinding", rbacGroup, account.roles, account.name), object("Role", rbacGroup, account.roles, account.name),
			object("ServiceAccount", "", account.namespace, account.name))
	}
	out = append(out, object("SecurityContextConstraints", openShiftGroup, "", Driver),
		object("RoleBinding", rbacGroup, n.Driver, "nadra-node-scc"), object("Role", rbacGroup, n.Driver, "nadra-node-scc"),
		object("RoleBinding", rbacGroup, n.Controller, "nadra-controller-scc"))
	return append(out, object("ConfigMap", "", n.Controller, "nadra-upgrade"), object("Lease", "coordination.k8s.io", n.Controller, "nadra-upgrade"))
}

// Last returns the namespaces. Pods on nodes run in the driver's.
func (n Namespaces) Last() []Object {
	return []Object{object("Namespace", "", "", n.Controller), object("Namespace", "", "", n.Driver)}
}
