package driver

import (
	"fmt"
	"path"
	"slices"
	"strings"

	nri "github.com/containerd/nri/pkg/api"
	corev1 "k8s.io/api/core/v1"

	"github.com/nadra-dev/nadra/internal/metrics"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/driver/internal/events"
)

const (
	// configSource is the kubelet's annotation for the source of a pod. sourceAPI is its
	// value for all but static pods.
	configSource = "kubernetes.io/config.source"
	sourceAPI    = "api"
	// maxListed is the number of networks that a message lists.
	maxListed = 3
)

// unclaimedPods refuses pods that need a claim and have none.
type unclaimedPods struct {
	owner   *owner
	isHost  func(netns string) bool
	events  *events.Recorder
	metrics *metrics.Node
}

// refuse returns why a sandbox of a pod without a claim must not be made: on a node of nadra's
// nobody would attach the networks of its annotation, and it would start without them. It
// sends no request, and queues the pod's event.
func (u *unclaimedPods) refuse(pod *nri.PodSandbox) error {
	if !u.owner.Refuse || !u.owner.owned() {
		return nil
	}
	sandbox := sandboxOf(pod, u.isHost)
	err := u.owner.checkUnclaimed(pod, sandbox)
	if err != nil {
		u.metrics.UnclaimedRefused()
		u.events.Pod(sandbox.Pod, corev1.EventTypeWarning, reason.EventFailedNoClaim, err.Error())
	}
	return err
}

// checkUnclaimed returns why a new sandbox of a pod without a claim must not be made on a node
// of nadra's, or nil.
func (w *owner) checkUnclaimed(pod *nri.PodSandbox, sandbox attachment.Sandbox) error {
	text := pod.GetAnnotations()[attachment.NetworksAnnotation]
	if strings.TrimSpace(text) == "" || sandbox.NetNS == "" { // nothing is attached to the host's network
		return nil
	}
	name := sandbox.Pod.Namespace + "/" + sandbox.Pod.Name
	if w.exempts(name) {
		return nil
	}
	networks, err := attachment.ParseSelections(text, sandbox.Pod.Namespace)
	if err != nil {
		return reason.Errorf(reason.NoClaim, "pod %s has no claim, and its annotation cannot be read, on node %s, "+
			"whose networks nadra attaches (%s): %w", name, w.node, w.describe(), err)
	}
	if len(networks) == 0 {
		return nil
	}
	return reason.Errorf(reason.NoClaim, "pod %s names %s by annotation %s but has no claim, and node %s is nadra's (%s), which attaches networks by claims: "+
		"the pod would run without them. %s; or except it with nadra-node's --exempt-pods",
		name, listed(networks), attachment.NetworksAnnotation, w.node, w.describe(), remedy(pod, w.Ownership))
}

// exempts reports whether an administrator has exempted the pod.
func (o Ownership) exempts(pod string) bool {
	return slices.ContainsFunc(o.Exempt, func(pattern string) bool {
		matches, err := path.Match(pattern, pod)
		return err == nil && matches
	})
}

// remedy returns what the pod's owner can do.
func remedy(pod *nri.PodSandbox, o Ownership) string {
	if source := pod.GetAnnotations()[configSource]; source != "" && source != sourceAPI {
		return "A static pod cannot have claims: make it a DaemonSet; or remove the annotation"
	}
	out := "nadra's webhook has not seen it, or has left it to Multus: delete it, so that the next one gets a claim; " +
		"or convert its manifest (kubectl nadra convert)"
	if o.Label != "" {
		out += "; or keep it on nodes without the label"
	}
	return out
}

// listed returns the names of networks for a message.
func listed(networks []attachment.Selection) string {
	var out []string
	for _, n := range networks {
		out = append(out, n.Network.String())
	}
	if len(out) > maxListed {
		out = append(out[:maxListed], fmt.Sprintf("%d more", len(out)-maxListed))
	}
	if len(out) == 1 {
		return "network " + out[0]
	}
	return "networks " + strings.Join(out[:len(out)-1], ", ") + " and " + out[len(out)-1]
}
