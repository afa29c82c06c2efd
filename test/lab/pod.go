package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

// Want is a network that a pod requests.
type Want struct {
	// Network is the NAD's name, with its namespace if that is not the pod's: "blue" or
	// "prod/blue".
	Network string
	// Config is the opaque AttachmentConfig without apiVersion and kind; nil
	// for none.
	Config map[string]any
}

// Template makes a ResourceClaimTemplate with one request for each network, in
// order, the requests named net1, net2, … The requests are of the class of all
// devices, so that the claims choose their networks.
func Template(namespace, name string, wants ...Want) *resourceapi.ResourceClaimTemplate {
	var devices resourceapi.DeviceClaim
	for i, w := range wants {
		ns, nad, found := strings.Cut(w.Network, "/")
		if !found {
			ns, nad = namespace, w.Network
		}
		request := fmt.Sprintf("net%d", i+1)
		selector := NetworkID(ns + "/" + nad).Selector()
		devices.Requests = append(devices.Requests, resourceapi.DeviceRequest{
			Name: request,
			Exactly: &resourceapi.ExactDeviceRequest{
				DeviceClassName: DriverName,
				Selectors:       []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: selector}}},
			},
		})
		config := map[string]any{"network": map[string]any{"namespace": ns, "name": nad}}
		maps.Copy(config, w.Config)
		devices.Config = append(devices.Config, resourceapi.DeviceClaimConfiguration{
			Requests: []string{request},
			DeviceConfiguration: resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{
				Driver: DriverName, Parameters: runtime.RawExtension{Raw: Opaque(config)},
			}},
		})
	}
	return &resourceapi.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       resourceapi.ResourceClaimTemplateSpec{Spec: resourceapi.ResourceClaimSpec{Devices: devices}},
	}
}

// Opaque adds apiVersion and kind to an AttachmentConfig and returns it as parameters of a
// claim.
func Opaque(config map[string]any) []byte {
	full := map[string]any{"apiVersion": "nadra.dev/v1alpha1", "kind": "AttachmentConfig"}
	for k, v := range config {
		full[k] = v
	}
	raw, err := json.Marshal(full)
	if err != nil {
		panic(err) // a test's own literal
	}
	return raw
}

// Pod makes a pod that sleeps, with a claim from the template of that name.
func Pod(namespace, name, template string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: ptr.To[int64](5),
			ResourceClaims:                []corev1.PodResourceClaim{{Name: "networks", ResourceClaimTemplateName: &template}},
			Containers: []corev1.Container{{
				Name: "main", Image: "localhost/test:1", ImagePullPolicy: corev1.PullNever,
				// busybox' sleep ignores SIGTERM as PID 1.
				Command:   []string{"/bin/sh", "-c", "trap 'exit 0' TERM; sleep infinity & wait"},
				Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "networks"}}},
			}},
		},
	}
}

// Create creates a template and a pod of the same name for the networks.
func (l *Lab) Create(ctx context.Context, namespace, name string, wants ...Want) (*corev1.Pod, error) {
	if err := l.CreateTemplate(ctx, Template(namespace, name, wants...)); err != nil {
		return nil, err
	}
	return l.CreatePod(ctx, Pod(namespace, name, name))
}

// CreateTemplate creates a claim template.
func (l *Lab) CreateTemplate(ctx context.Context, t *resourceapi.ResourceClaimTemplate) error {
	_, err := l.Kube.ResourceV1().ResourceClaimTemplates(t.Namespace).Create(ctx, t, metav1.CreateOptions{})
	return err
}

// CreatePod creates a pod.
func (l *Lab) CreatePod(ctx context.Context, p *corev1.Pod) (*corev1.Pod, error) {
	return l.Kube.CoreV1().Pods(p.Namespace).Create(ctx, p, metav1.CreateOptions{})
}

// CreateNAD creates a NetworkAttachmentDefinition.
func (l *Lab) CreateNAD(ctx context.Context, namespace, name, config string) error {
	nad := &nadv1.NetworkAttachmentDefinition{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       nadv1.NetworkAttachmentDefinitionSpec{Config: config},
	}
	_, err := l.NADs.K8sCniCncfIoV1().NetworkAttachmentDefinitions(namespace).Create(ctx, nad, metav1.CreateOptions{})
	return err
}

