package upgrade

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/kubectl/pkg/util/podutils"

	"github.com/nadra-dev/nadra/internal/installation"
	"github.com/nadra-dev/nadra/internal/probe"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// steps takes the steps of a node's move. Every step can be repeated.
type steps struct{ *run }

// take returns the functions of the steps.
func (s steps) take() map[Step]take {
	return map[Step]take{
		Cordon: s.cordon, Inspect: s.inspect, Assign: s.assign, Unconfigure: s.unconfigure,
		Adopt: s.adopt, Serve: s.serve, Verify: s.verify,
		Drain: s.drain, Release: s.release, Configure: s.configure, Return: s.giveBack,
		Uncordon: s.uncordon, Recover: s.awaitRecovery,
	}
}

// cordon cordons and taints a node. It first saves which node it is, whether the node was cordoned
// before, and how many pods of the disturbed workloads are ready.
func (s steps) cordon(ctx context.Context, name string, m *Move) error {
	return s.changeNode(ctx, name, func(node *corev1.Node) error {
		if !slices.ContainsFunc(node.Spec.Taints, isMoving) {
			if m.UID == "" || m.UID != node.UID { // else the move knows how the node was
				f, err := s.facts(ctx)
				if err != nil {
					return err
				}
				m.UID, m.WasCordoned, m.Ready = node.UID, node.Spec.Unschedulable, f.readyOf(f.disturbed(name, m.Direction))
				if err := s.save(ctx); err != nil {
					m.UID = "" // so that a retry saves it
					return err
				}
			}
			node.Spec.Taints = append(node.Spec.Taints, moving)
		}
		m.UID, node.Spec.Unschedulable = node.UID, true
		return nil
	})
}

// uncordon removes taint and cordon, unless the node was cordoned before its move.
func (s steps) uncordon(ctx context.Context, name string, m *Move) error {
	return s.changeNode(ctx, name, func(node *corev1.Node) error {
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, isMoving)
		node.Spec.Unschedulable = m.WasCordoned
		return nil
	})
}

// drain evicts the pods whose networks nadra attached by claims from a node that moves back, and
// waits until they are gone: nadra has then detached their networks. It leaves pods to giveBack that could come back to the
// node: while the node is labelled for nadra, they would come back with claims. It does not touch other pods.
func (s steps) drain(ctx context.Context, name string, _ *Move) error {
	return s.evictAll(ctx, "node "+name, func(f *Facts) []Pod {
		return slices.DeleteFunc(f.disturbed(name, ToMultus), func(p Pod) bool { return p.Tolerates })
	})
}

// assign labels a node for nadra, and waits until Multus' pod has left it.
func (s steps) assign(ctx context.Context, name string, _ *Move) error {
	if err := s.labelNode(ctx, name, v1alpha1.OwnerNadra); err != nil {
		return err
	}
	return s.await(ctx, s.GateTimeout, reason.MultusPodRemains, func(ctx context.Context) (string, error) {
		pods, err := s.multusPodsOn(ctx, name)
		if err != nil || len(pods) == 0 {
			return "", err
		}
		return fmt.Sprintf("pod %s/%s of Multus is still on the node", pods[0].Namespace, pods[0].Name), nil
	})
}

// inspect checks, while Multus still serves the node, that nadra's driver can adopt what Multus has
// attached there.
func (s steps) inspect(ctx context.Context, name string, _ *Move) error {
	var found probe.MultusReport
	if err := s.look(ctx, name, "check", &found, "SYS_ADMIN"); err != nil || s.DryRun != "" {
		return err
	}
	s.Say("node %s: %d networks of %d sandboxes of Multus can be adopted; %d sandboxes are gone", name, found.Networks, found.Sandboxes, found.Gone)
	for _, missing := range found.Missing {
		s.Say("node %s: pod %s: there is no such interface; the kernel does not show a device that a program drives itself", name, missing)
	}
	return nil
}

// adopt waits until nadra's driver has adopted what Multus has attached on the node.
func (s steps) adopt(ctx context.Context, name string, _ *Move) error {
	return s.look(ctx, name, "adopted", &probe.MultusReport{})
}

// driverWait limits the wait for a driver on a node that it is about to lose.
const driverWait = time.Minute

// release labels a node as one that is given back, and waits until nadra's driver has given back what
// it has adopted: before Multus is in the runtime's configuration, so that no DEL runs twice. It first
// waits until the driver is ready, because pods that started while it was away, after a boot for example,
// get their networks when it comes back. A driver that stays away does not stop the rollback.
func (s steps) release(ctx context.Context, name string, _ *Move) error {
	err := s.await(ctx, min(s.GateTimeout, driverWait), reason.DriverNotServing, func(ctx context.Context) (string, error) { return s.driverMissing(ctx, name) })
	switch {
	case reason.Of(err) == reason.DriverNotServing:
		s.Say("node %s: a pod that has started without the driver may lack its networks, delete it: %v", name, err)
	case err != nil:
		return err
	}
	if err := s.labelNode(ctx, name, v1alpha1.OwnerReturning); err != nil {
		return err
	}
	return s.look(ctx, name, "returned", &probe.MultusReport{}, "SYS_ADMIN")
}

