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

// object returns an Object with the resource of its kind.
func object(kind, group, version, namespace, name string) Object {
	resource := strings.ToLower(kind) + "s"
	if strings.HasSuffix(kind, "Policy") {
		resource = strings.TrimSuffix(strings.ToLower(kind), "y") + "ies"
	}
	if strings.HasSuffix(kind, "Class") {
		resource = strings.ToLower(kind) + "es"
	}
	return Object{kind, schema.GroupVersionResource{Group: group, Version: version, Resource: resource}, namespace, name}
}

// API groups.
const (
	admissionGroup = "admissionregistration.k8s.io"
	rbacGroup      = "rbac.authorization.k8s.io"
	certGroup      = "cert-manager.io"
)

// Webhooks returns the objects to delete first: without them no new pod becomes nadra's.
func (n Namespaces) Webhooks() []Object {
	return []Object{
		object("MutatingWebhookConfiguration", admissionGroup, "v1", "", controller),
		object("ValidatingWebhookConfiguration", admissionGroup, "v1", "", controller),
	}
}

// ControllerObjects returns what runs the controller, and what would recreate its Secret.
func (n Namespaces) ControllerObjects() []Object {
	return []Object{
		object("Deployment", "apps", "v1", n.Controller, controller),
		object("Deployment", "apps", "v1", n.Controller, certificates),
		object("PodDisruptionBudget", "policy", "v1", n.Controller, controller),
		object("Service", "", "v1", n.Controller, "nadra-webhook"),
		object("Certificate", certGroup, "v1", n.Controller, "nadra-webhook"),
		object("Issuer", certGroup, "v1", n.Controller, "nadra-webhook"),
		object("Job", "batch", "v1", n.Controller, job),
		object("Lease", "coordination.k8s.io", "v1", n.Controller, controller),
	}
}

// DriverObjects returns what runs the driver, and the DeviceClass of its devices.
func (n Namespaces) DriverObjects() []Object {
	return []Object{
		object("DeviceClass", "resource.k8s.io", "v1", "", v1alpha1.DriverName),
		object("DaemonSet", "apps", "v1", n.Driver, Driver),
	}
}

// Rights returns what is left, besides the namespaces, when nothing runs any more.
func (n Namespaces) Rights() []Object {
	var out []Object
	for _, name := range []string{"nadra-node", "nadra-slices", "nadra-pod-status", "nadra-claim-status", "nadra-classes", "nadra-templates", certificates} {
		out = append(out, object("ValidatingAdmissionPolicyBinding", admissionGroup, "v1", "", name),
			object("ValidatingAdmissionPolicy", admissionGroup, "v1", "", name))
	}
	for _, account := range []struct{ name, namespace, roles string }{
		{controller, n.Controller, n.Controller}, {certificates, n.Controller, n.Controller}, {job, n.Controller, n.Controller}, {Driver, n.Driver, poolConfigs},
	} {
		out = append(out, object("ClusterRoleBinding", rbacGroup, "v1", "", account.name), object("ClusterRole", rbacGroup, "v1", "", account.name),
			object("RoleBinding", rbacGroup, "v1", account.roles, account.name), object("Role", rbacGroup, "v1", account.roles, account.name),
			object("ServiceAccount", "", "v1", account.namespace, account.name))
	}
	return append(out, object("ConfigMap", "", "v1", n.Controller, "nadra-upgrade"), object("Lease", "coordination.k8s.io", "v1", n.Controller, "nadra-upgrade"))
}

// Last returns the namespaces. Pods on nodes run in the driver's.
func (n Namespaces) Last() []Object {
	return []Object{object("Namespace", "", "v1", "", n.Controller), object("Namespace", "", "v1", "", n.Driver)}
}

// All returns all objects.
func (n Namespaces) All() []Object {
	var out []Object
	for _, part := range [][]Object{n.Webhooks(), n.ControllerObjects(), n.DriverObjects(), n.Rights(), n.Last()} {
		out = append(out, part...)
	}
	return out
}
