package doctor

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	nadfake "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/client/clientset/versioned/fake"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	fakediscovery "k8s.io/client-go/discovery/fake"
	fakedynamic "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/internal/probe"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// served are the answers to raw requests, by path.
type served map[string]string

func (s served) get(_ context.Context, path string) ([]byte, error) {
	if text, found := s[path]; found {
		return []byte(text), nil
	}
	return nil, apierrors.NewForbidden(schema.GroupResource{}, path, errors.New("no"))
}

const metrics = `# HELP kubernetes_feature_enabled [BETA] ...
kubernetes_feature_enabled{name="DRAConsumableCapacity",stage="BETA"} 1
kubernetes_feature_enabled{name="DRADeviceTaints",stage="BETA"} 0
kubernetes_feature_enabled{name="ResourceHealthStatus",stage="ALPHA"} 0
kubernetes_feature_enabled{name="InPlacePodVerticalScaling",stage="BETA"} 1
process_cpu_seconds_total 3
`

func meta(namespace, name string, annotations ...string) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Namespace: namespace, Name: name}
	for i := 0; i+1 < len(annotations); i += 2 {
		metav1.SetMetaDataAnnotation(&m, annotations[i], annotations[i+1])
	}
	return m
}

func daemonSet(namespace, name string, c corev1.Container, configMaps ...string) *appsv1.DaemonSet {
	d := &appsv1.DaemonSet{ObjectMeta: meta(namespace, name)}
	d.Spec.Template.Spec.Containers = []corev1.Container{c}
	for _, name := range configMaps {
		source := &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}
		d.Spec.Template.Spec.Volumes = append(d.Spec.Template.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{ConfigMap: source}})
	}
	return d
}

func thick() []runtime.Object {
	return []runtime.Object{
		daemonSet("kube-system", "kube-multus-ds", corev1.Container{
			Name: "kube-multus", Image: "ghcr.io/x/multus-cni:v4.2.2-thick", Command: []string{"/usr/src/multus-cni/bin/multus-daemon"},
		}, "scripts", "multus-daemon-config"),
		&corev1.ConfigMap{ObjectMeta: meta("kube-system", "multus-daemon-config"), Data: map[string]string{
			"daemon-config.json": `{"namespaceIsolation": true, "defaultNetworks": ["infra/lan"]}`,
		}},
	}
}

func world(objects ...runtime.Object) (Cluster, *fake.Clientset) {
	kube := fake.NewClientset(objects...)
	d := kube.Discovery().(*fakediscovery.FakeDiscovery)
	d.FakedServerVersion = &version.Info{GitVersion: "v1.36.3", Major: "1", Minor: "36", EmulationMajor: "1", EmulationMinor: "35"}
	d.Resources = []*metav1.APIResourceList{
		{GroupVersion: "resource.k8s.io/v1", APIResources: []metav1.APIResource{{Name: "resourceslices"}, {Name: "resourceclaims"}, {Name: "resourceclaims/status"}}},
		{GroupVersion: "kueue.x-k8s.io/v1beta1"},
		{GroupVersion: whereaboutsGroup + "/v1alpha1"},
	}
	return Cluster{
		Kube: kube, NADs: nadfake.NewSimpleClientset(), Name: "lab",
		Dynamic: fakedynamic.NewSimpleDynamicClient(runtime.NewScheme()),
		Raw: served{
			"/metrics":                           metrics,
			"/api/v1/nodes/node-1/proxy/configz": `{"kubeletconfig": {"topologyManagerPolicy": "restricted", "cpuManagerPolicy": "static", "maxPods": 110}}`,
		}.get,
	}, kube
}

func node(name string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"nadra.dev/owner": "nadra", "beta.kubernetes.io/os": "linux"}}}
	n.Status.NodeInfo = corev1.NodeSystemInfo{
		KubeletVersion: "v1.36.3", ContainerRuntimeVersion: "containerd://2.2.6", OperatingSystem: "linux", OSImage: "Debian", KernelVersion: "6.1.0", Architecture: "amd64",
	}
	return n
}

func nad(namespace, name, config string) *nadv1.NetworkAttachmentDefinition {
	return &nadv1.NetworkAttachmentDefinition{ObjectMeta: meta(namespace, name), Spec: nadv1.NetworkAttachmentDefinitionSpec{Config: config}}
}

// driverPod returns a pod of the driver.
func driverPod(name, node string, ready bool) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: meta("nadra", name), Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "nadra-node"}}}}
	p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Controller: ptr.To(true)}}
	if ready {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	return p
}

