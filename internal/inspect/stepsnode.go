package inspect

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// preparation is the driver's part before there is a sandbox. It says nothing
// of its success but by what comes after.
func (c *chain) preparation(w want) Step {
	ready := readiness(w.status)
	switch {
	case w.entry == nil:
		return notUsed("")
	case ready != nil && ready.Reason == reasonPrepareFailed:
		whose, do := blamed(ready.Message, prepareBlames)
		return failed(ready.Message, whose, do)
	case ready != nil, c.begun():
		return ok("on node " + c.node)
	case w.result == nil || c.node == "" || c.failed():
		return notReached()
	}
	if e := c.lastOf(eventKubeletPrepare, eventPrepareFailed); e != nil {
		whose, do := blamed(e.Message, prepareBlames)
		return failed(e.Message, whose, do)
	}
	if !c.x.drivers[c.node] && !c.x.unread[Slices] {
		return failed("node "+c.node+" has no ResourceSlice of net.nadra.dev: nadra's driver does not run there", OfCluster, noDriver)
	}
	return waiting("node "+c.node+" has not said anything yet", OfKubelet, "Wait some seconds; a Prepare that failed is tried again after 60 to 90 s.")
}

// begun reports whether the kubelet has got as far as the sandbox.
func (c *chain) begun() bool {
	s := podCondition(c.pod, corev1.PodReadyToStartContainers)
	if s != nil && s.Status == corev1.ConditionTrue || c.lastOf(eventAttaching, eventAttachFailed) != nil {
		return true
	}
	e := c.lastOf(eventKubeletSandbox)
	return e != nil && strings.Contains(e.Message, "adding network ")
}

func (c *chain) attaching(w want) Step {
	ready := readiness(w.status)
	switch {
	case w.entry == nil:
		return notUsed("")
	case ready == nil:
		return c.notAttachedYet()
	case ready.Status == metav1.ConditionTrue:
		return ok(attached(w))
	case ready.Reason == reasonPrepareFailed:
		return notReached()
	case ready.Reason == reasonCheckFailed:
		return failed(ready.Message, OfPod, "Something in the pod or on the node has changed the network since; nadra only tells. Repair it, or delete the pod to have it attached anew.")
	}
	if strings.Contains(ready.Message, "adding network ") && !strings.Contains(ready.Message, "adding network "+refOf(w)+" as "+w.iface) {
		// The pod's networks are attached one after the other, and all or none.
		return Step{State: StepNotReached, Detail: "another network of the pod fails"}
	}
	whose, do := blamed(ready.Message, attachBlames)
	return failed(ready.Message, whose, do)
}

func attached(w want) string {
	d := w.status.NetworkData
	if d == nil {
		return "as " + w.iface
	}
	out := "as " + d.InterfaceName + listed(d.IPs)
	if d.HardwareAddress != "" {
		out += fmt.Sprintf(" (%s)", d.HardwareAddress)
	}
	return out
}

// notAttachedYet reads the events, as the claim's status does not say.
func (c *chain) notAttachedYet() Step {
	if !c.begun() && c.lastOf(eventKubeletSandbox) == nil || c.failed() {
		return notReached()
	}
	e := c.lastOf(eventAttaching, eventAttachFailed, eventKubeletSandbox, eventContainerFailed)
	switch {
	case e == nil:
		return waiting("node "+c.node+" has not said anything yet", OfDriver, seeDriver)
	case e.Reason == eventAttaching, strings.Contains(e.Message, "still running"), strings.Contains(e.Message, "being tried again"):
		return waiting(e.Message, OfPlugin,
			"Wait: it is tried for 55 s. A plugin that always takes long is worth a look: its IPAM, most often.")
	case e.Reason == eventContainerFailed && !strings.Contains(e.Message, "network "):
		return notReached() // about the container itself
	}
	whose, do := blamed(e.Message, attachBlames)
	return failed(e.Message, whose, do)
}

// containers are all of the pod.
func (c *chain) containers() Step {
	all := append(append([]corev1.ContainerStatus{}, c.pod.Status.InitContainerStatuses...), c.pod.Status.ContainerStatuses...)
	if isOver(c.pod) {
		return c.ended(all)
	}
	ready := 0
	for _, s := range all {
		if s.Ready {
			ready++
		}
	}
	for _, s := range all {
		if s.State.Waiting != nil && s.State.Waiting.Reason != "" {
			return c.held(s.Name, *s.State.Waiting)
		}
	}
	switch {
	case len(all) > 0 && ready == len(all):
		return ok(fmt.Sprintf("%d of %d ready", ready, len(all)))
	case len(all) == 0 || c.failed():
		return notReached()
	}
	return waiting(fmt.Sprintf("%d of %d ready", ready, len(all)), OfManifest, "They run; whether they are ready their own probes say.")
}

// held is about a container that waits.
func (c *chain) held(name string, w corev1.ContainerStateWaiting) Step {
	detail := "container " + name + ": " + w.Reason
	if w.Message != "" {
		detail += ": " + w.Message
	}
	switch {
	case c.failed():
		return Step{State: StepNotReached, Detail: detail}
	case w.Reason == "ContainerCreating", w.Reason == "PodInitializing":
		return waiting(detail, OfKubelet, "Wait; the pod's events say what the kubelet does.")
	case strings.Contains(w.Message, "nadra: "), strings.Contains(w.Message, "is not attached to network"):
		whose, do := blamed(w.Message, attachBlames)
		return failed(detail, whose, do)
	}
	return failed(detail, OfManifest, "This has nothing to do with the networks: look at the container itself, with kubectl describe and kubectl logs.")
}

// ended is about a pod that will not run again.
func (c *chain) ended(all []corev1.ContainerStatus) Step {
	for _, s := range all {
		t := s.State.Terminated
		if t != nil && (strings.Contains(t.Message, "nadra: ") || strings.Contains(t.Message, "is not attached to network")) {
			whose, _ := blamed(t.Message, attachBlames)
			return failed(fmt.Sprintf("container %s was refused: %s", s.Name, t.Message), whose,
				"The pod is never restarted, so that this was its end: create it anew when the cause is gone.")
		}
	}
	return ok(fmt.Sprintf("the pod has ended (%s), and its networks with it", c.pod.Status.Phase))
}

// release is about a pod that is being deleted.
func (c *chain) release() Step {
	if e := c.lastOf(eventReleaseFailed); e != nil {
		return waiting(e.Message, OfPlugin, "Repair the plugin: the pod can go, and nadra goes on trying.")
	}
	return waiting("the pod is being deleted", OfKubelet, "Wait for its grace period.")
}
