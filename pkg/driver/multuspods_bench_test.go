//go:build e2e

package driver

import (
	"context"
	"fmt"
	"os"
	"strings"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	nadclient "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/client/clientset/versioned"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
)

// besidePods are what Multus asks the API server for: a case's networks, and a
// pod for each of its sandboxes. As on any cluster they are there before the
// runtime is asked for the sandbox.
type besidePods struct {
	kube      kubernetes.Interface
	namespace string
	made      map[string]*corev1.Pod
}

func newBesidePods(ctx context.Context, c hookCase, namespace, dataDir string) (*besidePods, error) {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	nads, err := nadclient.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	annotation, err := c.createNADs(ctx, nads, namespace, dataDir)
	if err != nil {
		return nil, err
	}
	p := &besidePods{kube: kube, namespace: namespace, made: map[string]*corev1.Pod{}}
	for _, side := range []string{"thin", "thick"} {
		for round := range besideWarmUp + besideRounds {
			if err := p.create(ctx, multusPod(side, round), annotation); err != nil {
				return nil, err
			}
		}
	}
	return p, nil
}

// createNADs returns the annotation that names them all.
func (c hookCase) createNADs(ctx context.Context, nads nadclient.Interface, namespace, dataDir string) (string, error) {
	var names []string
	for i, a := range c.plan(dataDir) {
		nad := &nadv1.NetworkAttachmentDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", strings.ReplaceAll(c.name, "+", "-"), i)},
			Spec:       nadv1.NetworkAttachmentDefinitionSpec{Config: string(a.Conflist)},
		}
		if _, err := nads.K8sCniCncfIoV1().NetworkAttachmentDefinitions(namespace).Create(ctx, nad, metav1.CreateOptions{}); err != nil {
			return "", fmt.Errorf("creating NAD %s: %w", nad.Name, err)
		}
		names = append(names, nad.Name)
	}
	return strings.Join(names, ","), nil
}

func multusPod(side string, round int) string { return fmt.Sprintf("%s-%d", side, round) }

// create makes a pod of this node, whose kubelet does not run and leaves it
// alone.
func (p *besidePods) create(ctx context.Context, name, networks string) error {
	node, err := os.Hostname()
	if err != nil {
		return err
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{nadv1.NetworkAttachmentAnnot: networks}},
		Spec: corev1.PodSpec{
			NodeName: node, AutomountServiceAccountToken: ptr.To(false),
			// For as long as the kubelet is away.
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers:  []corev1.Container{{Name: "main", Image: "localhost/test:1"}},
		},
	}
	p.made[name], err = p.kube.CoreV1().Pods(p.namespace).Create(ctx, pod, metav1.CreateOptions{})
	return err
}

// delete takes the pods away; there is no kubelet that would have to agree.
func (p *besidePods) delete(ctx context.Context) error {
	now := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}
	return p.kube.CoreV1().Pods(p.namespace).DeleteCollection(ctx, now, metav1.ListOptions{})
}
