package upgraderun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/util/retry"

	"github.com/nadra-dev/nadra/internal/multusconf"
	"github.com/nadra-dev/nadra/internal/upgrade"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// moving is the taint of a node on its way. A cordon does not keep the pods of
// DaemonSets off.
var moving = corev1.Taint{Key: "nadra.dev/moving", Effect: corev1.TaintEffectNoSchedule}

// keptIn is where a node keeps Multus' configuration.
const keptIn = "/var/lib/nadra/multus"

func (r *Runner) cordon(ctx context.Context, name string, n *upgrade.NodeState) error {
	return r.change(ctx, name, func(node *corev1.Node) (err error) {
		ours := slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == moving.Key })
		if !ours {
			// Before anything is written: this is to be known after an interruption, too.
			n.WasCordoned = node.Spec.Unschedulable
			if n.Ready, err = r.readyOf(ctx, name, n.Way); err != nil {
				return err
			}
			if err := r.save(ctx); err != nil {
				return err
			}
			node.Spec.Taints = append(node.Spec.Taints, moving)
		}
		node.Spec.Unschedulable = true
		return nil
	})
}

// uncordon lets pods come, unless somebody else had cordoned the node.
func (r *Runner) uncordon(ctx context.Context, name string, n *upgrade.NodeState) error {
	return r.change(ctx, name, func(node *corev1.Node) error {
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == moving.Key })
		node.Spec.Unschedulable = n.WasCordoned
		return nil
	})
}

// change writes a node, again if somebody else, such as its kubelet, was first.
func (r *Runner) change(ctx context.Context, name string, do func(*corev1.Node) error) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		node, err := r.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("reading it: %w", err)
		}
		if err := do(node); err != nil {
			return err
		}
		return r.write(func() error {
			if _, err := r.Kube.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{DryRun: r.dryRun()}); err != nil {
				return fmt.Errorf("writing it: %w", err)
			}
			return nil
		})
	})
}

// present are the nodes of some that the cluster still has.
func (r *Runner) present(ctx context.Context, names []string) ([]string, error) {
	var out []string
	for _, name := range names {
		_, err := r.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		switch {
		case err == nil:
			out = append(out, name)
		case apierrors.IsNotFound(err):
			r.Say("node %s is gone", name)
		default:
			return nil, &GateError{"node " + name, fmt.Errorf("reading it: %w", err)}
		}
	}
	return out, nil
}

// label says whose a node is; nobody's with an empty owner.
func (r *Runner) label(ctx context.Context, name, owner string) error {
	return r.write(func() error {
		_, err := r.Kube.CoreV1().Nodes().Patch(ctx, name, mergePatch, ownerPatch(owner), metav1.PatchOptions{DryRun: r.dryRun()})
		if err != nil {
			return fmt.Errorf("labelling it: %w", err)
		}
		return nil
	})
}

// ownerPatch sets the label of an owner, or takes it off if that is empty.
func ownerPatch(owner string) []byte {
	value := "null"
	if owner != "" {
		value = fmt.Sprintf("%q", owner)
	}
	return fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, v1alpha1.OwnerLabel, value)
}

// release labels a node, upon which Multus' pod leaves it.
func (r *Runner) release(ctx context.Context, name string, _ *upgrade.NodeState) error {
	if err := r.label(ctx, name, v1alpha1.OwnerNadra); err != nil {
		return err
	}
	return r.await(ctx, r.GateTimeout, func(ctx context.Context) (string, error) {
		pods, err := r.multusOn(ctx, name)
		if err != nil || len(pods) == 0 {
			return "", err
		}
		return fmt.Sprintf("pod %s/%s of Multus is still there", pods[0].Namespace, pods[0].Name), nil
	})
}

// giveBack takes the label off, upon which Multus' pod comes back, and waits until the
// runtime has Multus' configuration: pods that came before would start without their
// networks.
func (r *Runner) giveBack(ctx context.Context, name string, _ *upgrade.NodeState) error {
	if err := r.label(ctx, name, ""); err != nil {
		return err
	}
	err := r.await(ctx, r.GateTimeout, func(ctx context.Context) (string, error) {
		pods, err := r.multusOn(ctx, name)
		switch {
		case err != nil:
			return "", err
		case len(pods) < len(r.plan.Multus):
			return "Multus has no pod on it yet", nil
		}
		for _, p := range pods {
			if !upgrade.PodReady(&p) {
				return fmt.Sprintf("pod %s/%s of Multus is not ready", p.Namespace, p.Name), nil
			}
		}
		return "", nil
	})
	if err != nil || r.DryRun != "" || len(r.plan.Multus) == 0 {
		return err
	}
	report, err := r.handOver(ctx, name, "await")
	if err != nil {
		return fmt.Errorf("waiting for Multus' configuration: %w", err)
	}
	r.Say("node %s: the runtime has %s", name, words(report.Left))
	return nil
}

