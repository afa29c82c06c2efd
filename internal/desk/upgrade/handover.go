package upgrade

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/nadra-dev/nadra/internal/desk/nodepod"
	"github.com/nadra-dev/nadra/internal/probe"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// turn turns Multus' configuration "off" or "on". A dry run does nothing.
func (s steps) turn(ctx context.Context, node, onOff string) error {
	if s.DryRun != "" {
		return nil
	}
	var report probe.MultusConfReport
	if err := s.runPod(ctx, s.writingPod(node, onOff), "moved", &report); err != nil {
		return fmt.Errorf("turning Multus' configuration %s: %w", onOff, err)
	}
	s.Say("node %s: Multus' configuration %s: %s; the runtime has %s", node, onOff, listed(report.Moved), listed(report.Left))
	return nil
}

// awaitConfiguration waits until the container runtime has Multus' configuration. A dry run does
// nothing.
func (s steps) awaitConfiguration(ctx context.Context, node string) error {
	if s.DryRun != "" {
		return nil
	}
	var report probe.MultusConfReport
	if err := s.runPod(ctx, s.writingPod(node, "await"), "moved", &report); err != nil {
		return fmt.Errorf("waiting for Multus' configuration: %w", err)
	}
	s.Say("node %s: the runtime has %s", node, listed(report.Left))
	return nil
}

// NotAdopted returns a problem for each node on which nadra's driver has not adopted all that Multus
// has attached.
func (r *Runner) NotAdopted(ctx context.Context, nodes []string) []translate.Finding {
	s := steps{&run{Runner: &Runner{Nodes: r.Nodes, MultusDir: r.MultusDir}}}
	var out []translate.Finding
	for _, one := range nodepod.OnEach(ctx, r.Nodes, nodes, func(node string) (struct{}, error) { return struct{}{}, s.adopt(ctx, node, nil) }) {
		if one.Err != nil {
			out = append(out, problem(
				codeNotAdopted, blocker, ref("Node", "", one.Node), one.Err.Error(),
				"Read the log of nadra's driver on the node; delete the pods that it names.",
			))
		}
	}
	return out
}

// look runs `nadra-node multus` with an argument in a pod that reads the node.
func (s steps) look(ctx context.Context, node, argument string, report any, capabilities ...corev1.Capability) error {
	if s.DryRun != "" {
		return nil
	}
	return s.runPod(ctx, s.Nodes.Pod(node, []string{"multus", "--host-root=" + nodepod.HostRoot, "--multus-cni-dir=" + s.MultusDir, argument}, capabilities...), "sandboxes", report)
}

// runPod runs a pod, and decodes its report, which begins with a key.
func (s steps) runPod(ctx context.Context, pod *corev1.Pod, key string, report any) error {
	log, err := s.Nodes.Run(ctx, pod)
	if err != nil {
		return err
	}
	return probe.DecodeLast(log, key, report)
}

// writingPod returns a pod that may write to the two directories, and sees no other files of
// the host.
func (s steps) writingPod(node, argument string) *corev1.Pod {
	pod := s.Nodes.Pod(node, []string{"multus", "--cni-conf-dir=/conf", "--keep-in=/kept", argument})
	directory, create := corev1.HostPathDirectory, corev1.HostPathDirectoryOrCreate
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "conf", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: s.ConfDir, Type: &directory}}},
		{Name: "kept", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: s.Kept, Type: &create}}},
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
