//go:build e2e

package upgrade

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

// stack has one workload of each kind that matters for a node's move: one that may go
// anywhere, one with names and addresses of its own, one on every node, and one without
// networks, which must not be touched.
const stack = `
apiVersion: v1
kind: Namespace
metadata: {name: core}
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: n3, namespace: core}
spec: {config: '{"cniVersion":"1.0.0","name":"n3","type":"macvlan","master":"lan0","mode":"bridge","ipam":{"type":"host-local","subnet":"10.93.0.0/24","rangeStart":"10.93.0.10","rangeEnd":"10.93.0.200"}}'}
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: n6, namespace: core}
spec: {config: '{"cniVersion":"1.0.0","name":"n6","plugins":[{"type":"macvlan","master":"lan0","mode":"bridge","capabilities":{"ips":true},"ipam":{"type":"static"}},{"type":"tuning","mtu":1400}]}'}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: smf, namespace: core}
spec:
  replicas: 2
  selector: {matchLabels: {app: smf}}
  template:
    metadata: {labels: {app: smf}, annotations: {k8s.v1.cni.cncf.io/networks: n3}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: main, image: localhost/test:1, imagePullPolicy: Never, command: [/bin/sleep, infinity]}]
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: upf, namespace: core}
spec:
  replicas: 1
  serviceName: upf
  selector: {matchLabels: {app: upf}}
  template:
    metadata:
      labels: {app: upf}
      annotations: {k8s.v1.cni.cncf.io/networks: '[{"name":"n3","interface":"n3"},{"name":"n6","interface":"n6","ips":["10.96.0.7/24"],"mac":"02:00:00:00:96:07"}]'}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: main, image: localhost/test:1, imagePullPolicy: Never, command: [/bin/sleep, infinity]}]
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: probe, namespace: core}
spec:
  selector: {matchLabels: {app: probe}}
  template:
    metadata: {labels: {app: probe}, annotations: {k8s.v1.cni.cncf.io/networks: n3@net9}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: main, image: localhost/test:1, imagePullPolicy: Never, command: [/bin/sleep, infinity]}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: plain, namespace: core}
spec:
  replicas: 2
  selector: {matchLabels: {app: plain}}
  template:
    metadata: {labels: {app: plain}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: main, image: localhost/test:1, imagePullPolicy: Never, command: [/bin/sleep, infinity]}]
`

// interfaces has the interfaces of the stack's pods besides eth0, by their label app. Those
// of ofOthers are added if there is a corpus.
var interfaces = map[string][]string{"smf": {"net1"}, "upf": {"n3", "n6"}, "probe": {"net9"}}

// ofStack is the number of the stack's pods with networks, and networked that of all, which has those of
// ofOthers in addition if there is a corpus.
const ofStack = 5

var networked = ofStack

// ofOthers has workloads of the corpus whose networks this kernel can run, with the files
// of their networks. Annotations and networks are unmodified. A pod becomes one of a
// Deployment, because nothing would recreate it, and its containers are the test's, because
// there is no registry to pull theirs from. None has default-route, because this Multus
// ignores it, which verify reports (V50).
var ofOthers = []struct {
	folder     string
	networks   string
	file       string
	name       string
	interfaces []string
}{
	{"git-shassan__xrd-public", "02-nad.yaml", "01-deployment.yaml", "xrd-control-plane", []string{"net1"}},
	{"csrx-dayone__kubernetes", "01-nad.yaml", "02-pods.yaml", "srv-pod-1", []string{"net1"}},
	{"csrx-dayone__kubernetes", "01-nad.yaml", "02-pods.yaml", "csrx", []string{"net1", "net2"}},
	{"csrx-dayone__kubernetes", "01-nad.yaml", "02-pods.yaml", "srv-pod-2", []string{"net1"}},
	{"k8snetworkplumbingwg__multi-networkpolicy-iptables", "16-stacked.yaml", "16-stacked.yaml", "pod-server", []string{"net1"}},
	{"k8snetworkplumbingwg__multus-cni", "03-static-pod-nad.yaml", "02-simple-static-pod.yaml", "static-web", []string{"net1"}},
	{"k8snetworkplumbingwg__multus-cni", "04-macvlan-pod.yaml", "04-macvlan-pod.yaml", "samplepod", []string{"net1"}},
	{"k8snetworkplumbingwg__multus-dynamic-networks-controller", "03-original-setup.yaml", "01-interface-add.yaml", "macvlan1-worker1", []string{"ens4", "ens41", "net1"}},
	{"loxilb-io__loxilb", "01-macvlan.yaml", "02-multus-pod.yaml", "pod-01", []string{"net1"}},
	{"s1061123__my-pod-samples", "07-macvlan.yaml", "07-macvlan.yaml", "macvlan", []string{"net1"}},
	{"s1061123__my-pod-samples", "09-runtimeconfig.yaml", "09-runtimeconfig.yaml", "runtimeconfig", []string{"net1"}},
	{"s1061123__my-pod-samples", "10-tuning.yaml", "10-tuning.yaml", "tuning", []string{"net1"}},
}

