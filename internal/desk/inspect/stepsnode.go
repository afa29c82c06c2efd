package inspect

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

var (
	// unexplained is the advice for messages of the driver without a code.
	unexplained = advice{reason.OfDriver, "The message comes from nadra's driver. " + seeDriver}
	// ofRuntime is the advice for messages of the container runtime without a code.
	ofRuntime = advice{reason.OfPlugin, "The message comes from the container runtime or a plugin: repair what it names. " + retried}
)

// preparation explains the driver's work before there is a sandbox. The driver reports
// only failures; the next step shows success.
func (s *subject) preparation(w want) Step {
	ready := readiness(w.status)
	switch {
	case w.entry == nil:
		return notUsed("")
	case ready != nil && ready.Reason == reason.ConditionPrepareFailed:
		return explain(ready.Message, ofKubelet, unexplained)
	case ready != nil, s.sandboxCreated():
		return ok("on node " + s.node)
	case w.result == nil || s.node == "" || s.before.failed():
		return notReached()
	case s.driverAway() != nil:
		return *s.driverAway()
	}
	if e := s.events.last(eventKubeletPrepare, reason.EventFailedPrepareNetwork); e != nil {
		return explain(e.Message, ofKubelet, unexplained)
	}
	if s.in.Drivers == nil && !s.x.drivers[s.node] && !s.x.unread[Slices] {
		return failed("node "+s.node+" has no ResourceSlice of net.nadra.dev: nadra's driver does not run there, or offers nothing", reason.OfCluster, noDriver)
	}
	return waiting("node "+s.node+" has not reported anything yet", reason.OfKubelet, "Wait some seconds; the kubelet repeats a failed Prepare after 60 to 90 s.")
}

// sandboxCreated reports whether the kubelet has prepared the claims and asked for the
// sandbox.
func (s *subject) sandboxCreated() bool {
	started := podCondition(s.pod, corev1.PodReadyToStartContainers)
	if started != nil && started.Status == corev1.ConditionTrue || s.events.last(reason.EventAttachingNetwork, reason.EventFailedAttachNetwork) != nil {
		return true
	}
	e := s.events.last(eventKubeletSandbox)
	return e != nil && reason.In(e.Message) != ""
}

// attachment explains whether the network is in the pod.
func (s *subject) attachment(w want) Step {
	ready := readiness(w.status)
	switch {
	case w.entry == nil:
		if state, _, _ := stateOf(s.pod, w); state == Attached {
			return ok("as " + w.reported.Interface + listed(w.reported.IPs))
		}
		return notUsed("")
	case ready == nil:
		if state, _, _ := stateOf(s.pod, w); state == Attached {
			return ok(describe(w))
		}
		return s.attachmentByEvents(w)
	case ready.Status == metav1.ConditionTrue:
		return ok(describe(w))
	case ready.Reason == reason.ConditionPrepareFailed:
		return notReached()
	case ready.Reason == reason.ConditionCheckFailed:
		changed, _ := reason.Lookup(reason.AttachmentChanged)
		return failed(ready.Message, changed.Owner, changed.Remedy)
	case w.removed():
		return notUsed(ready.Message)
	case reason.In(ready.Message) == reason.OtherNetworkFailed:
		return anotherFails
	}
	return s.attachFailed(w, ready.Message, unexplained)
}

// attachFailed explains a failed ADD. It names the pods that have the addresses of a range that is full: those of the
// node if each node has its own.
func (s *subject) attachFailed(w want, message string, rest advice) Step {
	step := explain(message, ofPlugins, rest)
	if step.Remedy != rangeIsFull || w.network == nil || readiness(w.status) == nil && !isAbout(message, w) {
		return step
	}
	network, _, _ := s.network(w) // without plugins if it cannot be read
	where, node := "", ""
	if slices.ContainsFunc(network.Plugins, func(p attachment.Plugin) bool { return p.IPAM.Plugin().PerNode }) {
		where, node = " on node "+s.node, s.node
	}
	if holders := s.x.attachedTo(*w.network, node); len(holders) > 0 {
		step.Detail += fmt.Sprintf("; addresses of the network%s are held by %s", where, some(holders))
	}
	return step
}

// isAbout reports whether a message of the driver names the network, as "adding network shop/lan as net1: " does.
func isAbout(message string, w want) bool {
	return w.network != nil && strings.Contains(message, "network "+w.network.String()+" ")
}

// describe returns the interface and the addresses of an attached network.
func describe(w want) string {
	if w.status == nil && w.reported != nil {
		return "as " + w.reported.Interface + listed(w.reported.IPs) + " by network-status; the claim's status does not list it"
	}
	if w.status == nil || w.status.NetworkData == nil {
		return "as " + w.iface
	}
	d := w.status.NetworkData
	out := "as " + d.InterfaceName + listed(d.IPs)
	if d.HardwareAddress != "" {
		out += fmt.Sprintf(" (%s)", d.HardwareAddress)
	}
	return out + pluginsOf(w.status)
}

