package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// Devices returns the published devices by the networks that they list. Several list a
// network if several nodes offer it, or if they are copies.
func (l *Lab) Devices(ctx context.Context) (map[attachment.NetworkID][]resourceapi.Device, error) {
	list, err := l.Kube.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{FieldSelector: "spec.driver=" + DriverName})
	if err != nil {
		return nil, err
	}
	out := map[attachment.NetworkID][]resourceapi.Device{}
	for _, s := range list.Items {
		for _, d := range s.Spec.Devices {
			for id := range attachment.NetworkIDs(d.Attributes) {
				out[id] = append(out[id], d)
			}
		}
	}
	return out, nil
}

// Offering returns the nodes that offer each network, by slices of their own and by those of their profile.
func (l *Lab) Offering(ctx context.Context) (map[attachment.NetworkID][]string, error) {
	list, err := l.Kube.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{FieldSelector: "spec.driver=" + DriverName})
	if err != nil {
		return nil, err
	}
	nodes, err := l.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	out := map[attachment.NetworkID][]string{}
	for _, s := range list.Items {
		profile := s.Labels[v1alpha1.ProfileLabel]
		for _, n := range nodes.Items {
			if ptr.Deref(s.Spec.NodeName, "") != n.Name && (profile == "" || profile != n.Labels[v1alpha1.ProfileLabel]) {
				continue
			}
			for _, d := range s.Spec.Devices {
				for id := range attachment.NetworkIDs(d.Attributes) {
					out[id] = append(out[id], n.Name)
				}
			}
		}
	}
	return out, nil
}

// NetworkID returns the ID of a NAD, "namespace/name".
func NetworkID(nad string) attachment.NetworkID {
	namespace, name, _ := strings.Cut(nad, "/")
	return attachment.NetworkIDOf(attachment.NetworkRef{Namespace: namespace, Name: name})
}

// Published waits until all these NADs are published.
func (l *Lab) Published(ctx context.Context, nads ...string) error {
	return Eventually(ctx, 5*time.Minute, func(ctx context.Context) error {
		devices, err := l.Devices(ctx)
		if err != nil {
			return err
		}
		for _, nad := range nads {
			if _, ok := devices[NetworkID(nad)]; !ok {
				return fmt.Errorf("no device lists NAD %s", nad)
			}
		}
		return nil
	})
}

// NetworkStatus waits for the pod's network-status and returns it.
func (l *Lab) NetworkStatus(ctx context.Context, namespace, pod string) ([]nadv1.NetworkStatus, error) {
	var out []nadv1.NetworkStatus
	err := Eventually(ctx, 20*time.Second, func(ctx context.Context) error {
		p, err := l.Kube.CoreV1().Pods(namespace).Get(ctx, pod, metav1.GetOptions{})
		if err != nil {
			return err
		}
		out, err = ReadStatus(p)
		return err
	})
	return out, err
}

// ReadStatus returns the network-status of a pod.
func ReadStatus(p *corev1.Pod) ([]nadv1.NetworkStatus, error) {
	text := p.Annotations[nadv1.NetworkStatusAnnot]
	if text == "" {
		return nil, fmt.Errorf("pod %s has no network-status", p.Name)
	}
	var out []nadv1.NetworkStatus
	err := json.Unmarshal([]byte(text), &out)
	return out, err
}

// Address returns the pod's first address on a network, "namespace/name".
func (l *Lab) Address(ctx context.Context, namespace, pod, network string) (string, error) {
	statuses, err := l.NetworkStatus(ctx, namespace, pod)
	if err != nil {
		return "", err
	}
	for _, s := range statuses {
		if s.Name == network && len(s.IPs) > 0 {
			return s.IPs[0], nil
		}
	}
	return "", fmt.Errorf("pod %s/%s has no address on %s", namespace, pod, network)
}
