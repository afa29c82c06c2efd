package upgrade

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/nadra-dev/nadra/internal/multusstate"
	"github.com/nadra-dev/nadra/internal/nodepod"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// handover moves Multus' configuration between the container runtime's directory and a
// directory that keeps it, and looks at what Multus has attached, by pods that run
// `nadra-node multus` on a node.
type handover struct {
	env
	pods    nodepod.Runner
	confDir string
	kept    string
	// multusDir is the directory in which Multus keeps what it has attached.
	multusDir string
}

// turn turns Multus' configuration "off" or "on". A dry run does nothing.
func (h *handover) turn(ctx context.Context, node, onOff string) error {
	if h.dry != "" {
		return nil
	}
	var report multusstate.ConfReport
	if err := h.run(ctx, h.pod(node, onOff), &report); err != nil {
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
	var report multusstate.ConfReport
	if err := h.run(ctx, h.pod(node, "await"), &report); err != nil {
		return fmt.Errorf("waiting for Multus' configuration: %w", err)
	}
	h.say("node %s: the runtime has %s", node, listed(report.Left))
	return nil
}

// check looks whether nadra's driver can adopt what Multus has attached on a node. A dry run does
// nothing.
func (h *handover) check(ctx context.Context, node string) error {
	var found multusstate.Report
	if err := h.look(ctx, node, "check", &found, "SYS_ADMIN"); err != nil || h.dry != "" {
		return err
	}
	h.say("node %s: %d networks of %d sandboxes of Multus can be adopted; %d sandboxes are gone", node, found.Networks, found.Sandboxes, found.Gone)
	for _, missing := range found.Missing {
		h.say("node %s: pod %s: there is no such interface; the kernel does not show a device that a program drives itself", node, missing)
	}
	return nil
}

// adopted waits until nadra's driver has adopted what Multus has attached on a node. A dry run does
// nothing.
func (h *handover) adopted(ctx context.Context, node string) error {
	return h.look(ctx, node, "adopted", &multusstate.Report{})
}

// returned waits until nadra's driver has given back what it has adopted. A dry run does nothing.
func (h *handover) returned(ctx context.Context, node string) error {
	return h.look(ctx, node, "returned", &multusstate.Report{}, "SYS_ADMIN")
}

// NotAdopted returns a problem for each node on which nadra's driver has not adopted all that Multus
// has attached.
func (r *Runner) NotAdopted(ctx context.Context, nodes []string) []translate.Finding {
	h := &handover{pods: r.Nodes, multusDir: r.MultusDir}
	var out []translate.Finding
	for _, one := range nodepod.OnEach(ctx, r.Nodes, nodes, func(node string) (struct{}, error) { return struct{}{}, h.adopted(ctx, node) }) {
		if one.Err != nil {
			out = append(out, problem(
				CodeNotAdopted, blocker, ref("Node", "", one.Node), one.Err.Error(),
				"Read the log of nadra's driver on the node; delete the pods that it names.",
			))
		}
	}
	return out
}

// look runs `nadra-node multus` with an argument in a pod that reads the node.
func (h *handover) look(ctx context.Context, node, argument string, report any, capabilities ...corev1.Capability) error {
	if h.dry != "" {
		return nil
	}
	return h.run(ctx, h.pods.Pod(node, []string{"multus", "--host-root=" + nodepod.HostRoot, "--multus-cni-dir=" + h.multusDir, argument}, capabilities...), report)
}

// run runs a pod, and decodes its report.
func (h *handover) run(ctx context.Context, pod *corev1.Pod, report any) error {
	log, err := h.pods.Run(ctx, pod)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(log, report); err != nil {
		if text := strings.TrimSpace(string(log)); text != "" {
			return errors.New(text)
		}
		return fmt.Errorf("pod %s has ended without a report: look at the node, which may have restarted", pod.Name)
	}
	return nil
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
