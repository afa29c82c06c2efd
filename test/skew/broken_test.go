//go:build e2e

package skew

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/test/lab"
)

// podsOfBroken is the number of pods that live while a new version cannot start.
const podsOfBroken = 8

// hanging is how long a program runs that is not ready, until it counts as one that hangs.
const hanging = 5 * time.Second

// TestBrokenVersion rolls out versions that cannot start: the driver on the node goes on, and
// going back is one command.
func TestBrokenVersion(t *testing.T) {
	f, c := setup(t)
	f.Must(now.install(f.Ctx, f.Cluster))
	serving := c.driver(f)
	for name, patch := range map[string]string{
		"a flag that it does not know": `[{"op":"add","path":"/spec/template/spec/containers/0/args/-","value":"--of-a-later-version"}]`,
		"a program that only hangs":    `[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"localhost/test:1"},{"op":"add","path":"/spec/template/spec/containers/0/command","value":["/bin/sh","-c","sleep infinity"]}]`,
		"an image that does not exist": `[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"localhost/nadra-node:absent"},{"op":"replace","path":"/spec/template/spec/containers/0/imagePullPolicy","value":"Never"}]`,
	} {
		_, err := f.Cluster.Kubectl(f.Ctx, "-n", "nadra", "patch", "daemonset/nadra-node", "--type=json", "-p", patch)
		f.Must(err)
		began := time.Now()
		all, err := c.during(f.Ctx, podsOfBroken, func(ctx context.Context) error { return c.oneIsBroken(ctx, serving) })
		f.Must(err)
		if failed := failures(all); len(failed) > 0 {
			t.Errorf("with %s: %d pods failed:\n%s", name, len(failed), strings.Join(failed, "\n"))
		}
		_, err = f.Cluster.Kubectl(f.Ctx, "-n", "nadra", "rollout", "undo", "daemonset/nadra-node")
		f.Must(err)
		f.Must(rolledOut(f.Ctx, f.Cluster))
		if after := c.driver(f); after.UID != serving.UID || after.Status.ContainerStatuses[0].RestartCount != 0 {
			t.Errorf("with %s: pod %s serves after it, started %d times more; want %s as before", name, after.Name, after.Status.ContainerStatuses[0].RestartCount, serving.Name)
		}
		t.Logf("with %s: %d pods, slowest %s, there and back in %s", name, len(all), slowest(all).waited, time.Since(began).Round(time.Second))
	}
}

// TestNewDriverDies rolls out a version that takes over and then ends, because another program has
// its port: it is never Ready, and the driver of the old pod takes the state directory again.
func TestNewDriverDies(t *testing.T) {
	f, c := setup(t)
	f.Must(now.install(f.Ctx, f.Cluster))
	serving := c.driver(f)
	const patch = `[{"op":"add","path":"/spec/template/spec/containers/0/args/-","value":"--http-address=:10250"}]` // the kubelet's
	_, err := f.Cluster.Kubectl(f.Ctx, "-n", "nadra", "patch", "daemonset/nadra-node", "--type=json", "-p", patch)
	f.Must(err)
	f.Eventually(2*time.Minute, func(ctx context.Context) error {
		out, err := f.Cluster.Kubectl(ctx, "-n", "nadra", "logs", serving.Name)
		if err == nil && !strings.Contains(out, "has ended; starting again") {
			err = fmt.Errorf("pod %s has not started again yet", serving.Name)
		}
		return err
	})
	_, err = f.Cluster.Kubectl(f.Ctx, "-n", "nadra", "rollout", "undo", "daemonset/nadra-node")
	f.Must(err)
	f.Must(rolledOut(f.Ctx, f.Cluster))
	if after := c.driver(f); after.UID != serving.UID {
		t.Errorf("pod %s serves after it, want %s", after.Name, serving.Name)
	}
	// The new version may have taken over once more before it was taken back, and the kubelet asks for readiness rarely.
	f.Eventually(time.Minute, func(ctx context.Context) error {
		_, err := f.Cluster.Kubectl(ctx, "get", "--raw", "/api/v1/namespaces/nadra/pods/"+serving.Name+":9078/proxy/readyz")
		return err
	})
	all, err := c.during(f.Ctx, podsOfBroken, func(context.Context) error { return nil })
	f.Must(err)
	if failed := failures(all); len(failed) > 0 {
		t.Errorf("%d pods failed:\n%s", len(failed), strings.Join(failed, "\n"))
	}
}

// driver returns the only pod of the driver.
func (c *churn) driver(f *lab.Fixture) corev1.Pod {
	f.Helper()
	var out corev1.Pod
	f.Eventually(time.Minute, func(ctx context.Context) error {
		pods, err := c.Kube.CoreV1().Pods("nadra").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(pods.Items) != 1 || !lab.IsReady(&pods.Items[0]) {
			return fmt.Errorf("the driver has %d pods, or is not Ready; want one that is", len(pods.Items))
		}
		out = pods.Items[0]
		return nil
	})
	return out
}

// oneIsBroken waits until the new version has failed to start beside the one that serves.
func (c *churn) oneIsBroken(ctx context.Context, serving corev1.Pod) error {
	return lab.Eventually(ctx, time.Minute, func(ctx context.Context) error {
		pods, err := c.Kube.CoreV1().Pods("nadra").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		broken := false
		for i := range pods.Items {
			p := &pods.Items[i]
			if p.UID == serving.UID {
				if !lab.IsReady(p) {
					return fmt.Errorf("pod %s is not Ready any more", p.Name)
				}
				continue
			}
			for _, s := range p.Status.ContainerStatuses {
				if s.Ready {
					return fmt.Errorf("pod %s is Ready", p.Name)
				}
				hangs := s.State.Running != nil && time.Since(s.State.Running.StartedAt.Time) > hanging
				broken = broken || hangs || s.RestartCount > 0 || s.State.Waiting != nil && s.State.Waiting.Reason != "ContainerCreating"
			}
		}
		if !broken {
			return fmt.Errorf("no pod has failed to start yet")
		}
		return nil
	})
}