// multusOn are the pods of Multus' DaemonSets on a node.
func (r *Runner) multusOn(ctx context.Context, node string) ([]corev1.Pod, error) {
	pods, err := r.podsOn(ctx, node)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(pods, func(p corev1.Pod) bool {
		owner := metav1.GetControllerOf(&p)
		return owner == nil || owner.Kind != "DaemonSet" || !slices.Contains(r.plan.Multus, upgrade.MultusRef{Namespace: p.Namespace, DaemonSet: owner.Name})
	}), nil
}

func (r *Runner) podsOn(ctx context.Context, node string) ([]corev1.Pod, error) {
	list, err := r.Kube.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String()})
	if err != nil {
		return nil, fmt.Errorf("listing its pods: %w", err)
	}
	return list.Items, nil
}

// unconfigure takes Multus' configuration away from the runtime.
func (r *Runner) unconfigure(ctx context.Context, name string, _ *upgrade.NodeState) error {
	return r.turn(ctx, name, "off")
}

// configure gives Multus' configuration back to the runtime.
func (r *Runner) configure(ctx context.Context, name string, _ *upgrade.NodeState) error {
	return r.turn(ctx, name, "on")
}

// turn turns Multus' configuration off or on. A dry run does nothing.
func (r *Runner) turn(ctx context.Context, name, what string) error {
	if r.DryRun != "" {
		return nil
	}
	report, err := r.handOver(ctx, name, what)
	if err != nil {
		return fmt.Errorf("turning Multus' configuration %s: %w", what, err)
	}
	r.Say("node %s: Multus' configuration %s: %s; the runtime has %s", name, what, words(report.Moved), words(report.Left))
	return nil
}

// handOver runs `nadra-node multus` with an argument in a pod on the node, and returns
// its report.
func (r *Runner) handOver(ctx context.Context, name, argument string) (multusconf.Report, error) {
	log, err := r.Nodes.Run(ctx, r.handOverPod(name, argument))
	if err != nil {
		return multusconf.Report{}, err
	}
	var report multusconf.Report
	if err := json.Unmarshal(log, &report); err != nil {
		return multusconf.Report{}, errors.New(strings.TrimSpace(string(log)))
	}
	return report, nil
}

func words(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}

// handOverPod may write to the two directories, and sees nothing else of the
// host.
func (r *Runner) handOverPod(node, what string) *corev1.Pod {
	pod := r.Nodes.Pod(node, []string{"multus", "--cni-conf-dir=/conf", "--keep-in=/kept", what})
	directory, create := corev1.HostPathDirectory, corev1.HostPathDirectoryOrCreate
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "conf", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: r.ConfDir, Type: &directory}}},
		{Name: "kept", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: keptIn, Type: &create}}},
	}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "conf", MountPath: "/conf"}, {Name: "kept", MountPath: "/kept"}}
	return pod
}

// serve waits for nadra's driver, and for what it offers.
func (r *Runner) serve(ctx context.Context, name string, _ *upgrade.NodeState) error {
	return r.await(ctx, r.GateTimeout, func(ctx context.Context) (string, error) {
		pods, err := r.podsOn(ctx, name)
		if err != nil {
			return "", err
		}
		driver := slices.IndexFunc(pods, func(p corev1.Pod) bool {
			_, found := upgrade.ContainerArgs(&p.Spec, upgrade.DriverContainer)
			return found
		})
		switch {
		case driver < 0:
			return "nadra's driver has no pod on it", nil
		case !upgrade.PodReady(&pods[driver]):
			return fmt.Sprintf("pod %s/%s of nadra's driver is not ready", pods[driver].Namespace, pods[driver].Name), nil
		}
		slices, err := r.Kube.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{FieldSelector: fields.AndSelectors(
			fields.OneTermEqualSelector(resourceapi.ResourceSliceSelectorNodeName, name),
			fields.OneTermEqualSelector(resourceapi.ResourceSliceSelectorDriver, v1alpha1.DriverName),
		).String()})
		if err != nil {
			return "", fmt.Errorf("listing its ResourceSlices: %w", err)
		}
		for _, s := range slices.Items {
			if len(s.Spec.Devices) > 0 {
				return "", nil
			}
		}
		return "nadra's driver offers no network on it: its log says why", nil
	})
}

func (r *Runner) verify(ctx context.Context, name string, _ *upgrade.NodeState) error {
	if r.Verify == nil || r.DryRun != "" {
		return nil
	}
	return r.Verify(ctx, name)
}
