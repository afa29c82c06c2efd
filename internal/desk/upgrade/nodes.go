package upgrade

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// moving is the taint of a node during its move. A cordon alone does not keep off the
// pods of DaemonSets.
var moving = corev1.Taint{Key: "nadra.dev/moving", Effect: corev1.TaintEffectNoSchedule}

// isMoving reports whether a taint is moving.
func isMoving(t corev1.Taint) bool { return t.Key == moving.Key }

// changeNode updates a node, and retries if another client, such as its kubelet, wrote it
// in between.
func (r *run) changeNode(ctx context.Context, name string, do func(*corev1.Node) error) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		node, err := r.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return readError(err)
		}
		if err := do(node); err != nil {
			return err
		}
		return r.DryRun.Write(func() error {
			if _, err := r.Kube.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{DryRun: r.DryRun.Options()}); err != nil {
				return fmt.Errorf("writing it: %w", err)
			}
			return nil
		})
	})
}

// present returns the nodes that the cluster still has. It forgets the move of a node that another one of its name has
// replaced.
func (r *run) present(ctx context.Context, names ...string) ([]*corev1.Node, error) {
	var out []*corev1.Node
	for _, name := range names {
		node, err := r.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		switch {
		case err == nil:
			out = append(out, node)
			if m := r.state.Nodes[name]; m != nil && m.UID != "" && m.UID != node.UID {
				delete(r.state.Nodes, name)
				r.Say("node %s was replaced: its move begins again", name)
			}
		case apierrors.IsNotFound(err):
			r.Say("node %s is gone", name)
		default:
			return nil, &GateError{"node " + name, readError(err)}
		}
	}
	return out, nil
}

// labelNode labels a node with its owner; an empty owner removes the label.
func (r *run) labelNode(ctx context.Context, name, owner string) error {
	return r.DryRun.Write(func() error {
		_, err := r.Kube.CoreV1().Nodes().Patch(ctx, name, mergePatch, ownerPatch(owner), metav1.PatchOptions{DryRun: r.DryRun.Options()})
		if err != nil {
			return fmt.Errorf("labelling it: %w", err)
		}
		return nil
	})
}

// ownerPatch returns a patch that sets the owner label; an empty owner removes it.
func ownerPatch(owner string) []byte {
	value := "null"
	if owner != "" {
		value = fmt.Sprintf("%q", owner)
	}
	return fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, v1alpha1.OwnerLabel, value)
}

// podsOn lists the pods of a node.
func podsOn(ctx context.Context, client kubernetes.Interface, node string) ([]corev1.Pod, error) {
	list, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String()})
	if err != nil {
		return nil, fmt.Errorf("listing its pods: %w", err)
	}
	return list.Items, nil
}
