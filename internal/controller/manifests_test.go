package controller_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/nadra-dev/nadra/internal/controller"
	"github.com/nadra-dev/nadra/internal/webhook"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

const namespace = "nadra-system"

func render(t *testing.T, overlay string) resmap.ResMap {
	t.Helper()
	objects, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), "../../manifests/"+overlay)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// read returns the object with a kind and name, which must exist.
func read[T any](t *testing.T, objects resmap.ResMap, kind, name string) *T {
	t.Helper()
	for _, r := range objects.Resources() {
		if r.GetKind() != kind || r.GetName() != name {
			continue
		}
		text, err := r.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		out := new(T)
		if err := yaml.UnmarshalStrict(text, out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	t.Fatalf("there is no %s %s", kind, name)
	return nil
}

// TestManifestsNameWhatTheProgramHas checks that the manifests have the paths and names of the program.
func TestManifestsNameWhatTheProgramHas(t *testing.T) {
	objects := render(t, "drop-in")
	mutating := read[admissionv1.MutatingWebhookConfiguration](t, objects, "MutatingWebhookConfiguration", controller.Name)
	validating := read[admissionv1.ValidatingWebhookConfiguration](t, objects, "ValidatingWebhookConfiguration", controller.Name)
	is := func(c admissionv1.WebhookClientConfig, path string) {
		t.Helper()
		if s := c.Service; s == nil || s.Namespace != namespace || s.Name != controller.Service || *s.Path != path {
			t.Errorf("a webhook is called at %v, want %s of service %s/%s", s, path, namespace, controller.Service)
		}
	}
	for _, w := range mutating.Webhooks {
		is(w.ClientConfig, webhook.MutatePodsPath)
		failure := admissionv1.Fail
		if w.Name == "claiming-pods.nadra.dev" || w.Name == "late-networks.nadra.dev" { // most of these pods have no networks
			failure = admissionv1.Ignore
		}
		if *w.FailurePolicy != failure || *w.ReinvocationPolicy != admissionv1.IfNeededReinvocationPolicy || *w.SideEffects != admissionv1.SideEffectClassNone {
			t.Errorf("webhook %s: %s, %s, %s", w.Name, *w.FailurePolicy, *w.ReinvocationPolicy, *w.SideEffects)
		}
	}
	for _, w := range validating.Webhooks {
		is(w.ClientConfig, webhook.ValidateClaimsPath)
	}
	if len(validating.Webhooks) != 3 {
		t.Errorf("%d webhooks validate claims, templates and classes", len(validating.Webhooks))
	}
	read[corev1.Service](t, objects, "Service", controller.Service)
	role := read[rbacv1.Role](t, objects, "Role", "nadra-certificates")
	if !slices.ContainsFunc(role.Rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.ResourceNames, controller.Secret) }) {
		t.Errorf("nadra-certificates may not write the Secret %s", controller.Secret)
	}
	pod := read[appsv1.Deployment](t, objects, "Deployment", controller.Name).Spec.Template.Spec
	if l := pod.Containers[0].Lifecycle; l == nil || l.PreStop.Sleep.Seconds < 5 {
		t.Error("a replica that ends refuses API servers that do not know it yet")
	}
	if v := pod.Volumes[0].Secret; v.SecretName != controller.Secret || v.Optional != nil || len(v.Items) != 2 {
		t.Errorf("the controller has the certificate of %v", v)
	}
}

// TestLateAnnotation checks that a webhook is called for each pod of a namespace of nadra that has no claim,
// whether or not it has the annotation: the API server calls it again when another webhook has added that.
func TestLateAnnotation(t *testing.T) {
	mutating := read[admissionv1.MutatingWebhookConfiguration](t, render(t, "drop-in"), "MutatingWebhookConfiguration", controller.Name)
	i := slices.IndexFunc(mutating.Webhooks, func(w admissionv1.MutatingWebhook) bool { return w.Name == "late-networks.nadra.dev" })
	if i < 0 {
		t.Fatal("no webhook is called for pods without the annotation")
	}
	w := mutating.Webhooks[i]
	if w.ObjectSelector != nil || *w.ReinvocationPolicy != admissionv1.IfNeededReinvocationPolicy {
		t.Errorf("webhook %s is not called again for all pods: %v, %v", w.Name, w.ObjectSelector, *w.ReinvocationPolicy)
	}
	for _, c := range w.MatchConditions {
		if strings.Contains(c.Expression, attachment.NetworksAnnotation) || strings.Contains(c.Expression, attachment.OwnNetworksAnnotation) {
			t.Errorf("condition %s goes by the annotation: %s", c.Name, c.Expression)
		}
	}
	owned := metav1.LabelSelectorRequirement{Key: v1alpha1.OwnerLabel, Operator: metav1.LabelSelectorOpIn, Values: []string{v1alpha1.OwnerNadra}}
	if got := w.NamespaceSelector.MatchExpressions; len(got) != 2 || got[1].String() != owned.String() {
		t.Errorf("it is called for namespaces %v, want %v", got, owned)
	}
}

