package live

import (
	"cmp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/internal/doctor"
)

// hostRoot is where the pod has the host's root.
const hostRoot = "/host"

// pod is what probes a node: without rights of its own, with the host's files
// read-only, and with the host's network so as to see its interfaces. It goes
// to its node past the scheduler, and past all taints.
func (p Probe) pod(node string, nadra *doctor.Nadra) *corev1.Pod {
	out := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: podName(), Namespace: p.Namespace,
			Labels: map[string]string{"app.kubernetes.io/name": "nadra-probe", "app.kubernetes.io/managed-by": "kubectl-nadra"},
		},
		Spec: corev1.PodSpec{
			NodeName:      node,
			RestartPolicy: corev1.RestartPolicyNever,
			HostNetwork:   true,
			// It ends also where nobody is left to delete it.
			ActiveDeadlineSeconds:         ptr.To(max(int64(p.Timeout.Seconds()), 1)),
			TerminationGracePeriodSeconds: ptr.To[int64](0),
			AutomountServiceAccountToken:  ptr.To(false),
			EnableServiceLinks:            ptr.To(false),
			Tolerations:                   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{
				Name: "probe", Image: p.Image, ImagePullPolicy: corev1.PullIfNotPresent,
				Args:            p.args(nadra),
				SecurityContext: confined(),
				VolumeMounts: []corev1.VolumeMount{{
					Name: "host", MountPath: hostRoot, ReadOnly: true, RecursiveReadOnly: ptr.To(corev1.RecursiveReadOnlyIfPossible),
				}},
			}},
			Volumes: []corev1.Volume{{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}},
		},
	}
	if nadra != nil && p.Namespace == nadra.Namespace {
		for _, secret := range nadra.PullSecrets {
			out.Spec.ImagePullSecrets = append(out.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: secret})
		}
	}
	return out
}

// args have the probe look where the driver looks.
func (p Probe) args(nadra *doctor.Nadra) []string {
	cdi := []string{"/etc/cdi"}
	if dir := nadra.Flag("cdi-dir", "/var/run/cdi"); dir != cdi[0] {
		cdi = append(cdi, dir)
	}
	confs := []string{nadra.Flag("cni-conf-dir", "/etc/cni/net.d"), nadra.Flag("nad-conf-dir", "/etc/cni/multus/net.d")}
	return []string{
		"probe",
		"--host-root=" + hostRoot,
		"--nri-socket=" + nadra.Flag("nri-socket", "/var/run/nri/nri.sock"),
		"--cdi-dirs=" + strings.Join(cdi, ","),
		"--cni-bin-dirs=" + cmp.Or(p.BinDirs, nadra.Flag("cni-bin-dirs", "/opt/cni/bin")),
		"--cni-conf-dirs=" + strings.Join(confs, ","),
	}
}

// confined is root, to whom the host's files and the runtime's socket belong,
// without any capability. SELinux keeps ordinary containers from both.
func confined() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		RunAsUser:                ptr.To[int64](0),
		AllowPrivilegeEscalation: ptr.To(false),
		ReadOnlyRootFilesystem:   ptr.To(true),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		SELinuxOptions:           &corev1.SELinuxOptions{Type: "spc_t"},
	}
}