// pluginsOf lists the files of plugins that have attached a network, for the detail of a step.
func pluginsOf(s *resourceapi.AllocatedDeviceStatus) string {
	var data map[string]json.RawMessage
	var files []string
	if s.Data == nil || json.Unmarshal(s.Data.Raw, &data) != nil || json.Unmarshal(data[v1alpha1.PluginsData], &files) != nil {
		return ""
	}
	return " by " + strings.Join(files, ", ")
}

// attachmentByEvents explains an attachment that the claim's status does not mention yet.
func (s *subject) attachmentByEvents(w want) Step {
	if s.before.failed() {
		return notReached()
	}
	if away := s.driverAway(); away != nil {
		return *away
	}
	if !s.sandboxCreated() && s.events.last(eventKubeletSandbox) == nil {
		return notReached()
	}
	e := s.events.last(reason.EventAttachingNetwork, reason.EventFailedAttachNetwork, eventKubeletSandbox, eventContainerFailed)
	switch {
	case e == nil:
		return waiting("node "+s.node+" has not reported anything yet", reason.OfDriver, seeDriver)
	case e.Reason == reason.EventAttachingNetwork:
		running, _ := reason.Lookup(reason.AttachRunning)
		return waiting(e.Message, running.Owner, running.Remedy)
	case e.Reason == eventContainerFailed && reason.In(e.Message) == "":
		return notReached() // about the container itself
	case !isAbout(e.Message, w) && slices.ContainsFunc(s.wish.wants, func(other want) bool { return isAbout(e.Message, other) }):
		return anotherFails
	}
	return s.attachFailed(w, e.Message, ofRuntime)
}

// containers explains whether the pod's containers run.
func (s *subject) containers() Step {
	all := slices.Concat(s.pod.Status.InitContainerStatuses, s.pod.Status.ContainerStatuses)
	if attachment.IsOver(s.pod) {
		return s.ended(all)
	}
	ready := 0
	for _, c := range all {
		if c.Ready {
			ready++
		}
	}
	for _, c := range all {
		if c.State.Waiting != nil && c.State.Waiting.Reason != "" {
			return s.held(c.Name, *c.State.Waiting)
		}
	}
	switch {
	case len(all) > 0 && ready == len(all):
		return ok(fmt.Sprintf("%d of %d ready", ready, len(all)))
	case len(all) == 0 || s.before.failed():
		return notReached()
	}
	return waiting(fmt.Sprintf("%d of %d ready", ready, len(all)), reason.OfManifest, "The containers run: look at their readiness probes.")
}

// held explains a container that waits.
func (s *subject) held(name string, w corev1.ContainerStateWaiting) Step {
	detail := "container " + name + ": " + w.Reason
	if w.Message != "" {
		detail += ": " + w.Message
	}
	switch {
	case s.before.failed():
		return Step{State: StepNotReached, Detail: detail}
	case w.Reason == "ContainerCreating", w.Reason == "PodInitializing":
		return waiting(detail, reason.OfKubelet, "Wait; the pod's events show what the kubelet does.")
	case reason.In(w.Message) != "":
		return explain(detail, ofPlugins, ofRuntime)
	}
	return failed(detail, reason.OfManifest, "The networks are not the cause: look at the container itself, with kubectl describe and kubectl logs.")
}

// ended explains a pod that will not run again.
func (s *subject) ended(all []corev1.ContainerStatus) Step {
	for _, c := range all {
		if t := c.State.Terminated; t != nil && reason.In(t.Message) != "" {
			refused := explain(t.Message, ofPlugins, ofRuntime)
			return failed(fmt.Sprintf("container %s was refused: %s", c.Name, t.Message), refused.Owner,
				"The pod is never restarted, so this was its end: recreate it when the cause is gone.")
		}
	}
	return ok(fmt.Sprintf("the pod has ended (%s), and its networks with it", s.pod.Status.Phase))
}

// release explains why a pod that is being deleted still exists.
func (s *subject) release() Step {
	if away := s.driverAway(); away != nil && slices.ContainsFunc(s.wish.wants, func(w want) bool { return w.entry != nil }) {
		return waiting(away.Detail+", so the pod's networks are not detached", away.Owner, away.Remedy)
	}
	e := s.events.last(reason.EventFailedReleaseNetwork)
	switch {
	case e == nil && len(s.pod.Finalizers) > 0 && !runs(s.pod):
		return waiting("the pod is being deleted, and has finalizers: "+strings.Join(s.pod.Finalizers, ", "), reason.OfCluster,
			"The controller that set a finalizer removes it when it is done: look at that controller. The networks do not wait for it.")
	case e == nil:
		return waiting("the pod is being deleted", reason.OfKubelet, "Wait for its grace period (terminationGracePeriodSeconds): its containers may still end.")
	}
	entry, known := reason.Lookup(reason.Cause(e.Message))
	if !known {
		return waiting(e.Message, unexplained.owner, unexplained.remedy)
	}
	return waiting(e.Message, entry.Owner, entry.Remedy)
}
