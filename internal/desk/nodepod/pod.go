package nodepod

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/ptr"
)

// HostRoot is the directory at which a pod has the host's root.
const HostRoot = "/host"

// ours are the labels of the pods.
var ours = map[string]string{"app.kubernetes.io/name": "nadra-probe", "app.kubernetes.io/managed-by": "kubectl-nadra"}

// Pod returns a pod that inspects a node: without a service account token and with only the
// given capabilities, with the host's files read-only, and on the host's network to see its
// interfaces. It bypasses the scheduler and all taints.
func (r Runner) Pod(node string, args []string, capabilities ...corev1.Capability) *corev1.Pod {
	out := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: podName(), Namespace: r.Namespace, Labels: maps.Clone(ours)},
		Spec: corev1.PodSpec{
			NodeName:      node,
			RestartPolicy: corev1.RestartPolicyNever,
			HostNetwork:   true,
			// The pod ends even if its process does not live to delete it.
			ActiveDeadlineSeconds:         ptr.To(max(int64(r.Timeout.Seconds()), 1)),
			TerminationGracePeriodSeconds: ptr.To[int64](0),
			AutomountServiceAccountToken:  ptr.To(false),
			EnableServiceLinks:            ptr.To(false),
			Tolerations:                   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{
				Name: "probe", Image: r.Image, ImagePullPolicy: corev1.PullIfNotPresent,
				Args:            args,
				SecurityContext: confined(capabilities),
				// Not recursively read-only: CRI-O refuses that for a directory that
				// contains its storage.
				VolumeMounts: []corev1.VolumeMount{{Name: "host", MountPath: HostRoot, ReadOnly: true}},
			}},
			Volumes: []corev1.Volume{{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}},
		},
	}
	for _, secret := range r.PullSecrets {
		out.Spec.ImagePullSecrets = append(out.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: secret})
	}
	return out
}

// WritingPod returns a pod that may write to the host's files, and sees later mounts there.
// With SYS_CHROOT its programs can use the host's root as theirs.
func (r Runner) WritingPod(node string, args []string, capabilities ...corev1.Capability) *corev1.Pod {
	out := r.Pod(node, args, capabilities...)
	out.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{
		Name: "host", MountPath: HostRoot, MountPropagation: ptr.To(corev1.MountPropagationHostToContainer),
	}}
	return out
}

// confined returns a security context of root, who owns the host's files and the container
// runtime's socket, with only the given capabilities. The SELinux type allows access to the
// host's files, and AppArmor's profile access to the processes of other containers.
func confined(capabilities []corev1.Capability) *corev1.SecurityContext {
	out := &corev1.SecurityContext{
		RunAsUser:                ptr.To[int64](0),
		AllowPrivilegeEscalation: ptr.To(false),
		ReadOnlyRootFilesystem:   ptr.To(true),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: capabilities},
		SELinuxOptions:           &corev1.SELinuxOptions{Type: "spc_t"},
	}
	if len(capabilities) > 0 {
		out.AllowPrivilegeEscalation = nil // the API server rejects it together with SYS_ADMIN
		out.AppArmorProfile = &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
	}
	return out
}

// podName returns a random name, because several people may inspect nodes at once.
func podName() string { return "nadra-probe-" + rand.String(8) }
