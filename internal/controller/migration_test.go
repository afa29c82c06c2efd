package controller

import (
	"testing"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nadra-dev/nadra/internal/metrics"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

const (
	onlyDefault = `[{"name":"cbr0","interface":"eth0","default":true}]`
	withNet1    = `[{"name":"cbr0","interface":"eth0","default":true},{"name":"a/blue","interface":"net1"}]`
)

// asking returns a running pod that names a network and has a network-status.
func asking(name, status string, changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "a", Name: name, UID: types.UID(name),
			Annotations: map[string]string{attachment.NetworksAnnotation: "blue", "k8s.v1.cni.cncf.io/network-status": status},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for _, change := range changes {
		change(pod)
	}
	return pod
}

func claims(template string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, corev1.PodResourceClaim{Name: template, ResourceClaimTemplateName: &template})
	}
}

// statusByDriver has nadra's driver write the pod's network-status.
func statusByDriver(p *corev1.Pod) {
	p.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: v1alpha1.DriverName, FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{"f:k8s.v1.cni.cncf.io/network-status":{}}}}`),
	}}
}

// ownAnnotation moves the networks to nadra's own annotation.
func ownAnnotation(p *corev1.Pod) {
	p.Annotations[attachment.OwnNetworksAnnotation] = p.Annotations[attachment.NetworksAnnotation]
	delete(p.Annotations, attachment.NetworksAnnotation)
}

// extended gives the pod a claim for extended resources.
func extended(resources ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{}
		for _, r := range resources {
			p.Status.ExtendedResourceClaimStatus.RequestMappings = append(p.Status.ExtendedResourceClaimStatus.RequestMappings, corev1.ContainerExtendedResourceRequest{ResourceName: r})
		}
	}
}

func in(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase = phase }
}

func names(annotation string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations[attachment.NetworksAnnotation] = annotation }
}

func template(name, class string) *resourceapi.ResourceClaimTemplate {
	t := &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}}
	t.Spec.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "r", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: class}}}
	return t
}

func counted(t *testing.T, objects ...client.Object) (*migration, func() map[string]float64) {
	t.Helper()
	registry := prometheus.NewRegistry()
	meters, err := metrics.NewController(registry)
	if err != nil {
		t.Fatal(err)
	}
	return newMigration(cluster(objects...), podCache{}, meters, newDrivers(podCache{}, meters, nil, Options{})), func() map[string]float64 {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]float64{}
		for _, f := range families {
			for _, m := range f.Metric {
				if f.GetName() == "nadra_migration_pods" {
					out[m.Label[0].GetValue()] = m.GetGauge().GetValue()
				}
			}
		}
		return out
	}
}

// slim returns a pod as the cache has it.
func slim(t *testing.T, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	out, err := slimPod(pod)
	if err != nil {
		t.Fatal(err)
	}
	return out.(*corev1.Pod)
}

// described marks a pod whose annotation the webhook has written from its claims.
func described(p *corev1.Pod) { p.Annotations[v1alpha1.DescribedAnnotation] = "a/blue" }

// TestWhoAttaches checks what attaches a pod's networks, by the pod alone and by handwritten templates.
func TestWhoAttaches(t *testing.T) {
	const made = "nadra-0123456789"
	pool := &nadv1.NetworkAttachmentDefinition{ObjectMeta: metav1.ObjectMeta{
		Namespace: "a", Name: "vf", Annotations: map[string]string{"k8s.v1.cni.cncf.io/resourceName": "example.com/vf"},
	}}
	named := template("named", "net.nadra.dev")
	config := resourceapi.OpaqueDeviceConfiguration{Driver: "net.nadra.dev"}
	config.Parameters.Raw = []byte(`{"apiVersion": "nadra.dev/v1alpha1", "kind": "AttachmentConfig", "network": {"name": "blue"}}`)
	named.Spec.Spec.Devices.Config = []resourceapi.DeviceClaimConfiguration{{DeviceConfiguration: resourceapi.DeviceConfiguration{Opaque: &config}}}
	m, _ := counted(t, template("mine", "blue.a.nad.nadra.dev"), named, template("any", "net.nadra.dev"), template("gpu", "gpu.example.com"), pool)
	for name, tt := range map[string]struct {
		pod  *corev1.Pod
		want attachment.Attacher
	}{
		"converted":                                          {asking("p", "", claims(made), in(corev1.PodPending)), attachment.OfNadra},
		"converted and attached":                             {asking("p", withNet1, claims(made)), attachment.OfNadra},
		"an extended resource of a pool":                     {asking("p", withNet1, extended("nvidia.com/gpu", "example.com/vf")), attachment.OfNadra},
		"an extended resource of a network's class":          {asking("p", "", extended("deviceclass.resource.kubernetes.io/lan.default.nad.nadra.dev")), attachment.OfNadra},
		"an extended resource of no NAD":                     {asking("p", withNet1, extended("nvidia.com/gpu")), attachment.OfMultus},
		"an extended resource, not attached":                 {asking("p", onlyDefault, extended("nvidia.com/gpu")), attachment.OfNobody},
		"a claim by hand":                                    {asking("p", withNet1, claims("mine")), attachment.OfNadra},
		"a claim by hand that names the network":             {asking("p", withNet1, claims("gpu"), claims("named")), attachment.OfNadra},
		"a claim by hand of a device alone":                  {asking("p", withNet1, claims("any")), attachment.OfNadra},
		"attached by Multus":                                 {asking("p", withNet1), attachment.OfMultus},
		"attached by Multus, with a GPU":                     {asking("p", withNet1, claims("gpu"), claims("unknown")), attachment.OfMultus},
		"attached by nadra without a claim":                  {asking("p", withNet1, statusByDriver), attachment.OfNadra},
		"attached by nadra, with a GPU by a claim":           {asking("p", withNet1, statusByDriver, claims("gpu")), attachment.OfNadra},
		"in nadra's own annotation":                          {asking("p", "", in(corev1.PodPending), ownAnnotation), attachment.OfNadra},
		"the same, attached":                                 {asking("p", withNet1, ownAnnotation), attachment.OfNadra},
		"the same, with a claim":                             {asking("p", onlyDefault, ownAnnotation, claims("mine")), attachment.OfNadra},
		"the same, not attached":                             {asking("p", onlyDefault, ownAnnotation), attachment.OfNobody},
		"the same, without a status":                         {asking("p", "", ownAnnotation), attachment.OfNobody},
		"an empty list with a space":                         {asking("p", onlyDefault, names("[ ]")), ""},
		"left to Multus":                                     {asking("p", "", in(corev1.PodPending)), attachment.OfMultus},
		"not attached":                                       {asking("p", onlyDefault), attachment.OfNobody},
		"attached by an early Multus, without its namespace": {asking("p", `[{"name":"cbr0","default":true},{"name":"blue","interface":"net1"}]`), attachment.OfMultus},
		"not attached, the default one not marked":           {asking("p", `[{"name":"cbr0","interface":"eth0"}]`), attachment.OfNobody},
		"without a status":                                   {asking("p", ""), attachment.OfNobody},
		"with an invalid status":                             {asking("p", "{"), attachment.OfNobody},
		"a broken annotation":                                {asking("p", "", names("[{")), attachment.OfNobody},
		"no networks":                                        {asking("p", onlyDefault, names("[]")), ""},
		"an empty annotation":                                {asking("p", onlyDefault, names(" ")), ""},
		"ended":                                              {asking("p", withNet1, in(corev1.PodSucceeded)), ""},
		"failed":                                             {asking("p", "", in(corev1.PodFailed)), ""},
		"on the host's network":                              {asking("p", "", func(p *corev1.Pod) { p.Spec.HostNetwork = true }), ""},
		"a claim and no annotation":                          {asking("p", "", claims(made), names("")), ""},
		"a claim by hand, described, and emptied":            {asking("p", withNet1, claims("mine"), names(""), described), attachment.OfNadra},
	} {
		if got := m.owner(slim(t, tt.pod)); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// TestMigrationIsCounted checks that pods are counted once when they are created, changed and deleted.
func TestMigrationIsCounted(t *testing.T) {
	m, counts := counted(t)
	is := func(what string, nadra, multus, none float64) {
		t.Helper()
		want := map[string]float64{string(attachment.OfNadra): nadra, string(attachment.OfMultus): multus, string(attachment.OfNobody): none}
		for owner, n := range counts() {
			if n != want[owner] {
				t.Errorf("%s: %s has %v, want %v", what, owner, n, want[owner])
			}
		}
		if len(counts()) != 3 {
			t.Errorf("%s: %v", what, counts())
		}
	}
	is("at first", 0, 0, 0)
	starting, running := slim(t, asking("p", "", in(corev1.PodPending))), slim(t, asking("p", withNet1))
	m.OnAdd(starting, true)
	m.OnAdd(slim(t, asking("q", "", claims("nadra-0123456789"))), true)
	m.OnAdd(slim(t, asking("other", "", names(""))), true)
	is("added", 1, 1, 0)
	m.OnUpdate(starting, running)
	m.OnAdd(running, false) // a watch that was renewed
	is("running", 1, 1, 0)
	m.OnUpdate(running, slim(t, asking("p", onlyDefault)))
	is("without its networks", 1, 0, 1)
	m.OnDelete(toolscache.DeletedFinalStateUnknown{Obj: slim(t, asking("q", ""))})
	m.OnUpdate(running, slim(t, asking("p", withNet1, in(corev1.PodSucceeded))))
	m.OnDelete(slim(t, asking("never seen", withNet1)))
	is("gone", 0, 0, 0)
	if len(m.owners) != 0 {
		t.Errorf("pods are kept: %v", m.owners)
	}
}