// pending returns a pod that names networks and does not run.
func pending(name, networks string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: meta("shop", name, attachment.NetworksAnnotation, networks), Status: corev1.PodStatus{Phase: corev1.PodPending}}
	for _, c := range change {
		c(p)
	}
	return p
}

// claiming returns a pod that does not run, with a claim and no annotation.
func claiming(name string, claim corev1.PodResourceClaim) *corev1.Pod {
	return pending(name, "", func(p *corev1.Pod) { p.Spec.ResourceClaims = []corev1.PodResourceClaim{claim} })
}

// requesting returns the spec of a claim that requests a device of a class.
func requesting(class string) resourceapi.ResourceClaimSpec {
	return resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{
		{Name: "a", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: class}},
	}}}
}

// webhookOf returns a configuration that names a Service.
func webhookOf(service string) *admissionv1.MutatingWebhookConfiguration {
	c := &admissionv1.MutatingWebhookConfiguration{ObjectMeta: meta("", "nadra-controller")}
	of := admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: "nadra-system", Name: service}}
	c.Webhooks = []admissionv1.MutatingWebhook{{Name: "untrusted", ClientConfig: of}}
	of.CABundle = []byte("PEM")
	c.Webhooks = append(c.Webhooks, admissionv1.MutatingWebhook{Name: "trusted", ClientConfig: of})
	return c
}

// endpoints returns an EndpointSlice of a Service.
func endpoints(service, address string, ready bool) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{ObjectMeta: meta("nadra-system", service+"-"+address)}
	s.Labels = map[string]string{discoveryv1.LabelServiceName: service}
	s.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}}
	return s
}

