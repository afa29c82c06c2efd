package lab

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// ControllerNamespace is the controller's namespace.
const ControllerNamespace = "nadra-system"

// owner is the label with the owner of a node.
const owner = "nadra.dev/owner"

// InstallController installs manifests/drop-in on a cluster that has the driver, labels all
// nodes for nadra, and waits until the API server knows the webhook. flags are added to the
// controller's.
func (l *Lab) InstallController(ctx context.Context, flags ...string) error {
	for _, n := range l.Cluster.Nodes() {
		if err := n.ImportImage(ctx, ControllerArchive()); err != nil {
			return fmt.Errorf("importing the controller's image (run `make image`): %w", err)
		}
	}
	if _, err := l.Cluster.Kubectl(ctx, "label", "nodes", "--all", "--overwrite", owner+"=nadra"); err != nil {
		return fmt.Errorf("labelling the nodes for nadra: %w", err)
	}
	if err := apply(ctx, l.Cluster, "drop-in"); err != nil {
		return err
	}
	if len(flags) > 0 {
		patch := `[{"op":"add","path":"/spec/template/spec/containers/0/args","value":["--namespace=$(NAMESPACE)","` + strings.Join(flags, `","`) + `"]}]`
		if _, err := l.Cluster.Kubectl(ctx, "-n", ControllerNamespace, "patch", "deployment/nadra-controller", "--type=json", "-p", patch); err != nil {
			return fmt.Errorf("setting the controller's flags: %w", err)
		}
	}
	if err := l.waitRollout(ctx); err != nil {
		return err
	}
	return l.WaitController(ctx)
}

// waitRollout waits for the driver, whose flags have changed.
func (l *Lab) waitRollout(ctx context.Context) error {
	if out, err := l.Cluster.Kubectl(ctx, "-n", "nadra", "rollout", "status", "daemonset/nadra-node", "--timeout=90s"); err != nil {
		return fmt.Errorf("waiting for the driver: %w\n%s", err, out)
	}
	if err := alone(ctx, l.Cluster); err != nil {
		return err
	}
	return l.WaitDriver(ctx)
}

// WaitController waits until all replicas are ready and the webhook's configuration has
// their CA.
func (l *Lab) WaitController(ctx context.Context) error {
	if out, err := l.Cluster.Kubectl(ctx, "-n", ControllerNamespace, "rollout", "status", "deployment/nadra-controller", "--timeout=90s"); err != nil {
		return fmt.Errorf("waiting for the controller: %w\n%s%s", err, out, l.ControllerLog(ctx))
	}
	return Eventually(ctx, 30*time.Second, func(ctx context.Context) error {
		c, err := l.Kube.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(ctx, "nadra-controller", metav1.GetOptions{})
		if err == nil && len(c.Webhooks[0].ClientConfig.CABundle) == 0 {
			err = fmt.Errorf("the webhook has no caBundle\n%s", l.ControllerLog(ctx))
		}
		return err
	})
}

// ScaleController sets the number of replicas and waits until so many are ready.
func (l *Lab) ScaleController(ctx context.Context, replicas int) error {
	if _, err := l.Cluster.Kubectl(ctx, "-n", ControllerNamespace, "scale", "deployment/nadra-controller", fmt.Sprintf("--replicas=%d", replicas)); err != nil {
		return err
	}
	return Eventually(ctx, 5*time.Minute, func(ctx context.Context) error {
		pods, err := l.Kube.CoreV1().Pods(ControllerNamespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=nadra-controller"})
		if err != nil {
			return err
		}
		ready := 0
		for i := range pods.Items {
			for _, c := range pods.Items[i].Status.ContainerStatuses {
				if c.Ready {
					ready++
				}
			}
		}
		if len(pods.Items) != replicas || ready != replicas {
			return fmt.Errorf("%d of %d controllers are ready, want %d", ready, len(pods.Items), replicas)
		}
		return nil
	})
}

// Uninstall stops the controller and runs its uninstalling Job. It returns the Job's log.
func (l *Lab) Uninstall(ctx context.Context) (string, error) {
	if err := l.ScaleController(ctx, 0); err != nil {
		return "", err
	}
	if _, err := l.Cluster.Kubectl(ctx, "-n", ControllerNamespace, "scale", "deployment/nadra-certificates", "--replicas=0"); err != nil {
		return "", err
	}
	dir := filepath.Join(Root(), "manifests", "drop-in", "uninstall")
	if _, err := l.Cluster.Kubectl(ctx, "apply", "-k", dir); err != nil {
		return "", err
	}
	_, err := l.Cluster.Kubectl(ctx, "-n", ControllerNamespace, "wait", "--for=condition=Complete", "--timeout=60s", "job/nadra-uninstall")
	printed, logErr := l.Cluster.Kubectl(ctx, "-n", ControllerNamespace, "logs", "job/nadra-uninstall")
	if err != nil {
		return printed, fmt.Errorf("waiting for the uninstalling Job: %w\n%s", err, printed)
	}
	if _, err := l.Cluster.Kubectl(ctx, "delete", "-k", dir, "--timeout=60s"); err != nil {
		return printed, err
	}
	return printed, logErr
}

// RemoveController removes the controller and the nodes' labels, so that the driver runs
// alone, as after Install.
func (l *Lab) RemoveController(ctx context.Context) error {
	dir := filepath.Join(Root(), "manifests", "drop-in", "controller")
	if _, err := l.Cluster.Kubectl(ctx, "delete", "-k", dir, "--ignore-not-found", "--timeout=90s"); err != nil {
		return fmt.Errorf("removing the controller: %w", err)
	}
	if err := Eventually(ctx, time.Minute, l.noSharedSlices); err != nil {
		return err
	}
	if err := apply(ctx, l.Cluster, "base"); err != nil {
		return err
	}
	if _, err := l.Cluster.Kubectl(ctx, "label", "nodes", "--all", owner+"-"); err != nil {
		return fmt.Errorf("removing the nodes' labels: %w", err)
	}
	return l.waitRollout(ctx)
}

// noSharedSlices returns an error while there are slices that nodes share, which Kubernetes collects with the controller.
func (l *Lab) noSharedSlices(ctx context.Context) error {
	list, err := l.Kube.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.ProfileLabel})
	if err == nil && len(list.Items) > 0 {
		err = fmt.Errorf("%d slices of profiles outlive the controller", len(list.Items))
	}
	return err
}

// ControllerLog returns the end of the controllers' logs, for a person.
func (l *Lab) ControllerLog(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	out, err := l.Cluster.Kubectl(ctx, "-n", ControllerNamespace, "logs", "-l", "app.kubernetes.io/name=nadra-controller", "--tail=60", "--prefix")
	if err != nil {
		return err.Error()
	}
	return out
}
