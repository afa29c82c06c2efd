package canary

import (
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/internal/probe"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// container is the name of a canary's container.
const container = "canary"

// unprivileged is a user ID without files in any image.
const unprivileged = 65532

// pingGroups allows all groups to send ICMP echo without a capability, by a sysctl that the
// level restricted of Pod Security allows.
const pingGroups = "0 2147483647"

// Object returns the pod of a canary. The scheduler binds it to its node, so that its
// claims are allocated like a workload's. It tolerates all taints, because nodes are tested
// before they are uncordoned.
func (p *Plan) Object(n *NetworkPlan, c Pod) *corev1.Pod {
	small := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi")}
	out := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.Namespace, Name: c.Name,
			Labels: map[string]string{NameLabel: Name, ManagerLabel: ManagerName, runLabel: p.Run},
			// A canary has no other network than the one that it tests.
			Annotations: map[string]string{p.networksKey(): n.Network, v1alpha1.DefaultNetworksKey: v1alpha1.DefaultNetworksNone},
		},
		Spec: corev1.PodSpec{
			Affinity:      onNode(c.Node),
			Tolerations:   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			RestartPolicy: corev1.RestartPolicyNever,
			// The pod ends even if its process does not live to delete it.
			ActiveDeadlineSeconds:         ptr.To(p.lifetime()),
			TerminationGracePeriodSeconds: ptr.To[int64](1),
			AutomountServiceAccountToken:  ptr.To(false),
			EnableServiceLinks:            ptr.To(false),
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](unprivileged), RunAsGroup: ptr.To[int64](unprivileged),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
				Sysctls:        []corev1.Sysctl{{Name: "net.ipv4.ping_group_range", Value: pingGroups}},
			},
			Containers: []corev1.Container{{
				Name: container, Image: p.Image, ImagePullPolicy: corev1.PullIfNotPresent,
				Args:      []string{probe.CanaryCommand, "serve"},
				Resources: corev1.ResourceRequirements{Limits: small, Requests: small.DeepCopy()},
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: ptr.To(false),
					ReadOnlyRootFilesystem:   ptr.To(true),
					Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
			}},
		},
	}
	if p.Owner != "" {
		out.Labels[v1alpha1.OwnerLabel] = p.Owner
	}
	if n.Pool != "" {
		// For a device plugin that serves the pool; nadra's webhook removes it.
		resources := &out.Spec.Containers[0].Resources
		resources.Limits[corev1.ResourceName(n.Pool)] = resource.MustParse("1")
		resources.Requests[corev1.ResourceName(n.Pool)] = resource.MustParse("1")
	}
	if c.Namespace == p.SecretsNamespace {
		for _, secret := range p.PullSecrets {
			out.Spec.ImagePullSecrets = append(out.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: secret})
		}
	}
	return out
}

// networksKey returns the annotation in which canaries name their network.
func (p *Plan) networksKey() string {
	if p.BesideMultus && p.Owner == v1alpha1.OwnerNadra {
		return attachment.OwnNetworksAnnotation
	}
	return attachment.NetworksAnnotation
}

// pingTime limits the pings of a network.
const pingTime = 5 * time.Minute

// lifetime returns the number of seconds after which a canary ends by itself.
func (p *Plan) lifetime() int64 {
	return int64(math.Ceil((p.Timeout + pingTime).Seconds()))
}

// onNode returns the node affinity of a DaemonSet's pod.
func onNode(name string) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchFields: []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{name}}},
		}}},
	}}
}

// Selector returns the label selector of the canaries of all runs.
func Selector() string {
	return ManagerLabel + "=" + ManagerName + "," + NameLabel + "=" + Name
}

// Namespaces returns the namespaces of the plan's canaries, sorted.
func (p *Plan) Namespaces() []string {
	var out []string
	for _, n := range p.Networks {
		for _, c := range n.Pods {
			out = append(out, c.Namespace)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