func TestRead(t *testing.T) {
	static := &corev1.Pod{ObjectMeta: meta("infra", "vip-node-1", corev1.MirrorPodAnnotationKey, "x", attachment.NetworksAnnotation, "lan"), Spec: corev1.PodSpec{NodeName: "node-1"}}
	driver := daemonSet("nadra", "nadra-node", corev1.Container{Name: "nadra-node", Image: "nadra-node:dev", Args: []string{"--host-root=/host"}})
	driver.Status = appsv1.DaemonSetStatus{NumberReady: 1, DesiredNumberScheduled: 2}
	controller := &appsv1.Deployment{ObjectMeta: meta("nadra-system", "nadra-controller"), Status: appsv1.DeploymentStatus{ReadyReplicas: 1}}
	controller.Spec.Replicas = ptr.To[int32](2)
	controller.Spec.Template.Spec.Containers = []corev1.Container{{Name: "nadra-controller"}}
	lists := map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}
	attachment.NetworkIDOf(attachment.NetworkRef{Namespace: "shop", Name: "lan"}).AddTo(lists)
	c, _ := world(append(thick(),
		node("node-2"), node("node-1"), static, driver, driverPod("a", "node-1", true), driverPod("b", "node-2", false), controller,
		pending("web", "lan"), pending("empty", "[ ]"), pending("of-the-host", "lan", func(p *corev1.Pod) { p.Spec.HostNetwork = true }),
		claiming("by-claim", corev1.PodResourceClaim{ResourceClaimName: ptr.To("net")}), claiming("by-template", corev1.PodResourceClaim{ResourceClaimTemplateName: ptr.To("net")}),
		claiming("of-a-gpu", corev1.PodResourceClaim{ResourceClaimName: ptr.To("gpu")}),
		&resourceapi.ResourceClaim{ObjectMeta: meta("shop", "net"), Spec: requesting("lan.shop.nad.nadra.dev")},
		&resourceapi.ResourceClaim{ObjectMeta: meta("shop", "gpu"), Spec: requesting("gpu")},
		&resourceapi.ResourceClaimTemplate{ObjectMeta: meta("shop", "net"), Spec: resourceapi.ResourceClaimTemplateSpec{Spec: requesting("lan.shop.nad.nadra.dev")}},
		&appsv1.Deployment{ObjectMeta: meta("kube-system", "coredns")},
		&appsv1.Deployment{ObjectMeta: meta("openshift-machine-api", "cluster-autoscaler-operator")},
		&corev1.ConfigMap{ObjectMeta: meta("kube-system", "cluster-autoscaler-status")},
		webhookOf("nadra-webhook"), endpoints("nadra-webhook", "10.0.0.1", true), endpoints("nadra-webhook", "10.0.0.2", false), endpoints("other", "10.0.0.3", true),
		&resourceapi.ResourceSlice{ObjectMeta: meta("", "one"), Spec: resourceapi.ResourceSliceSpec{
			Driver: "net.nadra.dev", NodeName: ptr.To("node-1"), Devices: []resourceapi.Device{{Attributes: lists}, {}, {}},
		}},
		daemonSet("kube-system", "multus-networkpolicy", corev1.Container{Image: "multi-networkpolicy"}),
	)...)
	for _, n := range []*nadv1.NetworkAttachmentDefinition{
		nad("shop", "lan", `{"cniVersion":"1.0.0","plugins":[{"type":"macvlan","master":"eth1","ipam":{"type":"dhcp"}},{"type":"tuning"}]}`),
		nad("shop", "file", ""), nad("ran", "bad", "{"),
	} {
		if _, err := c.NADs.K8sCniCncfIoV1().NetworkAttachmentDefinitions(n.Namespace).Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := c.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got.Networks[0].Error, _, _ = strings.Cut(got.Networks[0].Error, ":") // the rest is another package's
	one := Node{
		Name: "node-1", Kubelet: "v1.36.3", Runtime: "containerd://2.2.6", OS: "linux", Image: "Debian", Kernel: "6.1.0", Arch: "amd64",
		Labels: map[string]string{"nadra.dev/owner": "nadra"},
		Config: &KubeletConfig{TopologyManagerPolicy: "restricted", CPUManagerPolicy: "static"},
	}
	two := one
	two.Name, two.Config = "node-2", nil
	want := Capabilities{
		APIVersion: APIVersion, Kind: capabilitiesKind, Source: "cluster lab",
		Server: Server{
			Version: "v1.36.3", Emulated: "1.35", ResourceVersions: []string{"v1"}, Resources: []string{"resourceclaims", "resourceslices"},
			Gates: map[string]bool{"DRAConsumableCapacity": true, "DRADeviceTaints": false, "ResourceHealthStatus": false},
		},
		Nodes: []Node{one, two},
		Networks: []Network{
			{Namespace: "ran", Name: "bad", Error: "[NetworkInvalid] parsing network ran/bad"},
			{Namespace: "shop", Name: "file", OnNodes: true},
			{Namespace: "shop", Name: "lan", Plugins: []string{"macvlan", "tuning"}, IPAM: []string{"dhcp"}, Masters: []string{"eth1"}},
		},
		Multus: []Multus{{
			Namespace: "kube-system", DaemonSet: "kube-multus-ds", Image: "ghcr.io/x/multus-cni:v4.2.2-thick", Thick: true,
			ConfigMap: "kube-system/multus-daemon-config", Settings: &probe.MultusSettings{NamespaceIsolation: true, DefaultNetworks: []string{"infra/lan"}},
		}},
		Nadra:      &Nadra{Namespace: "nadra", DaemonSet: "nadra-node", Image: "nadra-node:dev", Args: []string{"--host-root=/host"}, Ready: 1, Desired: 2, ReadyNodes: []string{"node-1"}},
		Controller: &Controller{Namespace: "nadra-system", Deployment: "nadra-controller", Ready: 1, Desired: 2},
		Webhook:    &Webhook{Configuration: "nadra-controller", Namespace: "nadra-system", Service: "nadra-webhook", Ready: 1, Untrusted: []string{"nadra-controller/untrusted"}},
		Published:  &Published{Slices: 1, Devices: 3, Unoffered: []string{"ran/bad", "shop/file"}},
		Waiting:    []string{"shop/by-claim", "shop/by-template", "shop/web"},
		Components: []Component{
			{Name: "cluster-autoscaler", Kind: Autoscaler, Where: "ConfigMap kube-system/cluster-autoscaler-status"},
			{Name: "kueue", Kind: Scheduler, Where: "API group kueue.x-k8s.io"},
		},
		StaticPods:  []StaticPod{{Namespace: "infra", Name: "vip-node-1", Node: "node-1", Networks: "lan"}},
		Whereabouts: &Whereabouts{},
		Gaps: []Gap{{
			Part: PartConfig, Node: "node-2", Reason: "not allowed to read it", Remedy: "the right to get nodes/proxy, and a kubelet that answers",
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("capabilities (-want +got):\n%s", diff)
	}
}

// TestReadPolicies checks that pods with a claim and no annotation are found if there are
// policies.
func TestReadPolicies(t *testing.T) {
	claim := func(name, class, driver, pod string) *resourceapi.ResourceClaim {
		c := &resourceapi.ResourceClaim{ObjectMeta: meta("shop", name)}
		c.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "a", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: class}}}
		c.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: pod}}
		c.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
			Results: []resourceapi.DeviceRequestAllocationResult{{Request: "a", Driver: driver}},
		}}
		return c
	}
	const lan, nadra = "lan.shop.nad.nadra.dev", "net.nadra.dev"
	objects := []runtime.Object{
		claim("unseen", lan, nadra, "unseen"), claim("seen", lan, nadra, "seen"), claim("gpu", "gpu", "gpu.example.com", "gpu"),
		claim("device", "sriov.intel.com.pool.nadra.dev", nadra, "device"),
		&corev1.Pod{ObjectMeta: meta("shop", "unseen")}, &corev1.Pod{ObjectMeta: meta("shop", "seen", attachment.NetworksAnnotation, "lan")},
		&corev1.Pod{ObjectMeta: meta("shop", "gpu")}, &corev1.Pod{ObjectMeta: meta("shop", "device")},
	}
	policy := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "k8s.cni.cncf.io/v1beta1", "kind": "MultiNetworkPolicy", "metadata": map[string]any{"namespace": "shop", "name": "deny"},
	}}
	for name, tt := range map[string]struct {
		policies []runtime.Object
		want     *Policies
	}{
		"with a policy": {[]runtime.Object{policy}, &Policies{Count: 1, Unseen: []string{"shop/unseen"}}},
		"without":       {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c, kube := world(objects...)
			d := kube.Discovery().(*fakediscovery.FakeDiscovery)
			d.Resources = append(d.Resources, &metav1.APIResourceList{GroupVersion: "k8s.cni.cncf.io/v1beta1"})
			c.Dynamic = fakedynamic.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
				policyResource: "MultiNetworkPolicyList",
			})
			for _, o := range tt.policies { // its plural is not what the fake would guess
				if err := c.Dynamic.(*fakedynamic.FakeDynamicClient).Tracker().Create(policyResource, o, "shop"); err != nil {
					t.Fatal(err)
				}
			}
			got, err := c.Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got.Policies); diff != "" {
				t.Errorf("policies (-want +got):\n%s", diff)
			}
		})
	}
}

