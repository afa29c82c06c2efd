package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	nadfake "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/client/clientset/versioned/fake"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	fakediscovery "k8s.io/client-go/discovery/fake"
	fakedynamic "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/nadra-dev/nadra/internal/desk/doctor"
	"github.com/nadra-dev/nadra/internal/desk/upgrade"
)

const secret = "hunter2-XyZ"

func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func own(name, node string, restarts int32) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: meta("nadra", name), Spec: corev1.PodSpec{NodeName: node}}
	p.Labels = map[string]string{"app.kubernetes.io/name": "nadra-node"}
	p.Spec.Containers = []corev1.Container{{Name: "nadra-node", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 9078}}}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "nadra-node", RestartCount: restarts}}
	return p
}

func asking(name string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: meta("shop", name)}
	p.Annotations = map[string]string{"k8s.v1.cni.cncf.io/networks": "blue", "other": secret}
	p.Spec.Containers = []corev1.Container{{Name: "main", Env: []corev1.EnvVar{{Name: "PASSWORD", Value: secret}}}}
	return p
}

func event(name, about string) *corev1.Event {
	return &corev1.Event{ObjectMeta: meta("shop", name), InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: about}, Message: "token=" + secret}
}

func world() (Cluster, *fake.Clientset) {
	class := &resourceapi.DeviceClass{ObjectMeta: meta("", "blue.shop.nad.nadra.dev")}
	fast := &resourceapi.DeviceClass{ObjectMeta: meta("", "fast")}
	fast.Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: `device.driver == "net.nadra.dev"`}}}
	claim := &resourceapi.ResourceClaim{ObjectMeta: meta("shop", "gpu")}
	claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "a", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu.example.com"}}}
	template := &resourceapi.ResourceClaimTemplate{ObjectMeta: meta("shop", "blue")}
	template.Spec.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "a", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: fast.Name}}}
	webhooks := &admissionv1.MutatingWebhookConfiguration{ObjectMeta: meta("", "nadra-controller")}
	webhooks.Webhooks = []admissionv1.MutatingWebhook{{Name: "pods.nadra.dev", ClientConfig: admissionv1.WebhookClientConfig{CABundle: []byte(secret)}}}
	kube := fake.NewClientset(
		class, fast, claim, template, webhooks, own("driver-1", "n1", 1), own("driver-2", "n2", 0), asking("web"), &corev1.Pod{ObjectMeta: meta("shop", "plain")},
		event("e1", "web"), event("e2", "plain"),
		&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "nadra", Name: "nadra-node", Labels: map[string]string{"app.kubernetes.io/name": "nadra-node"}}},
		&corev1.ConfigMap{ObjectMeta: meta("nadra", "nadra-pools"), Data: map[string]string{"a.yaml": "password: " + secret}},
		&corev1.Secret{ObjectMeta: meta("nadra", "nadra-webhook"), Data: map[string][]byte{"tls.key": []byte(secret)}},
		&corev1.Node{ObjectMeta: meta("", "n1")}, &corev1.Node{ObjectMeta: meta("", "n2")},
	)
	kube.Discovery().(*fakediscovery.FakeDiscovery).FakedServerVersion = &version.Info{GitVersion: "v1.36.3"}
	nads := nadfake.NewSimpleClientset()
	nad := &nadv1.NetworkAttachmentDefinition{ObjectMeta: meta("shop", "blue"), Spec: nadv1.NetworkAttachmentDefinitionSpec{Config: `{"type":"macvlan","password":"` + secret + `"}`}}
	if err := nads.Tracker().Create(nadv1.SchemeGroupVersion.WithResource("network-attachment-definitions"), nad, "shop"); err != nil {
		panic(err) // a test's own object
	}
	raw := func(_ context.Context, path string) ([]byte, error) {
		if path == "/api/v1/namespaces/nadra/pods/driver-1:9078/proxy/metrics" {
			return []byte("nadra_attachments 3\n"), nil
		}
		return nil, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, path, errors.New("no"))
	}
	return Cluster{
		Cluster: doctor.Cluster{Kube: kube, NADs: nads, Name: "lab", Raw: raw, Dynamic: fakedynamic.NewSimpleDynamicClient(runtime.NewScheme())},
		Since:   time.Hour, StateNamespace: "nadra-system",
	}, kube
}

func collect(t *testing.T, c Cluster) (map[string]string, *Index) {
	t.Helper()
	b := &Bundle{}
	if err := c.Collect(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	var raw bytes.Buffer
	index, err := b.Write(&raw)
	if err != nil {
		t.Fatal(err)
	}
	zipped, err := gzip.NewReader(&raw)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for archive := tar.NewReader(zipped); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files, index
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		files[strings.TrimPrefix(h.Name, Folder)] = string(text)
	}
}

// names returns the names in a list of objects.
func names(t *testing.T, text string) []string {
	t.Helper()
	var list metav1.PartialObjectMetadataList
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	var out []string
	for _, item := range list.Items {
		out = append(out, item.Name)
	}
	return out
}

