package admission

import (
	"slices"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// Options apply to the whole cluster.
type Options struct {
	// DefaultOwner serves pods without a label; empty means Multus.
	DefaultOwner string
	// BesideMultus is set if Multus stays on nadra's nodes: no label of a node decides, and the
	// annotation that names a pod's networks is that of the program which attaches them.
	BesideMultus bool
	// Pools is set if nadra serves pools of hardware devices.
	Pools bool
	// NoPodInfo leaves out the volume with the pod's labels and annotations, which pods with a
	// device of a pool get.
	NoPodInfo bool
	// NoVirtualMachines leaves launcher pods of KubeVirt to Multus.
	NoVirtualMachines bool
	// NeverClaims has pods served without claims, in namespaces without a label of their own.
	NeverClaims bool
	// Isolation restricts the networks that a pod may use.
	Isolation attachment.Isolation
	// DefaultNetworks are the networks of pods in namespaces without a label of their own.
	DefaultNetworks []attachment.NetworkRef
	// SystemNamespaces have no default networks.
	SystemNamespaces []string
	// ClusterRanges are addresses that pods reach by eth0.
	ClusterRanges []translate.ClusterRange
}

// Lookups find other objects in the cluster. Each returns nil, or false, for a missing object. A nil
// function finds none.
type Lookups struct {
	Network         func(attachment.NetworkRef) *nadv1.NetworkAttachmentDefinition
	Template        func(namespace, name string) *resourceapi.ResourceClaimTemplate
	Claim           func(namespace, name string) *resourceapi.ResourceClaim
	Class           func(name string) *resourceapi.DeviceClass
	RuntimeClass    func(name string) (handler string, found bool)
	NamespaceLabels func(name string) map[string]string
	NodeLabels      func(name string) map[string]string
	// PoolServer returns what serves a resource pool. If it is nil, nadra serves all.
	PoolServer func(pool string) translate.PoolFacts
	// MultusNodes reports whether the cluster has a node that is not nadra's.
	MultusNodes func() bool
}

// Outcome is the result for a pod.
type Outcome string

// The outcomes. A pod on Multus may need no edits; an untouched pod has none.
const (
	Converted Outcome = "converted"
	OnMultus  Outcome = "multus"
	Untouched Outcome = "untouched"
	Refused   Outcome = "refused"
)

// Decision is what to do with a pod.
type Decision struct {
	Outcome Outcome
	// Edits change the pod. Encoded, they are a JSON Patch.
	Edits []translate.Edit
	// Templates are those to which the pod refers, after the edits, and that do not exist. They are
	// created when the pod exists: it may yet be refused.
	Templates []*resourceapi.ResourceClaimTemplate
	// Warnings are for the client that creates the pod, each of at most 256 bytes.
	Warnings []string
	// Refusal is the reason code, the cause and the remedy.
	Refusal string
}

// Pod decides about a pod of a namespace that is about to be created. manifest is its JSON.
func Pod(manifest []byte, namespace string, o Options, l Lookups) Decision {
	pod := &corev1.Pod{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(manifest, pod); err != nil {
		return refused(reason.Errorf(reason.ObjectNotRead, "reading the pod: %w", err))
	}
	switch {
	case isMirror(pod):
		// The kubelet runs its static pods anyway. A refusal would only hide them from the API.
		return Decision{Outcome: Untouched}
	case pod.Spec.HostNetwork && !asks(pod, o):
		return Decision{Outcome: Untouched}
	case pod.Spec.HostNetwork:
		return Decision{Outcome: Untouched, Warnings: []string{warning(translate.HostNetwork, "")}}
	}
	if err := checkPod(pod); err != nil {
		if !asks(pod, o) {
			return Decision{Outcome: Untouched}
		}
		return refused(err)
	}
	a := admitted{pod: pod, manifest: manifest, namespace: namespace, options: o, lookups: l, hand: handClaimsOf(pod, namespace, l)}
	d := a.withDefaults()
	if err := v1alpha1.CheckSize("the pod", len(d.Edits), v1alpha1.MaxEdits, "changes to make", "remove containers, references to claims or terms of its affinity"); err != nil {
		return refused(err)
	}
	return d
}

// checkPod returns an error if a pod has too many claims or containers.
func checkPod(pod *corev1.Pod) error {
	if err := v1alpha1.CheckSize("spec.resourceClaims", len(pod.Spec.ResourceClaims), v1alpha1.MaxPodClaims, "entries", "remove some of them, or the networks annotation"); err != nil {
		return err
	}
	return v1alpha1.CheckSize("the pod", len(pod.Spec.InitContainers)+len(pod.Spec.Containers), v1alpha1.MaxContainers, "containers and init containers", "remove some of them, or the networks annotation")
}

// decide decides about a pod by its claims and annotations.
func (a admitted) decide() Decision {
	if namesTwice(a.pod) {
		return refused(reason.Errorf(reason.AnnotationInvalid, "the pod has the annotations %s and %s: name all networks in one of them",
			attachment.OwnNetworksAnnotation, attachment.NetworksAnnotation))
	}
	if a.alone() {
		return a.annotatedFor(v1alpha1.OwnerNadra, a.complete())
	}
	if !asks(a.pod, a.options) {
		return a.claimsAlone()
	}
	server, err := a.serves()
	if err != nil {
		return refused(err)
	}
	a.server = server
	if server.Owner == v1alpha1.OwnerMultus {
		return a.annotatedFor(v1alpha1.OwnerMultus, a.leave())
	}
	d := a.annotatedFor(v1alpha1.OwnerNadra, a.convert())
	if _, copied := a.pod.Annotations[v1alpha1.DescribedAnnotation]; copied && d.Outcome == Converted && len(a.hand) == 0 {
		// from the manifest of a pod that had claims by hand: here the annotation decides
		d.Edits = append(d.Edits, translate.Edit{Op: translate.Remove, Path: annotationsPath.Child(v1alpha1.DescribedAnnotation)})
	}
	return d
}

// refused refuses a pod. The error has a code.
func refused(err error) Decision { return Decision{Outcome: Refused, Refusal: err.Error()} }

// isMirror reports whether a pod is the mirror of a static pod.
func isMirror(pod *corev1.Pod) bool {
	_, found := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return found
}

// admitted is a pod that may have networks.
type admitted struct {
	pod       *corev1.Pod
	manifest  []byte
	namespace string
	// server is set by decide.
	server  Server
	options Options
	lookups Lookups
	// hand has the pod's handwritten claims.
	hand []handClaim
	// given has the default networks that precede the pod's own in its annotation.
	given defaultNetworks
}

// leave leaves a pod to Multus.
func (a admitted) leave() Decision {
	if c, found := claimOf(a.pod, a.hand); found {
		return refused(reason.Errorf(reason.OwnerContradiction, "Multus serves this pod because of %s, but only nadra's nodes can satisfy its claim %s: remove the claim, or set label %s=%s on the pod%s",
			a.server.By, c, v1alpha1.OwnerLabel, v1alpha1.OwnerNadra, onNode(a.server.Node)))
	}
	selections, err := attachment.ParseSelections(a.networks(), a.namespace)
	if err == nil && len(selections) == 0 && !asksForDefault(a.pod, a.options) {
		return Decision{Outcome: Untouched}
	}
	return a.keepOff()
}

// keepOff keeps a pod that Multus serves off nadra's nodes, unless its node is decided, or Multus is on
// these nodes, too.
func (a admitted) keepOff() Decision {
	if a.server.Node != "" || a.options.BesideMultus {
		return Decision{Outcome: OnMultus}
	}
	if len(a.pod.Spec.Containers) == 0 {
		// The API server refuses it. It may not even have a spec to edit.
		return Decision{Outcome: Untouched}
	}
	return Decision{Outcome: OnMultus, Edits: require(a.pod, ownedBy(corev1.NodeSelectorOpNotIn))}
}

// onNode returns the end of a remedy that sets a label on a pod and on its node.
func onNode(node string) string {
	if node == "" {
		return ""
	}
	return " and on node " + node
}

// convert applies the rules of pkg/translate, and the rules for pods in a cluster.
func (a admitted) convert() Decision {
	selections, err := attachment.ParseSelections(a.networks(), a.namespace)
	if reason.Of(err) == reason.LimitExceeded {
		return refused(reason.Errorf(reason.LimitExceeded, "annotation %s of the pod: %s. %s%s",
			a.networksKey(), reason.Message(err), a.given.hint(), a.server.leaveHint()))
	}
	without, reasons := a.withoutClaim(selections)
	var d Decision
	if len(a.hand) > 0 && !a.converted() {
		if d = a.complete(); d.Outcome == Refused {
			return d
		}
	} else {
		result, err := a.translated()
		if err != nil {
			return refused(reason.Errorf(reason.ObjectNotRead, "reading the pod: %w", err))
		}
		result.Findings = slices.DeleteFunc(result.Findings, func(f translate.Finding) bool {
			return f.Code == translate.NodeNamed || f.Code == translate.NodeNamedClaim // withoutClaim says so
		})
		if without != "" && len(reasons) == 0 {
			result.Findings = ofAnnotation(result.Findings)
		}
		if len(reasons) == 0 && a.unserved(result.Findings) {
			return a.leaveUnserved(result.Findings)
		}
		// A refusal says nothing else about networks that the pod may not use, for example that
		// one does not exist.
		if forbidden := a.isolation(selections); len(forbidden) > 0 {
			reasons = append(reasons, forbidden...)
		} else {
			reasons = append(reasons, a.blockers(result.Findings)...)
		}
		d = Decision{Outcome: Untouched, Warnings: warnings(result.Findings)}
		if without != "" {
			d.Warnings = append([]string{without}, d.Warnings[:min(len(d.Warnings), maxWarnings-1)]...)
			d.Edits = a.annotatedAlone(result.Edits)
		} else {
			d.Templates, d.Edits = result.Templates, append(result.Edits, onePodInfo(a.pod)...)
		}
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
	return slices.ContainsFunc(a.pod.Spec.ResourceClaims, isMade)
}

// translated applies the rules of pkg/translate.
func (a admitted) translated() (translate.PodResult, error) {
	return translate.Pod(a.manifest, translate.Options{
		Namespace: a.namespace, BesideMultus: a.options.BesideMultus, Pools: a.options.Pools, NoPodInfo: a.options.NoPodInfo, AllNetworks: true,
		// A controller creates a refused pod again. Nothing else does.
		AwaitNetworks:     metav1.GetControllerOf(a.pod) == nil,
		NoVirtualMachines: a.options.NoVirtualMachines,
		PoolServer:        a.lookups.PoolServer,
		ClusterRanges:     a.options.ClusterRanges,
		Lookup:            a.lookups.Network, LookupTemplate: a.lookups.Template, LookupRuntimeClass: a.lookups.RuntimeClass,
	})
}

// isolation returns why the pod may not use some networks. The webhook would refuse the claim, too,
// but only when it is created.
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
