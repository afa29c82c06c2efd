package inspect

import (
	"context"
	"fmt"

	"github.com/nadra-dev/nadra/internal/desk/installation"
	"github.com/nadra-dev/nadra/internal/kube"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
)

// Pod reads the input of Explain for a pod of c's namespace.
func (c Cluster) Pod(ctx context.Context, name string) (ChainInput, error) {
	in := ChainInput{Input: Input{Unread: map[Kind]bool{}}}
	pod, err := c.Kube.CoreV1().Pods(c.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return in, fmt.Errorf("reading pod %s/%s: %w", c.Namespace, name, err)
	}
	in.Pod = pod
	if in.NoDRA, err = c.readDRA(ctx, &in.Input); err != nil {
		return in, err
	}
	owned := metav1.ListOptions{LabelSelector: v1alpha1.OwnerLabel} // other nodes do not matter
	if err := optional(ctx, in.Unread, Nodes, owned, kube.PagesOf(c.Kube.CoreV1().Nodes().List), &in.Nodes); err != nil {
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
	}
	return in, c.readEvents(ctx, &in)
}

// readNamespace reads the pod's namespace, unless the user may not.
func (c Cluster) readNamespace(ctx context.Context, in *ChainInput) error {
	namespace, err := c.Kube.CoreV1().Namespaces().Get(ctx, c.Namespace, metav1.GetOptions{})
	switch {
	case err == nil:
		in.Namespace = namespace
	case !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err):
		return fmt.Errorf("reading namespace %s: %w", c.Namespace, err)
	}
	return nil
}

// readEvents reads the events on the pod and on its networks.
func (c Cluster) readEvents(ctx context.Context, in *ChainInput) error {
	if err := c.eventsOn(ctx, in, "Pod", in.Pod.Namespace, in.Pod.Name); err != nil {
		return err
	}
	for _, ref := range NetworksOf(in.Input, in.Pod) {
		if err := c.eventsOn(ctx, in, "NetworkAttachmentDefinition", ref.Namespace, ref.Name); err != nil {
			return err
		}
	}
	return nil
}

// eventsOn reads the events on an object.
func (c Cluster) eventsOn(ctx context.Context, in *ChainInput, kind, namespace, name string) error {
	about := fields.Set{"involvedObject.kind": kind, "involvedObject.name": name}
	var events []*corev1.Event
	err := optional(ctx, in.Unread, Events, metav1.ListOptions{FieldSelector: about.String()},
		kube.PagesOf(c.Kube.CoreV1().Events(namespace).List), &events)
	in.Events = append(in.Events, events...)
	return err
}
