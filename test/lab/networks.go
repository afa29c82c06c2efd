package lab

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// Devices returns the published devices by their NADs, "namespace/name". If a NAD has
// several, it returns the last one. A NAD that does not exist any more has its ID as its name.
func (l *Lab) Devices(ctx context.Context) (map[string]resourceapi.Device, error) {
	nads, err := l.NADs.K8sCniCncfIoV1().NetworkAttachmentDefinitions("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	names := map[attachment.NetworkID]string{}
	for _, n := range nads.Items {
		ref := attachment.NetworkRef{Namespace: n.Namespace, Name: n.Name}
		names[attachment.NetworkIDOf(ref)] = ref.String()
	}
	list, err := l.Kube.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{FieldSelector: "spec.driver=" + DriverName})
	if err != nil {
		return nil, err
	}
	out := map[string]resourceapi.Device{}
	for _, s := range list.Items {
		for _, d := range s.Spec.Devices {
			for id := range attachment.NetworkIDs(d.Attributes) {
				out[cmp.Or(names[id], string(id))] = d
			}
		}
	}
	return out, nil
}

// Published waits until all these NADs are published.
func (l *Lab) Published(ctx context.Context, nads ...string) error {
	return Eventually(ctx, 5*time.Minute, func(ctx context.Context) error {
		devices, err := l.Devices(ctx)
		if err != nil {
			return err
		}
		for _, nad := range nads {
			if _, ok := devices[nad]; !ok {
				return fmt.Errorf("no device for NAD %s", nad)
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
		out, err = readStatus(p)
		return err
	})
	return out, err
}

func readStatus(p *corev1.Pod) ([]nadv1.NetworkStatus, error) {
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