func TestCollect(t *testing.T) {
	c, kube := world()
	files, index := collect(t, c)
	for name, text := range files {
		if strings.Contains(text, secret) || strings.Contains(text, "aHVudGVyMi1YeVo") {
			t.Errorf("%s has a secret:\n%s", name, text)
		}
	}
	for _, a := range kube.Actions() {
		if a.GetResource().Resource == "secrets" || a.GetVerb() != "get" && a.GetVerb() != "list" {
			t.Errorf("it does %s %s", a.GetVerb(), a.GetResource().Resource)
		}
	}
	for file, want := range map[string][]string{
		"pods": {"web"}, "nadra-pods": {"driver-1", "driver-2"}, "events": {"e1"}, "resourceclaims": nil, "resourceclaimtemplates": {"blue"},
		"deviceclasses": {"blue.shop.nad.nadra.dev", "fast"}, "network-attachment-definitions": {"blue"}, "daemonsets": {"nadra-node"},
		"configmaps": {"nadra-pools"}, "mutatingwebhookconfigurations": {"nadra-controller"},
	} {
		if got := names(t, files["objects/"+file+".json"]); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", file, got, want)
		}
	}
	for file, part := range map[string]string{
		"doctor/capabilities.json": `"version": "v1.36.3"`, "attachments.json": `"pod": "web"`,
		"logs/nadra/driver-1/nadra-node.log": "string of 9 bytes", "logs/nadra/driver-1/nadra-node.previous.log": "string of 9 bytes",
		"logs/nadra/driver-2/nadra-node.log": "string of 9 bytes", "metrics/nadra/driver-1.prom": "nadra_attachments 3",
		"objects/network-attachment-definitions.json": `"kind": "NetworkAttachmentDefinition"`,
	} {
		if !strings.Contains(files[file], part) {
			t.Errorf("%s lacks %q: %s", file, part, files[file])
		}
	}
	if caps, err := doctor.ParseCapabilities([]byte(files["doctor/capabilities.json"])); err != nil || len(caps.Nodes) != 2 {
		t.Errorf("doctor --from cannot read it: %+v, %v", caps, err)
	}
	if _, found := files["logs/nadra/driver-2/nadra-node.previous.log"]; found {
		t.Error("a container that never ended has a log of before")
	}
	if !hasGap(index, "metrics of pod nadra/driver-2", "not allowed") || !hasGap(index, "doctor: gates", "not allowed") {
		t.Errorf("gaps %+v", index.Gaps)
	}
}

// The archive has the plan and the state of an upgrade.
func TestCollectUpgrade(t *testing.T) {
	c, _ := world()
	plan := &upgrade.Plan{APIVersion: upgrade.APIVersion, Kind: upgrade.PlanKind, Waves: []upgrade.Wave{{Name: "wave-1", Nodes: []upgrade.NodeShare{{Name: "n1"}}}}}
	if err := (upgrade.Store{Kube: c.Kube, Namespace: c.StateNamespace}).Save(t.Context(), plan, upgrade.NewState()); err != nil {
		t.Fatal(err)
	}
	files, _ := collect(t, c)
	text := files["upgrade.json"]
	if !strings.Contains(text, "wave-1") || !strings.Contains(text, "UpgradeState") {
		t.Errorf("upgrade.json:\n%s", text)
	}
}

func hasGap(index *Index, what, reason string) bool {
	return slices.ContainsFunc(index.Gaps, func(g Gap) bool {
		return g.What == what && strings.Contains(g.Reason, reason) && g.Remedy != ""
	})
}

// TestCollectWithoutRights checks that the archive has everything that the user may read, and
// lists the rest as gaps.
func TestCollectWithoutRights(t *testing.T) {
	for resource, gap := range map[string]string{
		"pods": "attachments, pods, claims, networks", "events": "events of all namespaces", "daemonsets": "daemonsets", "configmaps": "configmaps of namespace nadra",
		"resourceslices": "resourceslices", "mutatingwebhookconfigurations": "mutatingwebhookconfigurations", "nodes": "doctor: nodes",
	} {
		t.Run(resource, func(t *testing.T) {
			c, kube := world()
			kube.PrependReactor("list", resource, func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", errors.New("no"))
			})
			files, index := collect(t, c)
			if !hasGap(index, gap, "not allowed") {
				t.Errorf("gaps %+v", index.Gaps)
			}
			if files["doctor/capabilities.json"] == "" || files["README.md"] == "" {
				t.Errorf("there are only %d files", len(files))
			}
		})
	}
}

func TestNodes(t *testing.T) {
	c, _ := world()
	c.Nodes = []string{"n2"}
	files, _ := collect(t, c)
	if files["logs/nadra/driver-2/nadra-node.log"] == "" || files["logs/nadra/driver-1/nadra-node.log"] != "" {
		t.Error("the logs are not of the named node")
	}
}

func TestTail(t *testing.T) {
	for _, c := range []struct {
		text      string
		want, cut string
	}{
		{"a\nbb\n", "a\nbb\n", ""},
		{strings.Repeat("x", 50) + "\nabc\ndef\n", "abc\ndef\n", "the first 51 bytes are left out"},
		{strings.Repeat("line\n", 20), "line\n", "the first 95 bytes are left out"},
	} {
		got, cut, err := tail(iotest.HalfReader(strings.NewReader(c.text)), 9)
		if err != nil || got != c.want || cut != c.cut {
			t.Errorf("%q: %q, %q, %v", c.text, got, cut, err)
		}
	}
	if got, _, err := tail(io.MultiReader(strings.NewReader("kept\n"), iotest.ErrReader(errors.New("lost"))), 9); got != "kept\n" || err == nil {
		t.Errorf("%q, %v", got, err)
	}
}

// TestMetricsPort checks where the metrics of drivers are: at a declared port, as v0.1.0-rc.1 has
// it, at the port of an argument, or at the usual one.
func TestMetricsPort(t *testing.T) {
	declared := corev1.Container{Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 19078}}}
	for want, c := range map[string]corev1.Container{
		"19078": declared,
		"29078": {Args: []string{"--node-name=n", "--http-address=[::]:29078"}},
		"9078":  {Args: []string{"--http-address=nonsense"}},
	} {
		if got := metricsPort(&corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{c}}}); got != want {
			t.Errorf("%+v: port %s, want %s", c, got, want)
		}
	}
}
