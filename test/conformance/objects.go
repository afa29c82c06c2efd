package conformance

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// nodeName is a Node without a kubelet, whose work the suite does.
const nodeName = "conformance"

// eventually waits until check succeeds, or returns its last error.
func eventually(ctx context.Context, limit time.Duration, check func(context.Context) error) error {
	const interval = 10 * time.Millisecond
	var last error
	err := wait.PollUntilContextTimeout(ctx, interval, limit, true, func(ctx context.Context) (bool, error) {
		last = check(ctx)
		return last == nil, nil
	})
	if err != nil && last != nil {
		return fmt.Errorf("after %s: %w", limit, last)
	}
	return err
}

func (w *world) createNode(ctx context.Context) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}
	if _, err := w.kube.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the node: %w", err)
	}
	return nil
}

// createNamespaces creates all namespaces of the cases, and waits until pods can be created
// in them.
func (w *world) createNamespaces(ctx context.Context, cases []Case) error {
	names := map[string]bool{}
	for _, c := range cases {
		names[c.Namespace] = true
		for _, n := range c.Networks {
			names[n.Namespace] = true
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for name := range names {
		group.Go(func() error {
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
			_, err := w.kube.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{})
			if err != nil && !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("creating namespace %s: %w", name, err)
			}
			return eventually(ctx, time.Minute, func(ctx context.Context) error {
				_, err := w.kube.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
				return err
			})
		})
	}
	return group.Wait()
}

// createNetworks creates the NADs of some cases, which may share them.
func (w *world) createNetworks(ctx context.Context, cases []Case) error {
	all := map[attachment.NetworkRef]Network{}
	for _, c := range cases {
		for _, n := range c.Networks {
			all[attachment.NetworkRef{Namespace: n.Namespace, Name: n.Name}] = n
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for _, n := range all {
		group.Go(func() error { return w.createNetwork(ctx, n) })
	}
	return group.Wait()
}

// definition returns the network as an object.
func (n Network) definition() *nadv1.NetworkAttachmentDefinition {
	nad := &nadv1.NetworkAttachmentDefinition{
		ObjectMeta: metav1.ObjectMeta{Namespace: n.Namespace, Name: n.Name},
		Spec:       nadv1.NetworkAttachmentDefinitionSpec{Config: n.Config},
	}
	if n.Resource != "" {
		nad.Annotations = map[string]string{attachment.ResourceNameAnnotation: n.Resource}
	}
	return nad
}

func (w *world) createNetwork(ctx context.Context, n Network) error {
	_, err := w.nads.K8sCniCncfIoV1().NetworkAttachmentDefinitions(n.Namespace).Create(ctx, n.definition(), metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating NAD %s/%s: %w", n.Namespace, n.Name, err)
	}
	return nil
}

func (w *world) deleteNetworks(ctx context.Context, cases []Case) error {
	namespaces := map[string]bool{}
	for _, c := range cases {
		for _, n := range c.Networks {
			namespaces[n.Namespace] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(namespaces)) {
		err := w.nads.K8sCniCncfIoV1().NetworkAttachmentDefinitions(name).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("deleting the NADs in %s: %w", name, err)
		}
	}
	return nil
}

// createPod creates a case's pod, which no kubelet runs.
func (w *world) createPod(ctx context.Context, c Case, name string) (*corev1.Pod, error) {
	var claims []corev1.PodResourceClaim
	var references []corev1.ResourceClaim
	for i := range max(1, len(c.Claims)) {
		claims = append(claims, corev1.PodResourceClaim{Name: fmt.Sprintf("networks-%d", i), ResourceClaimName: ptr.To(claimName(name, i))})
		references = append(references, corev1.ResourceClaim{Name: claims[i].Name})
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: name, Annotations: c.Annotations},
		Spec: corev1.PodSpec{
			NodeName:       nodeName,
			ResourceClaims: claims,
			Containers: []corev1.Container{{
				Name: "main", Image: "localhost/none", Resources: corev1.ResourceRequirements{Claims: references},
			}},
		},
	}
	return w.kube.CoreV1().Pods(c.Namespace).Create(ctx, pod, metav1.CreateOptions{})
}

// status returns the present network-status annotation of the pod.
func (w *world) status(ctx context.Context, pod *corev1.Pod) (string, error) {
	now, err := w.kube.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("reading the pod's annotations: %w", err)
	}
	return now.Annotations[nadv1.NetworkStatusAnnot], nil
}

func (w *world) clearStatus(ctx context.Context, pod *corev1.Pod) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, nadv1.NetworkStatusAnnot)
	_, err := w.kube.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("clearing the pod's network-status: %w", err)
	}
	return nil
}
