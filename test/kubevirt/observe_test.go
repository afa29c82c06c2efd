//go:build e2e

package kubevirt

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// link is what ip prints about an interface.
type link struct {
	Name    string `json:"ifname"`
	Address string `json:"address"`
	Info    struct {
		Kind string `json:"info_kind"`
	} `json:"linkinfo"`
}

// links returns the interfaces in a pod's network namespace, without lo, by name.
func (f *fixture) links(p *corev1.Pod) map[string]link {
	f.Helper()
	var list []link
	f.Must(json.Unmarshal([]byte(f.inPod(p, "ip -j -d link")), &list))
	out := map[string]link{}
	for _, l := range list {
		if l.Name != "lo" {
			out[l.Name] = l
		}
	}
	return out
}

// inPod runs a command of the node in a pod's network namespace.
func (f *fixture) inPod(p *corev1.Pod, command string) string {
	f.Helper()
	n := f.NodeOf(p)
	s, err := n.PodSandbox(f.Ctx, string(p.UID))
	f.Must(err)
	out, err := n.Exec(f.Ctx, "nsenter", "--net="+s.NetNS, "sh", "-ec", command)
	f.Must(err)
	return string(out)
}

// checkLauncher checks that a launcher pod has exactly these interfaces besides eth0, that each of its containers
// references the claim, and that none was refused or restarted.
func (f *fixture) checkLauncher(p *corev1.Pod, want ...string) {
	f.Helper()
	var have []string
	for name := range f.links(p) {
		if name != "eth0" {
			have = append(have, name)
		}
	}
	slices.Sort(have)
	slices.Sort(want)
	if !slices.Equal(have, want) {
		f.Errorf("pod %s has interfaces %v besides eth0, want %v", p.Name, have, want)
	}
	if p.Spec.RestartPolicy != corev1.RestartPolicyNever {
		f.Errorf("pod %s has restartPolicy %s: virt-controller wrote Never until now", p.Name, p.Spec.RestartPolicy)
	}
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		if len(c.Resources.Claims) != 1 {
			f.Errorf("container %s of pod %s references claims %v, want one", c.Name, p.Name, c.Resources.Claims)
		}
	}
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if s.RestartCount > 0 || s.State.Running == nil {
			f.Errorf("container %s of pod %s was restarted or does not run: %+v", s.Name, p.Name, s)
		}
	}
}

// podInterface returns the pod's interface that virt-controller shows for a machine's network, once the network is in
// the pod.
func (f *fixture) podInterface(name, network string) string {
	f.Helper()
	out := ""
	f.instance(name, "shows network "+network, func(i *unstructured.Unstructured) error {
		out = shownInterface(i, network)
		if out == "" {
			return fmt.Errorf("virt-controller does not show network %s in the pod: %v", network, i.Object["status"].(map[string]any)["interfaces"])
		}
		return nil
	})
	return out
}

// shownInterface returns the pod's interface of a network that virt-controller has seen in network-status, or "".
func shownInterface(i *unstructured.Unstructured, network string) string {
	all, _, _ := unstructured.NestedSlice(i.Object, "status", "interfaces")
	for _, item := range all {
		status := item.(map[string]any)
		source, _ := status["infoSource"].(string)
		if status["name"] == network && strings.Contains(source, "multus-status") {
			pod, _ := status["podInterfaceName"].(string)
			return pod
		}
	}
	return ""
}
