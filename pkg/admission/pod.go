package admission

import (
	"fmt"
	"slices"
	"strings"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	kjson "sigs.k8s.io/json"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// Options are what holds for the whole cluster.
type Options struct {
	// DefaultOwner serves pods of which no label says who does; empty is Multus.
	DefaultOwner string
	// Pools says that the cluster serves pools of hardware devices.
	Pools bool
	// NoPodInfo leaves out the files about the pod that pods with a device of a
	// pool get.
	NoPodInfo bool
	// Isolation says whose networks a pod may use.
	Isolation attachment.Isolation
}

func (o Options) defaultOwner() string {
	if o.DefaultOwner == "" {
		return v1alpha1.OwnerMultus
	}
	return o.DefaultOwner
}

// Lookups find other objects in the cluster; each returns nil, or false, for one
// that is not there. A function that is nil finds none.
type Lookups struct {
	Network         func(attachment.NetworkRef) *nadv1.NetworkAttachmentDefinition
	Template        func(namespace, name string) *resourceapi.ResourceClaimTemplate
	Claim           func(namespace, name string) *resourceapi.ResourceClaim
	Class           func(name string) *resourceapi.DeviceClass
	RuntimeClass    func(name string) (handler string, found bool)
	NamespaceLabels func(name string) map[string]string
	NodeLabels      func(name string) map[string]string
	// PoolServer says who serves a resource pool; nil says that nadra does.
	PoolServer func(pool string) translate.PoolFacts
	// MultusNodes reports whether a node of the cluster is not nadra's.
	MultusNodes func() bool
}

// Outcome is what became of a pod.
type Outcome string

// The outcomes. A pod on Multus may need no edits, and an untouched one has
// none.
const (
	Converted Outcome = "converted"
	OnMultus  Outcome = "multus"
	Untouched Outcome = "untouched"
	Refused   Outcome = "refused"
)

// Decision is what to do with a pod.
type Decision struct {
	Outcome Outcome
	// Edits change the pod; encoded, they are a JSON Patch.
	Edits []translate.Edit
	// Templates are to be created before the pod is admitted.
	Templates []*resourceapi.ResourceClaimTemplate
	// Warnings are for whoever creates the pod, each of at most 256 bytes.
	Warnings []string
	// Refusal says why, and what to do about it.
	Refusal string
}

// Pod decides about a pod of a namespace, given as JSON, that is about to be
// created.
func Pod(manifest []byte, namespace string, o Options, l Lookups) Decision {
	pod := &corev1.Pod{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(manifest, pod); err != nil {
		return refused("reading the pod: %v", err)
	}
	switch {
	case isMirror(pod):
		// The kubelet runs its static pods anyway; without their mirrors the API
		// would only not show them.
		return Decision{Outcome: Untouched}
	case !asks(pod) && (pod.Spec.HostNetwork || len(pod.Spec.ResourceClaims) == 0):
		return Decision{Outcome: Untouched}
	case pod.Spec.HostNetwork:
		return Decision{Outcome: Untouched, Warnings: []string{warning(translate.HostNetwork, "")}}
	}
	hand := handClaimsOf(pod, namespace, l)
	if byClaim := (admitted{pod: pod, namespace: namespace, hand: hand}); byClaim.alone() {
		return byClaim.complete()
	}
	if !asks(pod) {
		return Decision{Outcome: Untouched}
	}
	server, err := Serves(pod, namespace, o, l)
	if err != nil {
		return refused("who attaches the pod's networks is not clear: %v", err)
	}
	a := admitted{pod: pod, manifest: manifest, namespace: namespace, server: server, options: o, lookups: l, hand: hand}
	if server.Owner == v1alpha1.OwnerMultus {
		return a.leave()
	}
	return a.convert()
}

func refused(format string, args ...any) Decision {
	return Decision{Outcome: Refused, Refusal: fmt.Sprintf(format, args...)}
}

func isMirror(pod *corev1.Pod) bool {
	_, found := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return found
}

// asks reports whether a pod has an annotation for nadra or Multus to read. The
// matchConditions of the webhook pods.nadra.dev say the same.
func asks(pod *corev1.Pod) bool {
	return strings.TrimSpace(pod.Annotations[attachment.NetworksAnnotation]) != "" || asksForDefault(pod)
}

func asksForDefault(pod *corev1.Pod) bool {
	return strings.TrimSpace(pod.Annotations[attachment.DefaultNetworkAnnotation]) != ""
}

// admitted is a pod of which it is known who serves it.
type admitted struct {
	pod       *corev1.Pod
	manifest  []byte
	namespace string
	server    Server
	options   Options
	lookups   Lookups
	// hand are the pod's claims that somebody wrote.
	hand []handClaim
}

// leave leaves a pod to Multus.
func (a admitted) leave() Decision {
	if c, found := claimOf(a.pod, a.hand); found {
		return refused("Multus serves this pod by %s, and %s, can be met on nadra's nodes only: remove the claim, or have nadra serve the pod, by label %s=%s of the pod%s",
			a.server.By, c, v1alpha1.OwnerLabel, v1alpha1.OwnerNadra, onNode(a.server.Node))
	}
	selections, err := attachment.ParseSelections(a.pod.Annotations[attachment.NetworksAnnotation], a.namespace)
	if err == nil && len(selections) == 0 && !asksForDefault(a.pod) {
		return Decision{Outcome: Untouched}
	}
	if a.server.Node != "" {
		return Decision{Outcome: OnMultus}
	}
	if len(a.pod.Spec.Containers) == 0 {
		// The API server will refuse it; it may not even have a spec to edit.
		return Decision{Outcome: Untouched}
	}
	return Decision{Outcome: OnMultus, Edits: keepAway(a.pod)}
}

// onNode is what else a label says that is to count.
func onNode(node string) string {
	if node == "" {
		return ""
	}
	return " and of node " + node
}

// convert has the rules of pkg/translate decide, and adds those that only hold
// for a pod in a cluster.
func (a admitted) convert() Decision {
	selections, _ := attachment.ParseSelections(a.pod.Annotations[attachment.NetworksAnnotation], a.namespace)
	var reasons []string
	if a.pod.Spec.NodeName != "" && len(selections) > 0 {
		reasons = append(reasons, fmt.Sprintf("spec.nodeName: the scheduler, which allocates claims, does not see a pod that has a node already: "+
			"remove it and use nodeSelector kubernetes.io/hostname: %s.", a.pod.Spec.NodeName))
	}
	var d Decision
	if len(a.hand) > 0 && !a.converted() {
		if d = a.complete(); d.Outcome == Refused {
			return d
		}
	} else {
		result, err := a.translated()
		if err != nil {
			return refused("reading the pod: %v", err)
		}
		if len(reasons) == 0 && a.unserved(result.Findings) {
			return a.leaveUnserved(result.Findings)
		}
		reasons = append(reasons, a.blockers(result.Findings)...)
		reasons = append(reasons, a.isolation(selections)...)
		d = Decision{Outcome: Untouched, Templates: result.Templates, Warnings: warnings(result.Findings)}
		d.Edits = append(result.Edits, onePodInfo(a.pod)...)
	}
	if len(reasons) > 0 {
		return Decision{Outcome: Refused, Refusal: a.refusal(reasons)}
	}
	if len(d.Edits) > 0 || len(d.Templates) > 0 {
		d.Outcome = Converted
	}
	return d
}

// converted reports whether the pod has claims of a conversion.
func (a admitted) converted() bool {
	return slices.ContainsFunc(a.pod.Spec.ResourceClaims, func(c corev1.PodResourceClaim) bool {
		return c.ResourceClaimTemplateName != nil && translate.MadeTemplate(*c.ResourceClaimTemplateName)
	})
}

func (a admitted) translated() (translate.PodResult, error) {
	return translate.Pod(a.manifest, translate.Options{
		Namespace: a.namespace, Pools: a.options.Pools, NoPodInfo: a.options.NoPodInfo, AllNetworks: true,
		PoolServer: a.lookups.PoolServer,
		Lookup:     a.lookups.Network, LookupTemplate: a.lookups.Template, LookupRuntimeClass: a.lookups.RuntimeClass,
	})
}

// isolation refuses networks of namespaces that are not the pod's. The claim
// would be refused, too, but only when it is made.
func (a admitted) isolation(selections []attachment.Selection) []string {
	var reasons []string
	for _, s := range selections {
		err := a.options.Isolation.Allow(a.namespace, s.Network)
		if err != nil && !slices.Contains(reasons, ended(err.Error())) {
			reasons = append(reasons, ended(err.Error()))
		}
	}
	return reasons
}
