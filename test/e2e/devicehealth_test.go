//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/test/lab"
)

// TestDeviceHealth checks the health of a pod's network in its status (KEP-4680): it must
// become unhealthy, with the reason, when the master goes or a plugin fails STATUS, and
// healthy again after the repair, also if the driver restarts in between.
func TestDeviceHealth(t *testing.T) {
	f := setup(t, "ill")
	f.master("lan9")
	f.bridge("br-ill")
	installPlugin(t, "nadra-ill", `case "$CNI_COMMAND" in ADD) `+passOn+`;; STATUS) [ ! -e /run/nadra-ill ] ||
		{ echo '{"cniVersion":"1.1.0","code":50,"msg":"the fabric manager is down"}'; exit 1; };; esac`)
	f.nad("mac", strings.NewReplacer("lan0", "lan9", "10.50.", "10.80.").Replace(macvlanConf))
	f.nad("asked", strings.Replace(chained("br-ill", "10.81.0.0/24", "nadra-ill"), "1.0.0", "1.1.0", 1))
	if on, err := lab.FeatureOn(f.Ctx, f.Kube, "ResourceHealthStatus", f.node.Name()); err != nil || !on { // before 1.36
		f.Must(err)
		if told := f.start("one", lab.Want{Network: "mac"}).Status.ContainerStatuses[0].AllocatedResourcesStatus; len(told) > 0 {
			t.Errorf("without the feature gate the pod's status has the health %v", told)
		}
		f.Must(f.DeletePod(f.Ctx, f.NS, "one"))
		return
	}
	for name, network := range map[string]string{"one": "mac", "two": "asked"} {
		f.start(name, lab.Want{Network: network})
		f.becomes(name, corev1.ResourceHealthStatusHealthy)
	}

	f.start("both", lab.Want{Network: "mac"}, lab.Want{Network: "asked"})
	f.healthOfEach("both", corev1.ResourceHealthStatusHealthy, corev1.ResourceHealthStatusHealthy)

	f.sh("ip link del lan9")
	f.healthOfEach("both", corev1.ResourceHealthStatusHealthy, corev1.ResourceHealthStatusUnhealthy)
	f.becomes("one", corev1.ResourceHealthStatusUnhealthy, "ill/mac", lab.Code(reason.MasterMissing), `"lan9"`)
	f.sh("touch /run/nadra-ill")
	f.undo = append(f.undo, "rm -f /run/nadra-ill")
	f.becomes("two", corev1.ResourceHealthStatusUnhealthy, "ill/asked", "the fabric manager is down", "code 50")

	f.sh("kill -9 " + f.driverPIDs())
	f.sh("rm /run/nadra-ill; ip link add lan9 type veth peer name lan9p && ip link set lan9 up && ip link set lan9p up")
	f.becomes("one", corev1.ResourceHealthStatusHealthy)
	f.becomes("two", corev1.ResourceHealthStatusHealthy)
	for _, name := range []string{"one", "two", "both"} {
		f.Must(f.DeletePod(f.Ctx, f.NS, name))
	}
}

// healthOfEach waits until a pod's networks, all of one claim, have these health values, in
// alphabetical order, each under a resource ID of its own.
func (f *fixture) healthOfEach(pod string, want ...corev1.ResourceHealthStatus) {
	f.Helper()
	f.Eventually(2*time.Minute, func(ctx context.Context) error {
		p, err := f.Kube.CoreV1().Pods(f.NS).Get(ctx, pod, metav1.GetOptions{})
		if err != nil {
			return err
		}
		var got []corev1.ResourceHealthStatus
		ids := map[corev1.ResourceID]bool{}
		for _, of := range p.Status.ContainerStatuses[0].AllocatedResourcesStatus {
			for _, r := range of.Resources {
				got = append(got, r.Health)
				ids[r.ResourceID] = true
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) || len(ids) != len(want) {
			return fmt.Errorf("the networks of %s are %q with the IDs %v, want %q", pod, got, ids, want)
		}
		return nil
	})
}

// becomes waits until the pod's only network has a health in the pod's status, with all
// parts in the message.
func (f *fixture) becomes(pod string, want corev1.ResourceHealthStatus, parts ...string) {
	f.Helper()
	began := time.Now()
	f.Eventually(2*time.Minute, func(ctx context.Context) error {
		p, err := f.Kube.CoreV1().Pods(f.NS).Get(ctx, pod, metav1.GetOptions{})
		if err != nil {
			return err
		}
		all := p.Status.ContainerStatuses[0].AllocatedResourcesStatus
		if len(all) != 1 || len(all[0].Resources) != 1 {
			return fmt.Errorf("allocatedResourcesStatus of %s: %+v", pod, all)
		}
		message := ""
		if m := all[0].Resources[0].Message; m != nil {
			message = *m
		}
		if got := all[0].Resources[0].Health; got != want {
			return fmt.Errorf("%s of %s is %s %q, want %s", all[0].Name, pod, got, message, want)
		}
		return contains("the message of "+pod, message, parts)
	})
	f.Logf("%s is %s after %s", pod, want, time.Since(began).Round(100*time.Millisecond))
}
