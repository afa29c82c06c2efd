package upgraderun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/nadra-dev/nadra/internal/multusconf"
	"github.com/nadra-dev/nadra/internal/nodepod"
)

// handover moves Multus' configuration between the container runtime's directory and a
// directory that keeps it, by pods that run `nadra-node multus` on a node.
type handover struct {
	env
	pods    nodepod.Runner
	confDir string
	kept    string
}

// turn turns Multus' configuration "off" or "on". A dry run does nothing.
func (h *handover) turn(ctx context.Context, node, onOff string) error {
	if h.dry != "" {
		return nil
	}
	report, err := h.run(ctx, node, onOff)
	if err != nil {
		return fmt.Errorf("turning Multus' configuration %s: %w", onOff, err)
	}
	h.say("node %s: Multus' configuration %s: %s; the runtime has %s", node, onOff, listed(report.Moved), listed(report.Left))
	return nil
}

// await waits until the container runtime has Multus' configuration. A dry run does
// nothing.
func (h *handover) await(ctx context.Context, node string) error {
	if h.dry != "" {
		return nil
	}
	report, err := h.run(ctx, node, "await")
	if err != nil {
		return fmt.Errorf("waiting for Multus' configuration: %w", err)
	}
	h.say("node %s: the runtime has %s", node, listed(report.Left))
	return nil
}

// run runs `nadra-node multus` with an argument in a pod on the node, and returns its
// report.
func (h *handover) run(ctx context.Context, node, argument string) (multusconf.Report, error) {
	log, err := h.pods.Run(ctx, h.pod(node, argument))
	if err != nil {
		return multusconf.Report{}, err
	}
	var report multusconf.Report
	if err := json.Unmarshal(log, &report); err != nil {
		return multusconf.Report{}, errors.New(strings.TrimSpace(string(log)))
	}
	return report, nil
}

// pod returns a pod that may write to the two directories, and sees no other files of
// the host.
func (h *handover) pod(node, argument string) *corev1.Pod {
	pod := h.pods.Pod(node, []string{"multus", "--cni-conf-dir=/conf", "--keep-in=/kept", argument})
	directory, create := corev1.HostPathDirectory, corev1.HostPathDirectoryOrCreate
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "conf", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: h.confDir, Type: &directory}}},
		{Name: "kept", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: h.kept, Type: &create}}},
	}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "conf", MountPath: "/conf"}, {Name: "kept", MountPath: "/kept"}}
	return pod
}

// listed joins names, or returns "none".
func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