// TestReadBlindReconcilers checks that reconcilers which may not get pods are found by any
// name of their DaemonSet.
func TestReadBlindReconcilers(t *testing.T) {
	reconciler := daemonSet("ipam", "ip-loop", corev1.Container{Image: "registry.local/cni@sha256:0", Command: []string{"/ip-control-loop"}})
	reconciler.Spec.Template.Spec.ServiceAccountName = "loop"
	other := daemonSet("ipam", "other", corev1.Container{Image: "other"})
	other.Spec.Template.Spec.ServiceAccountName = "other"
	for name, tt := range map[string]struct {
		allowed bool
		err     error
		blind   []string
		gaps    []Gap
	}{
		"may":     {allowed: true},
		"may not": {blind: []string{"ipam/loop"}},
		"not known": {err: apierrors.NewForbidden(schema.GroupResource{}, "", nil), gaps: []Gap{{
			Part: PartWhereabouts, Reason: "not allowed to read it",
			Remedy: "the right to list daemonsets.apps and to create subjectaccessreviews.authorization.k8s.io",
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			c, kube := world(reconciler, other)
			kube.PrependReactor("create", "subjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
				review := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview)
				want := authorizationv1.SubjectAccessReviewSpec{
					User:               "system:serviceaccount:ipam:loop",
					Groups:             []string{"system:serviceaccounts", "system:serviceaccounts:ipam", "system:authenticated"},
					ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Resource: "pods"},
				}
				if diff := cmp.Diff(want, review.Spec); diff != "" {
					t.Errorf("review (-want +got):\n%s", diff)
				}
				review.Status.Allowed = tt.allowed
				return true, review, tt.err
			})
			got, err := c.Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.blind, got.Whereabouts.Blind); diff != "" {
				t.Errorf("blind (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.gaps, got.Gaps); diff != "" {
				t.Errorf("gaps (-want +got):\n%s", diff)
			}
		})
	}
}

