//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

const statusConf = `{"cniVersion":"1.0.0","type":"bridge","bridge":"br-status","ipam":{"type":"host-local","subnet":"10.72.0.0/24"}}`

// driverRole is the ClusterRole of the driver.
const driverRole = "nadra-node"

// refuseStatus revokes the driver's right to write pods/status, and returns a function that
// restores it.
func (f *fixture) refuseStatus() (restore func()) {
	f.Helper()
	roles := f.Kube.RbacV1().ClusterRoles()
	role, err := roles.Get(f.Ctx, driverRole, metav1.GetOptions{})
	f.Must(err)
	original := slices.Clone(role.Rules)
	set := func(rules []rbacv1.PolicyRule) {
		f.Helper()
		current, err := roles.Get(f.Ctx, driverRole, metav1.GetOptions{})
		f.Must(err)
		current.Rules = rules
		_, err = roles.Update(f.Ctx, current, metav1.UpdateOptions{})
		f.Must(err)
	}
	without := slices.DeleteFunc(slices.Clone(original), func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, "pods/status") })
	if len(without) == len(original) {
		f.Fatalf("ClusterRole %s has no rule for pods/status", driverRole)
	}
	set(without)
	restore = func() { set(original) }
	f.Cleanup(restore)
	return restore
}

// hasRun returns an error if a container of the pod has run.
func (f *fixture) hasRun(pod string) error {
	p, err := f.Kube.CoreV1().Pods(f.NS).Get(f.Ctx, pod, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, s := range p.Status.ContainerStatuses {
		if lab.HasRun(s) {
			return fmt.Errorf("container %s of pod %s has been started: %+v", s.Name, pod, s.State)
		}
	}
	return nil
}

// hasEvent returns an error unless one Event of the pod contains all parts.
func (f *fixture) hasEvent(pod string, parts ...string) error {
	return f.podEvent(pod, parts...)(f.Ctx)
}

// TestNetworkStatusRefused revokes the driver's right to store network-status. No container
// may start, the pods' Events must say why, and a deleted pod must go. The others must start
// once the right is back, also one that is never restarted and whose attach outlasts the hooks:
// its container may not come to the gate, whose refusal would be final.
func TestNetworkStatusRefused(t *testing.T) {
	f := setup(t, "status-refused")
	f.bridge("br-status")
	installPlugin(t, "nadra-slow", `[ "$CNI_COMMAND" = ADD ] || exit 0; sleep 4; `+passOn)
	f.nad("blue", statusConf)
	f.nad("slow", chained("br-status", "10.72.1.0/24", "nadra-slow"))
	for _, network := range []string{"blue", "slow"} {
		f.Must(f.CreateTemplate(f.Ctx, lab.Template(f.NS, network, lab.Want{Network: network})))
		f.Must(f.Published(f.Ctx, f.NS+"/"+network))
	}
	restore := f.refuseStatus()
	pods := []string{"always", "never", "leaving"}
	for _, name := range pods {
		pod := needsNetwork(lab.Pod(f.NS, name, "blue"))
		if name == "never" {
			pod = needsNetwork(lab.Pod(f.NS, name, "slow"))
			pod.Spec.RestartPolicy = corev1.RestartPolicyNever
		}
		_, err := f.CreatePod(f.Ctx, pod)
		f.Must(err)
	}
	for _, name := range pods {
		f.Eventually(time.Minute, func(context.Context) error {
			return errors.Join(f.hasEvent(name, reason.EventNetworkStatusLate+": "+lab.Code(reason.StatusNotStored), "2s"), f.hasEvent(name, "forbidden"))
		})
		f.Must(f.hasRun(name))
	}
	// The kubelet asks for its container again and again, and reports the refusal.
	f.Eventually(time.Minute, func(context.Context) error {
		return f.hasEvent("never", "Failed: ", lab.Code(reason.StatusNotStored), f.NS+"/never")
	})
	begun := time.Now()
	f.Must(f.DeletePod(f.Ctx, f.NS, "leaving"))
	if took := time.Since(begun); took > 45*time.Second {
		t.Errorf("the deleted pod was gone after %s: its containers were held until the gate's time was over", took)
	}
	for _, name := range pods[:2] {
		f.Must(f.hasRun(name))
	}
	restore()
	for _, name := range pods[:2] {
		pod, err := f.Ready(f.Ctx, f.NS, name, 2*time.Minute)
		f.Must(err)
		if len(f.statuses(pod)) != 2 {
			t.Errorf("network-status of pod %s: %+v", name, f.statuses(pod))
		}
	}
	never, err := f.Kube.CoreV1().Pods(f.NS).Get(f.Ctx, "never", metav1.GetOptions{})
	f.Must(err)
	if n := never.Status.ContainerStatuses[0].RestartCount; n != 0 {
		t.Errorf("the pod that is never restarted was, %d times", n)
	}
	f.Must(f.DeletePod(f.Ctx, f.NS, "never")) // while its plugin is there
}

// hold is a CNI plugin for the end of a chain whose ADD waits until the file
// release is there.
const (
	holdDir = "/run/nadra-e2e-hold"
	hold    = `#!/bin/sh
input=$(cat)
case $CNI_COMMAND in
VERSION) echo '{"cniVersion":"1.1.0","supportedVersions":["0.4.0","1.0.0","1.1.0"]}' ;;
ADD)
	: >` + holdDir + `/begun
	while [ ! -e ` + holdDir + `/release ]; do sleep 0.05; done
	echo "$input" | sed 's/.*"prevResult"://; s/,"type":"hold"}$//' ;;
esac
`
)

// TestAPIServerAwayWhenNetworkStatusIsStored stops the API server between the last ADD and
// the write of network-status. The container of a pod that is never restarted must wait,
// and start when the API server is back.
func TestAPIServerAwayWhenNetworkStatusIsStored(t *testing.T) {
	f := setup(t, "status-away")
	f.bridge("br-status")
	f.Must(lab.WriteHostFile(f.node, f.at.CNIPrograms+"/hold", []byte(hold), 0o755))
	f.sh("mkdir -p " + holdDir)
	f.undo = append(f.undo, "rm -rf "+holdDir+" "+f.at.CNIPrograms+"/hold")
	f.nad("blue", `{"cniVersion":"1.0.0","name":"status","plugins":[{"type":"bridge","bridge":"br-status","ipam":{"type":"host-local","subnet":"10.72.0.0/24"}},{"type":"hold"}]}`)
	f.Must(f.CreateTemplate(f.Ctx, lab.Template(f.NS, "web", lab.Want{Network: "blue"})))
	pod := needsNetwork(lab.Pod(f.NS, "never", "web"))
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	pod, err := f.CreatePod(f.Ctx, pod)
	f.Must(err)
	f.Eventually(time.Minute, func(context.Context) error {
		if strings.TrimSpace(f.sh("ls "+holdDir)) == "" {
			return errors.New("the plugin has not begun")
		}
		return nil
	})
	claim := f.claimWhen(pod, func(*resourceapi.ResourceClaim) error { return nil })
	control := f.Cluster.ControlPlane()
	f.Must(control.Kill(f.Ctx, cluster.APIServer, unix.SIGSTOP))
	goOn := func() { f.Must(control.Kill(context.WithoutCancel(f.Ctx), cluster.APIServer, unix.SIGCONT)) }
	t.Cleanup(goOn)
	f.sh("touch " + holdDir + "/release")
	failed := fmt.Sprintf(`grep -h 'pod="%s/never"' /var/log/pods/*nadra-node*/*/*.log | grep ' err=' || true`, f.NS)
	f.Eventually(2*time.Minute, func(context.Context) error {
		if f.sh(failed) == "" {
			return errors.New("the driver has logged no error about the pod: it has not tried to store network-status")
		}
		return nil
	})
	if record := f.sh("cat " + f.at.State + "/claims/" + string(claim.UID) + ".json"); !strings.Contains(record, `"phase":"Attached"`) || strings.Contains(record, `"statusStored":true`) {
		t.Errorf("the pod is to be attached, with no network-status stored: %s", record)
	}
	n, err := f.node.Runtime().RunningContainers(f.Ctx, string(pod.UID))
	f.Must(err)
	if n != 0 {
		t.Errorf("%d containers of the pod run, want none", n)
	}
	goOn()
	ready, err := f.Ready(f.Ctx, f.NS, "never", 2*time.Minute)
	f.Must(err)
	if n := ready.Status.ContainerStatuses[0].RestartCount; n != 0 || len(f.statuses(ready)) != 2 {
		t.Errorf("restarts %d, network-status %+v", n, f.statuses(ready))
	}
}