// giveBack waits until Multus' pod is ready on the node, and until the container runtime has Multus'
// configuration, and then removes the label: until then nadra attaches new pods. Last it evicts the pods that drain has left:
// Multus attaches those that come back.
func (s steps) giveBack(ctx context.Context, name string, _ *Move) error {
	count := len(s.plan.Multus)
	err := s.await(ctx, s.GateTimeout, reason.MultusPodNotReady, func(ctx context.Context) (string, error) {
		pods, err := s.multusPodsOn(ctx, name)
		switch {
		case err != nil:
			return "", err
		case len(pods) < count:
			return "Multus has no pod on the node", nil
		}
		for _, p := range pods {
			if !podutils.IsPodReady(&p) {
				return fmt.Sprintf("pod %s/%s of Multus is not ready", p.Namespace, p.Name), nil
			}
		}
		return "", nil
	})
	if err == nil && count > 0 {
		err = s.awaitConfiguration(ctx, name)
	}
	if err != nil {
		return err
	}
	if err := s.labelNode(ctx, name, ""); err != nil {
		return err
	}
	return s.evictAll(ctx, "node "+name, func(f *Facts) []Pod { return f.disturbed(name, ToMultus) })
}

// unconfigure takes Multus' configuration away from the container runtime.
func (s steps) unconfigure(ctx context.Context, name string, _ *Move) error {
	return s.turn(ctx, name, "off")
}

// configure gives Multus' configuration back to the container runtime.
func (s steps) configure(ctx context.Context, name string, _ *Move) error {
	return s.turn(ctx, name, "on")
}

// serve waits until nadra's driver is ready on the node, and offers networks there.
func (s steps) serve(ctx context.Context, name string, _ *Move) error {
	return s.await(ctx, s.GateTimeout, reason.DriverNotServing, func(ctx context.Context) (string, error) {
		if missing, err := s.driverMissing(ctx, name); err != nil || missing != "" {
			return missing, err
		}
		own := fields.OneTermEqualSelector(resourceapi.ResourceSliceSelectorNodeName, name).String()
		if offers, err := s.offers(ctx, metav1.ListOptions{FieldSelector: own}); err != nil || offers {
			return "", err
		}
		node, err := s.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return "", fmt.Errorf("reading its Node: %w", err)
		}
		if profile := node.Labels[v1alpha1.ProfileLabel]; profile != "" {
			if offers, err := s.offers(ctx, metav1.ListOptions{LabelSelector: v1alpha1.ProfileLabel + "=" + profile}); err != nil || offers {
				return "", err
			}
		}
		return "nadra's driver offers no network on the node: read its log", nil
	})
}

// offers reports whether any of some slices is nadra's and has a device.
func (s steps) offers(ctx context.Context, of metav1.ListOptions) (bool, error) {
	list, err := s.Kube.ResourceV1().ResourceSlices().List(ctx, of)
	if err != nil {
		return false, fmt.Errorf("listing its ResourceSlices: %w", err)
	}
	return slices.ContainsFunc(list.Items, func(slice resourceapi.ResourceSlice) bool {
		return slice.Spec.Driver == v1alpha1.DriverName && len(slice.Spec.Devices) > 0
	}), nil
}

// driverMissing returns why nadra's driver is not ready on the node, or an empty string if it is.
func (s steps) driverMissing(ctx context.Context, name string) (string, error) {
	pods, err := podsOn(ctx, s.Kube, name)
	if err != nil {
		return "", err
	}
	if slices.ContainsFunc(pods, func(p corev1.Pod) bool { return installation.DriverReady(&p, s.Nodes.Namespace) }) {
		return "", nil
	}
	return "nadra's driver has no pod in namespace " + s.Nodes.Namespace + " that is ready on the node", nil
}

// verify runs canaries on the node. It first waits for the driver again: after an interruption the step serve may
// be long past, and a node that offers no networks would need no canary.
func (s steps) verify(ctx context.Context, name string, m *Move) error {
	if err := s.serve(ctx, name, m); err != nil {
		return err
	}
	return s.test(ctx, s.Runner.Verify, name)
}

// test runs canaries of a node or namespace, unless there are none. A dry run runs none.
func (r *run) test(ctx context.Context, canaries func(context.Context, string) error, name string) error {
	if canaries == nil || r.DryRun != "" {
		return nil
	}
	err := canaries(ctx, name)
	if ctx.Err() != nil {
		return err
	}
	return reason.Wrap(reason.CanaryFailed, err)
}

// awaitRecovery waits until as many pods of the disturbed workloads are ready as before.
func (s steps) awaitRecovery(ctx context.Context, _ string, m *Move) error {
	return s.awaitPods(ctx, m.Ready, func(*Facts) string { return "" })
}

// settling is the time in which the controller of a DaemonSet sees that it is to have a pod on an uncordoned node.
const settling = 10 * time.Second

// awaitPods waits until nothing is missing, and as many pods of each workload are ready as before, or as it is to have
// now: people scale workloads down, and delete them.
func (r *run) awaitPods(ctx context.Context, before []WorkloadPods, missing func(*Facts) string) error {
	began := time.Now()
	return r.await(ctx, r.GateTimeout, reason.PodsNotReady, func(ctx context.Context) (string, error) {
		f, err := r.facts(ctx)
		if err != nil {
			return "", err
		}
		if what := missing(&f); what != "" {
			return what, nil
		}
		for _, b := range before {
			now := f.Ready(b.Workload)
			if now < b.Pods && (now < f.wanted(b.Workload) || time.Since(began) < min(settling, r.GateTimeout/2)) {
				return fmt.Sprintf("%s has %d ready pods, and had %d before", b.Workload, now, b.Pods), nil
			}
		}
		return "", nil
	})
}
