package driver

import (
	"fmt"
	"path"
	"slices"
	"strings"

	nri "github.com/containerd/nri/pkg/api"
	corev1 "k8s.io/api/core/v1"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/driver/internal/events"
)

const (
	// configSource is the kubelet's annotation for where a pod comes from, and
	// sourceAPI its value for all but static pods.
	configSource = "kubernetes.io/config.source"
	sourceAPI    = "api"
	// maxNamed is how many networks a message lists.
	maxNamed = 3
)

// refuseUnclaimed returns why a sandbox of a pod without a claim must not be
// made: on a node of ours nobody would attach the networks that its annotation
// names, and it would start without them. It asks nobody; the pod's event is
// written in the background.
func (d *Driver) refuseUnclaimed(pod *nri.PodSandbox) error {
	if !d.owner.Refuse || !d.owner.mine() {
		return nil
	}
	sandbox := sandboxOf(pod, d.isHost)
	err := d.owner.judge(pod, sandbox)
	if err != nil {
		d.metrics.UnclaimedRefused()
		d.events.Pod(sandbox.Pod, corev1.EventTypeWarning, events.FailedNoClaim, err.Error())
	}
	return err
}

// judge decides about a new sandbox of a pod without a claim on a node of ours.
func (w *owner) judge(pod *nri.PodSandbox, sandbox attachment.Sandbox) error {
	text := pod.GetAnnotations()[attachment.NetworksAnnotation]
	if strings.TrimSpace(text) == "" || sandbox.NetNS == "" { // a host's network is not attached to
		return nil
	}
	name := sandbox.Pod.Namespace + "/" + sandbox.Pod.Name
	if w.exempts(name) {
		return nil
	}
	networks, err := attachment.ParseSelections(text, sandbox.Pod.Namespace)
	if err != nil {
		return reason.Errorf(reason.NoClaim, "pod %s has no claim, and what its annotation asks for cannot be read, on node %s, "+
			"whose networks nadra attaches (%s): %w", name, w.node, w.why(), err)
	}
	if len(networks) == 0 {
		return nil
	}
	return reason.Errorf(reason.NoClaim, "pod %s names %s by annotation %s but has no claim, and node %s is nadra's (%s), which attaches networks by claims: "+
		"the pod would run without them. %s; or except it with nadra-node's --exempt-pods",
		name, named(networks), attachment.NetworksAnnotation, w.node, w.why(), remedy(pod, w.Ownership))
}

// exempts reports whether an operator has named the pod as one to let go.
func (o Ownership) exempts(pod string) bool {
	return slices.ContainsFunc(o.Exempt, func(pattern string) bool {
		matches, err := path.Match(pattern, pod)
		return err == nil && matches
	})
}

// remedy is what whoever owns the pod can do.
func remedy(pod *nri.PodSandbox, o Ownership) string {
	if source := pod.GetAnnotations()[configSource]; source != "" && source != sourceAPI {
		return "A static pod cannot have claims: make it a DaemonSet; or remove the annotation"
	}
	out := "nadra's webhook has not seen it, or has left it to Multus: delete it, to have the next one given a claim; " +
		"or convert its manifest (kubectl nadra convert)"
	if o.Label != "" {
		out += "; or keep it on nodes without the label"
	}
	return out
}

func named(networks []attachment.Selection) string {
	var out []string
	for _, n := range networks {
		out = append(out, n.Network.String())
	}
	if len(out) > maxNamed {
		out = append(out[:maxNamed], fmt.Sprintf("%d more", len(out)-maxNamed))
	}
	if len(out) == 1 {
		return "network " + out[0]
	}
	return "networks " + strings.Join(out[:len(out)-1], ", ") + " and " + out[len(out)-1]
}
