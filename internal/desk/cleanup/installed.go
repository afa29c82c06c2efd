package cleanup

import "k8s.io/apimachinery/pkg/runtime/schema"

// partOf and nadra are the label that all objects of the manifests and of the chart have.
const (
	partOf = "app.kubernetes.io/part-of"
	nadra  = "nadra"
)

// driver is the name of the driver's DaemonSet.
const driver = "nadra-node"

// Namespaces are the namespaces of an installation.
type Namespaces struct{ Driver, Controller string }

// kind is a kind of version v1. A cluster may not have it.
type kind struct{ group, name string }

// gvk returns the kind for clients.
func (k kind) gvk() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: k.group, Version: "v1", Kind: k.name}
}

// API groups.
const (
	admissionGroup = "admissionregistration.k8s.io"
	rbacGroup      = "rbac.authorization.k8s.io"
	certGroup      = "cert-manager.io"
)

// The kinds of the objects that the manifests install, in the order in which they are deleted. The namespaces are the last.
var (
	// webhooks are the first: without them no new pod becomes nadra's.
	webhooks = []kind{{admissionGroup, "MutatingWebhookConfiguration"}, {admissionGroup, "ValidatingWebhookConfiguration"}}
	// controllerKinds are what runs the controller, and what would recreate its Secret.
	controllerKinds = []kind{
		{"apps", "Deployment"},
		{"policy", "PodDisruptionBudget"},
		{"", "Service"},
		{"networking.k8s.io", "NetworkPolicy"},
		{certGroup, "Certificate"},
		{certGroup, "Issuer"},
		{"batch", "Job"},
	}
	classes     = []kind{{"resource.k8s.io", "DeviceClass"}}
	driverKinds = []kind{{"apps", "DaemonSet"}}
	// rights are what is left when nothing runs any more.
	rights = []kind{
		{admissionGroup, "ValidatingAdmissionPolicyBinding"},
		{admissionGroup, "ValidatingAdmissionPolicy"},
		{rbacGroup, "ClusterRoleBinding"},
		{rbacGroup, "ClusterRole"},
		{rbacGroup, "RoleBinding"},
		{rbacGroup, "Role"},
		{"", "ServiceAccount"},
		{"security.openshift.io", "SecurityContextConstraints"},
	}
)