// masters has the masters of the corpus' networks, which nodes lack.
var masters = []string{master, "eth1", "eth2"}

// corpusStack returns the manifest of ofOthers.
func corpusStack(dir string) (string, error) {
	objects := map[string]any{}
	for _, w := range ofOthers {
		nads, err := documents(filepath.Join(dir, w.folder, w.networks))
		if err != nil {
			return "", err
		}
		for _, o := range nads {
			if o.GetKind() != "NetworkAttachmentDefinition" {
				continue
			}
			if o.GetNamespace() != "default" { // the Deployment names none
				o.SetNamespace(namespace)
			}
			objects["1 "+o.GetNamespace()+"/"+o.GetName()] = o.Object
		}
		found, err := documents(filepath.Join(dir, w.folder, w.file))
		if err != nil {
			return "", err
		}
		i := slices.IndexFunc(found, func(o *unstructured.Unstructured) bool {
			return o.GetName() == w.name && (o.GetKind() == "Pod" || o.GetKind() == "Deployment")
		})
		if i < 0 {
			return "", fmt.Errorf("%s/%s has no workload %s", w.folder, w.file, w.name)
		}
		d, err := deployment(found[i])
		if err != nil {
			return "", fmt.Errorf("reading %s/%s: %w", w.folder, w.file, err)
		}
		objects["2 "+w.name] = d
	}
	var out bytes.Buffer
	for _, key := range slices.Sorted(maps.Keys(objects)) {
		text, err := yaml.Marshal(objects[key])
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&out, "---\n%s", text)
	}
	return out.String(), nil
}

// deployment makes a Deployment with the pod template's annotations of a workload.
func deployment(o *unstructured.Unstructured) (*appsv1.Deployment, error) {
	annotations := o.GetAnnotations()
	if o.GetKind() != "Pod" {
		var d appsv1.Deployment
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &d); err != nil {
			return nil, err
		}
		annotations = d.Spec.Template.Annotations
	}
	if annotations[nadv1.NetworkAttachmentAnnot] == "" {
		return nil, errors.New("it asks for no network")
	}
	pod := corev1.PodSpec{
		TerminationGracePeriodSeconds: ptr.To[int64](1),
		Containers: []corev1.Container{{
			Name: "main", Image: "localhost/test:1", ImagePullPolicy: corev1.PullNever, Command: []string{"/bin/sleep", "infinity"},
		}},
	}
	labels := map[string]string{"app": o.GetName()}
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Name: o.GetName(), Namespace: namespace},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			// Only one pod at a time can have a fixed address.
			Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: annotations}, Spec: pod},
		},
	}, nil
}

// documents returns the objects of a file, including those of Lists.
func documents(path string) ([]*unstructured.Unstructured, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var out []*unstructured.Unstructured
	decoder := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(string(text)), 4096)
	for {
		o := &unstructured.Unstructured{}
		switch err := decoder.Decode(&o.Object); {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, fmt.Errorf("reading %s: %w", path, err)
		case o.IsList():
			_ = o.EachListItem(func(item runtime.Object) error {
				out = append(out, item.(*unstructured.Unstructured))
				return nil
			})
		case len(o.Object) > 0:
			out = append(out, o)
		}
	}
}
