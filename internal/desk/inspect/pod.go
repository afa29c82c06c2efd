package inspect

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/nadra-dev/nadra/internal/installation"
	"github.com/nadra-dev/nadra/internal/kube"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// Pod reads the input of Explain for a pod of c's namespace.
func (c Cluster) Pod(ctx context.Context, name string) (chainInput, error) {
	in := chainInput{Input: Input{Unread: map[Kind]bool{}}}
	pod, err := c.Kube.CoreV1().Pods(c.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return in, fmt.Errorf("reading pod %s/%s: %w", c.Namespace, name, err)
	}
	in.Pod = pod
	if err := c.readDRA(ctx, &in.Input); err != nil {
		return in, err
	}
	in.NoDRA = slices.Contains(in.unserved, Claims)
	owned := metav1.ListOptions{LabelSelector: v1alpha1.OwnerLabel} // other nodes do not matter
	if err := optional(ctx, &in.Input, Nodes, owned, c.Kube.CoreV1().Nodes().List, &in.Nodes); err != nil {
		return in, err
	}
	if err := c.readNamespace(ctx, &in); err != nil {
		return in, err
	}
	nadra, known, err := installation.Find(ctx, c.Kube)
	switch {
	case err != nil:
		return in, err
	case known:
		in.Installation = &nadra
	default:
		in.Unread[Workloads] = true
	}
	err = c.readDrivers(ctx, &in)
	if err == nil {
		err = c.readAllClaims(ctx, &in)
	}
	if err == nil {
		err = c.readEvents(ctx, &in)
	}
	return in, err
}

// readDrivers finds the nodes on which nadra's driver is ready.
func (c Cluster) readDrivers(ctx context.Context, in *chainInput) error {
	if in.Installation == nil {
		return nil
	}
	ready := map[string]bool{}
	if driver := in.Installation.Driver; driver != nil {
		readable, err := kube.EachReadable(ctx, kube.All, c.Kube.CoreV1().Pods(driver.Namespace).List, func(p *corev1.Pod) {
			if installation.DriverReady(p, driver.Namespace) {
				ready[p.Spec.NodeName] = true
			}
		})
		if err != nil {
			return fmt.Errorf("listing the driver's pods in namespace %s: %w", driver.Namespace, err)
		}
		if !readable {
			in.Unread[Drivers] = true
			return nil
		}
	}
	in.Drivers = ready
	return nil
}

// readAllClaims reads the claims of all namespaces for a pod that has not started: they share the networks' addresses and
// devices.
func (c Cluster) readAllClaims(ctx context.Context, in *chainInput) error {
	if in.Pod.Status.Phase != corev1.PodPending || in.NoDRA {
		return nil
	}
	var all []*resourceapi.ResourceClaim
	err := optional(ctx, &in.Input, Claims, metav1.ListOptions{}, c.Kube.ResourceV1().ResourceClaims("").List, &all)
	if err == nil && !in.Unread[Claims] {
		in.Claims = all
	}
	return err
}

// readNamespace reads the pod's namespace, unless the user may not.
func (c Cluster) readNamespace(ctx context.Context, in *chainInput) error {
	namespace, err := c.Kube.CoreV1().Namespaces().Get(ctx, c.Namespace, metav1.GetOptions{})
	switch {
	case err == nil:
		in.Namespace = namespace
	case apierrors.IsForbidden(err):
		in.Unread[Namespaces] = true
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("reading namespace %s: %w", c.Namespace, err)
	}
	return nil
}

// readEvents reads the events on the pod and on its networks.
func (c Cluster) readEvents(ctx context.Context, in *chainInput) error {
	if err := c.eventsOn(ctx, &in.Input, "Pod", in.Pod.Namespace, in.Pod.Name); err != nil {
		return err
	}
	for _, ref := range networksOf(in.Input, in.Pod) {
		if err := c.eventsOn(ctx, &in.Input, "NetworkAttachmentDefinition", ref.Namespace, ref.Name); err != nil {
			return err
		}
	}
	return nil
}

// eventsOn reads the events on an object, or on all of a kind for an empty name.
func (c Cluster) eventsOn(ctx context.Context, in *Input, kind, namespace, name string) error {
	about := fields.Set{"involvedObject.kind": kind}
	if name != "" {
		about["involvedObject.name"] = name
	}
	return optional(ctx, in, Events, metav1.ListOptions{FieldSelector: about.String()},
		c.Kube.CoreV1().Events(namespace).List, &in.Events)
}