// TestManifestsAreLeast checks that the controller needs no root and has only the rights that it uses.
func TestManifestsAreLeast(t *testing.T) {
	objects := render(t, "drop-in")
	for _, name := range []string{controller.Name, "nadra-certificates"} {
		pod := read[appsv1.Deployment](t, objects, "Deployment", name).Spec.Template.Spec
		if s := pod.SecurityContext; !*s.RunAsNonRoot || *s.RunAsUser == 0 || pod.HostNetwork {
			t.Errorf("the pod of %s runs with %v", name, s)
		}
		for _, c := range pod.Containers {
			if s := c.SecurityContext; !*s.ReadOnlyRootFilesystem || *s.AllowPrivilegeEscalation || !slices.Contains(s.Capabilities.Drop, "ALL") {
				t.Errorf("container %s runs with %v", c.Name, s)
			}
		}
	}
	if ns := read[corev1.Namespace](t, objects, "Namespace", namespace); ns.Labels["pod-security.kubernetes.io/enforce"] != "restricted" {
		t.Errorf("the namespace has labels %v", ns.Labels)
	}
	for _, rule := range slices.Concat(read[rbacv1.ClusterRole](t, objects, "ClusterRole", controller.Name).Rules, read[rbacv1.Role](t, objects, "Role", controller.Name).Rules) {
		for _, far := range []string{"*", "secrets", "mutatingwebhookconfigurations", "validatingwebhookconfigurations"} {
			if slices.Contains(rule.Verbs, far) || slices.Contains(rule.Resources, far) {
				t.Errorf("the controller has %v", rule)
			}
		}
	}
}

// TestDriverHasNoOtherRights checks each right of the driver: what it may do to which objects. An addition needs a line here.
func TestDriverHasNoOtherRights(t *testing.T) {
	want := []string{
		"arbitrary-node:patch,arbitrary-node:update resource.k8s.io/resourceclaims/driver net.nadra.dev",
		"associated-node:patch,associated-node:update resource.k8s.io/resourceclaims/driver net.nadra.dev",
		"create,patch /events",
		"get resource.k8s.io/resourceclaims",
		"get,list,watch /configmaps sriovdp-config rdma-devices in kube-system",
		"get,list,watch /nodes",
		"get,list,watch /pods",
		"get,list,watch k8s.cni.cncf.io/network-attachment-definitions",
		"get,list,watch,create,update,patch,delete resource.k8s.io/resourceslices",
		"list,watch /namespaces",
		"patch /nodes",
		"patch /pods/status",
		"patch,update resource.k8s.io/resourceclaims/status",
	}
	objects := render(t, "drop-in")
	var got []string
	for _, bound := range objects.Resources() {
		if !strings.HasSuffix(bound.GetKind(), "RoleBinding") {
			continue
		}
		binding := read[rbacv1.RoleBinding](t, objects, bound.GetKind(), bound.GetName())
		if !slices.ContainsFunc(binding.Subjects, func(s rbacv1.Subject) bool { return s.Name == "nadra-node" }) {
			continue
		}
		where := ""
		if binding.Namespace != "" {
			where = " in " + binding.Namespace
		}
		for _, r := range read[rbacv1.ClusterRole](t, objects, binding.RoleRef.Kind, binding.RoleRef.Name).Rules {
			words := []string{strings.Join(r.Verbs, ","), strings.Join(r.APIGroups, ",") + "/" + strings.Join(r.Resources, ",")}
			got = append(got, strings.Join(append(words, r.ResourceNames...), " ")+where)
		}
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the driver's rights (-want +got):\n%s", diff)
	}
}

// TestManifestsOfCertManager checks that cert-manager creates the same Secret and bundle as the controller.
func TestManifestsOfCertManager(t *testing.T) {
	objects := render(t, "../build/release/overlays/drop-in-cert-manager")
	certificate := read[struct {
		APIVersion, Kind string
		Metadata         map[string]any
		Spec             struct {
			SecretName string
			DNSNames   []string `json:"dnsNames"`
			PrivateKey map[string]any
			IssuerRef  map[string]any
		}
	}](t, objects, "Certificate", controller.Service)
	host := controller.Service + "." + namespace + ".svc"
	if certificate.Spec.SecretName != controller.Secret || !slices.Contains(certificate.Spec.DNSNames, host) {
		t.Errorf("the certificate is for %v, in %s", certificate.Spec.DNSNames, certificate.Spec.SecretName)
	}
	mutating := read[admissionv1.MutatingWebhookConfiguration](t, objects, "MutatingWebhookConfiguration", controller.Name)
	validating := read[admissionv1.ValidatingWebhookConfiguration](t, objects, "ValidatingWebhookConfiguration", controller.Name)
	for _, annotations := range []map[string]string{mutating.Annotations, validating.Annotations} {
		if annotations["cert-manager.io/inject-ca-from"] != namespace+"/"+controller.Service {
			t.Errorf("the CA is injected by %v", annotations)
		}
	}
	for _, r := range objects.Resources() {
		if r.GetName() == "nadra-certificates" {
			t.Errorf("%s maintains the certificate, too", r.GetKind())
		}
	}
}