// Ready waits until the pod is Ready and returns it. The error of a pod that
// is not has its events.
func (l *Lab) Ready(ctx context.Context, namespace, name string, limit time.Duration) (*corev1.Pod, error) {
	var pod *corev1.Pod
	err := Eventually(ctx, limit, func(ctx context.Context) error {
		var err error
		if pod, err = l.Kube.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("pod %s/%s is %s, not Ready", namespace, name, pod.Status.Phase)
	})
	if err != nil {
		return nil, fmt.Errorf("%w; events:\n  %s", err, strings.Join(l.Events(ctx, namespace, name), "\n  "))
	}
	return pod, nil
}

// DeletePod deletes a pod and the template of its name, if any, and waits
// until the pod is gone, which is after its claims were unprepared.
func (l *Lab) DeletePod(ctx context.Context, namespace, name string) error {
	pods := l.Kube.CoreV1().Pods(namespace)
	if err := pods.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	templates := l.Kube.ResourceV1().ResourceClaimTemplates(namespace)
	if err := templates.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return Eventually(ctx, 90*time.Second, func(ctx context.Context) error {
		_, err := pods.Get(ctx, name, metav1.GetOptions{})
		switch {
		case err == nil:
			return fmt.Errorf("deleting pod %s/%s: it is still there", namespace, name)
		case apierrors.IsNotFound(err):
			return nil
		}
		return fmt.Errorf("deleting pod %s/%s: %w", namespace, name, err)
	})
}

// ClaimWhen waits until the pod's claim satisfies ok.
func (l *Lab) ClaimWhen(ctx context.Context, pod *corev1.Pod, ok func(*resourceapi.ResourceClaim) error) (*resourceapi.ResourceClaim, error) {
	var claim *resourceapi.ResourceClaim
	err := Eventually(ctx, 5*time.Minute, func(ctx context.Context) error {
		p, err := l.Kube.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if claim, err = l.Claim(ctx, p); err != nil {
			return err
		}
		return ok(claim)
	})
	return claim, err
}

// CreateNamespace creates a namespace and waits until pods can be created in it: its
// default service account appears a moment later.
func (l *Lab) CreateNamespace(ctx context.Context, name string) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := l.Kube.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return err
	}
	return Eventually(ctx, 5*time.Minute, func(ctx context.Context) error {
		_, err := l.Kube.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

// Claim returns the claim that was made for the pod.
func (l *Lab) Claim(ctx context.Context, pod *corev1.Pod) (*resourceapi.ResourceClaim, error) {
	for _, s := range pod.Status.ResourceClaimStatuses {
		if s.ResourceClaimName != nil {
			return l.Kube.ResourceV1().ResourceClaims(pod.Namespace).Get(ctx, *s.ResourceClaimName, metav1.GetOptions{})
		}
	}
	return nil, errors.New("the pod has no claim yet")
}

// Events returns the pod's events as "reason: message", in no order.
func (l *Lab) Events(ctx context.Context, namespace, name string) []string {
	list, err := l.Kube.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + name})
	if err != nil {
		return []string{err.Error()}
	}
	var out []string
	for _, e := range list.Items {
		out = append(out, e.Reason+": "+e.Message)
	}
	return out
}

// Exec runs a command in the pod's container.
func (l *Lab) Exec(ctx context.Context, namespace, pod string, command ...string) (string, error) {
	return l.Cluster.Kubectl(ctx, append([]string{"-n", namespace, "exec", pod, "--"}, command...)...)
}

// HasRun reports whether a container's own process has run. If the gate has refused it, the
// container ended with StartError.
func HasRun(c corev1.ContainerStatus) bool {
	for _, s := range []corev1.ContainerState{c.State, c.LastTerminationState} {
		if s.Running != nil || s.Terminated != nil && s.Terminated.Reason != "StartError" {
			return true
		}
	}
	return false
}
