//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

// powerOnDir has the node's file in which containers without their network report themselves.
const powerOnDir = "/var/lib/nadra-poweron"

// TestPowerOn cuts a node's power, and boots it while the driver cannot read what it decides by: the API server
// is away, then slow, or refuses the driver's watches, which come back one after the other, in two orders. Pods
// from before and new ones, with a claim and without, start meanwhile. No container runs without its network,
// and all pods have it in the end.
func TestPowerOn(t *testing.T) {
	f := ownedBlue(t, "power-on")
	f.Must(f.CreateTemplate(f.Ctx, lab.Template(f.NS, "blue", lab.Want{Network: "blue"})))
	f.undo = append(f.undo, "rm -rf "+powerOnDir)
	f.startPods("before")
	f.part("the API server is away, then slow", (*fixture).slowPowerOn)
	watched := []string{"nodes", "namespaces", "network-attachment-definitions", "pods"}
	f.part("watches come back, the Node's first", func(f *fixture) { f.powerOnWithout(watched) })
	slices.Reverse(watched)
	f.part("watches come back, the Node's last", func(f *fixture) { f.powerOnWithout(watched) })
}

// startPods creates a pod with a claim and one without, which both report if they lack net1. The one without
// requires the driver, as the webhook has it.
func (f *fixture) startPods(name string) {
	f.Helper()
	claimed, unclaimed := lab.Pod(f.NS, name+"-claimed", "blue"), f.unclaimedPod(name+"-unclaimed", "blue")
	unclaimed.Annotations["required-plugins.noderesource.dev"] = "[nadra]"
	unclaimed.Spec.NodeName = f.node.Name()
	for _, pod := range []*corev1.Pod{claimed, unclaimed} {
		c := &pod.Spec.Containers[0]
		c.Command = []string{"/bin/sh", "-c", "ip link show net1 || { echo " + pod.Name + " >>/reports/missing; exit 42; }; " + sleeping}
		c.VolumeMounts = []corev1.VolumeMount{{Name: "reports", MountPath: "/reports"}}
		create := corev1.HostPathDirectoryOrCreate
		pod.Spec.Volumes = []corev1.Volume{{Name: "reports", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: powerOnDir, Type: &create}}}}
		_, err := f.CreatePod(f.Ctx, pod)
		f.Must(err)
	}
}

// haveNetworks waits until all pods have net1 in a sandbox of this boot, and fails the test if a container has run without.
func (f *fixture) haveNetworks() {
	f.Helper()
	pods, err := f.Kube.CoreV1().Pods(f.NS).List(f.Ctx, metav1.ListOptions{})
	f.Must(err)
	for _, p := range pods.Items {
		f.Eventually(3*time.Minute, func(ctx context.Context) error {
			_, err := f.Exec(ctx, f.NS, p.Name, "ip", "addr", "show", "net1")
			return err
		})
		_, err := f.Ready(f.Ctx, f.NS, p.Name, time.Minute)
		f.Must(err)
	}
	bare := strings.Fields(f.sh("cat " + powerOnDir + "/missing 2>/dev/null || true"))
	f.Logf("power-on: pods=%d bare=%d", len(pods.Items), len(bare))
	if len(bare) > 0 {
		f.Errorf("containers of these pods have run without net1: %s", bare)
	}
}

func (f *fixture) slowPowerOn() {
	f.haveNetworks()
	control := f.Cluster.ControlPlane()
	slowed := make(chan error, 1)
	f.Must(cluster.LosePower(f.Ctx, f.node, func() {
		f.Must(control.Kill(f.Ctx, cluster.APIServer, unix.SIGSTOP))
		go func() {
			time.Sleep(5 * time.Second) // the API server is away
			end := control.Slow(cluster.APIServer)
			time.Sleep(15 * time.Second)
			slowed <- end()
		}()
	}))
	f.startPods("slow")
	f.Must(<-slowed)
	f.haveNetworks()
}

// powerOnWithout boots the node without the driver's rights to read resources, and gives these back in order.
func (f *fixture) powerOnWithout(resources []string) {
	roles := f.Kube.RbacV1().ClusterRoles()
	rules := func() []rbacv1.PolicyRule {
		role, err := roles.Get(f.Ctx, "nadra-node", metav1.GetOptions{})
		f.Must(err)
		return role.Rules
	}
	set := func(rules []rbacv1.PolicyRule) {
		role, err := roles.Get(f.Ctx, "nadra-node", metav1.GetOptions{})
		f.Must(err)
		role.Rules = rules
		_, err = roles.Update(f.Ctx, role, metav1.UpdateOptions{})
		f.Must(err)
	}
	all := rules()
	f.Cleanup(func() { set(all) })
	without := func(hidden []string) (rest []rbacv1.PolicyRule) {
		for _, r := range all {
			r.Resources = slices.DeleteFunc(slices.Clone(r.Resources), func(name string) bool { return slices.Contains(hidden, name) })
			if len(r.Resources) > 0 {
				rest = append(rest, r)
			}
		}
		return rest
	}
	f.Must(cluster.LosePower(f.Ctx, f.node, func() { set(without(resources)) }))
	f.startPods(fmt.Sprintf("without-%s", resources[0]))
	for i := range resources {
		f.Eventually(time.Minute, func(context.Context) error {
			if f.driverPIDs() == "" {
				return fmt.Errorf("no driver runs without the right to read %v", resources[i:])
			}
			return nil
		})
		time.Sleep(4 * time.Second) // a time in which the driver must do without
		set(without(resources[i+1:]))
	}
	f.haveNetworks()
}