// TestReadOnlyReads checks that the reader only gets and lists, and creates reviews of
// rights, which are not stored.
func TestReadOnlyReads(t *testing.T) {
	reconciler := daemonSet("kube-system", "whereabouts", corev1.Container{Image: "whereabouts"})
	reconciler.Spec.Template.Spec.ServiceAccountName = "whereabouts"
	c, kube := world(append(thick(), node("node-1"), reconciler)...)
	if _, err := c.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, a := range kube.Actions() {
		if !slices.Contains([]string{"get", "list"}, a.GetVerb()) && a.GetResource().Resource != "subjectaccessreviews" {
			t.Errorf("it does %s %s", a.GetVerb(), a.GetResource().Resource)
		}
	}
}

// TestReadWithoutRights checks that parts which the user may not read are gaps with a remedy.
func TestReadWithoutRights(t *testing.T) {
	for allowed, lacks := range map[string][]string{"nothing": {PartPods}, "pods": {PartClaims}} {
		c, kube := world(append(thick(), claiming("web", corev1.PodResourceClaim{}))...)
		kube.PrependReactor("*", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
			get, one := a.(clienttesting.GetAction)
			if a.GetVerb() != "list" && (!one || get.GetName() != autoscalerStatus) || a.GetResource().Resource == allowed {
				return false, nil, nil
			}
			return true, nil, apierrors.NewForbidden(a.GetResource().GroupResource(), "", errors.New("no"))
		})
		c.Raw = served{}.get
		got, err := c.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var parts []string
		for _, g := range got.Gaps {
			parts = append(parts, g.Part)
			if g.Reason != "not allowed to read it" || !strings.Contains(g.Remedy, "the right to") {
				t.Errorf("gap %+v", g)
			}
		}
		want := slices.Concat([]string{PartGates, PartNodes, PartMultus, PartComponents, Autoscaler}, lacks, []string{PartWebhook, PartSlices, PartWhereabouts})
		if diff := cmp.Diff(want, parts); diff != "" {
			t.Errorf("gaps (-want +got):\n%s", diff)
		}
	}
}

func TestReadSomeNodes(t *testing.T) {
	c, _ := world(node("node-1"), node("node-2"))
	c.Nodes = []string{"node-2"}
	got, err := c.Read(t.Context())
	if err != nil || !got.SomeNodes || len(got.Nodes) != 1 || got.Nodes[0].Name != "node-2" {
		t.Errorf("nodes %v, %v", got.Nodes, err)
	}
	c.Nodes = []string{"node-9"}
	if _, err := c.Read(t.Context()); err == nil || !strings.Contains(err.Error(), `"node-9"`) {
		t.Errorf("a node that is not there: %v", err)
	}
}

func TestReadIsInterrupted(t *testing.T) {
	c, _ := world()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Read(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestMultusFlavours(t *testing.T) {
	conf := &corev1.ConfigMap{ObjectMeta: meta("kube-system", "multus-cni-config"), Data: map[string]string{
		"cni-conf.json": `{"name":"multus","type":"multus","clusterNetwork":"infra/pods"}`,
	}}
	for name, test := range map[string]struct {
		container corev1.Container
		want      Multus
	}{
		"thin by flags": {
			corev1.Container{Image: "multus-cni:v4", Args: []string{"--multus-conf-file=auto", "--namespace-isolation=1", "--global-namespaces", "default,infra"}},
			Multus{Settings: &probe.MultusSettings{NamespaceIsolation: true, GlobalNamespaces: "default,infra"}},
		},
		"thin by a file": {
			corev1.Container{Image: "multus-cni:v4", Args: []string{"--multus-conf-file=/tmp/multus-conf/70-multus.conf"}},
			Multus{Settings: &probe.MultusSettings{ClusterNetwork: "infra/pods"}, ConfigMap: "kube-system/multus-cni-config"},
		},
		"thin by a script": {
			corev1.Container{Image: "multus-cni:v4", Command: []string{"/bin/sh", "-c", "exec /thin_entrypoint --namespace-isolation --multus-conf-file auto"}},
			Multus{Settings: &probe.MultusSettings{NamespaceIsolation: true}},
		},
		"thick without a file": {
			corev1.Container{Image: "quay.io/x@sha256:1", Command: []string{"/usr/src/multus-cni/bin/multus-daemon"}},
			Multus{Thick: true, Settings: &probe.MultusSettings{ClusterNetwork: "infra/pods"}, ConfigMap: "kube-system/multus-cni-config"},
		},
	} {
		c, _ := world(conf, daemonSet("kube-system", "multus", test.container, "multus-cni-config"))
		got, err := c.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		test.want.Namespace, test.want.DaemonSet, test.want.Image = "kube-system", "multus", test.container.Image
		if diff := cmp.Diff([]Multus{test.want}, got.Multus); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
