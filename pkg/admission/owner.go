package admission

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// Server is what attaches a pod's networks: nadra or Multus.
type Server struct {
	// Owner is v1alpha1.OwnerNadra or v1alpha1.OwnerMultus.
	Owner string
	// By is the object that decides it, for messages.
	By string
	// Node is the only node on which the pod can run, if it is known already.
	Node string
	// Labelled is set if the pod has the label itself.
	Labelled bool
}

// Serves returns whether nadra or Multus serves a pod of a namespace. If the pod can only run on one
// node, the owner of that node serves it, but not if Multus stays on nadra's nodes. Otherwise the
// pod's label takes precedence over its claims, those over the namespace's label, that over nadra's
// annotation, and that over the default.
//
// The label of a namespace is a default and yields to the node, so that one DaemonSet can run on both
// kinds of nodes. The pod's own label is a requirement: Serves returns an error if the node
// contradicts it.
func Serves(pod *corev1.Pod, namespace string, o Options, l Lookups) (Server, error) {
	return admitted{pod: pod, namespace: namespace, options: o, lookups: l, hand: handClaimsOf(pod, namespace, l)}.serves()
}

// serves returns what serves the pod.
func (a admitted) serves() (Server, error) {
	pod, namespace, o, l := a.pod, a.namespace, a.options, a.lookups
	own, err := ownerLabel("pod", pod.Labels)
	if err != nil {
		return Server{}, err
	}
	if node := targetNode(pod); node != "" && !o.BesideMultus {
		s := byNode(node, l)
		if own != "" && own != s.Owner {
			return Server{}, reason.Errorf(reason.OwnerContradiction, "the pod has label %s=%s, and its node %s belongs to %s: remove the label, so that the node decides, or keep the pod off the node",
				v1alpha1.OwnerLabel, own, node, s.Owner)
		}
		s.Labelled = own != ""
		return s, nil
	}
	if own != "" {
		return Server{Owner: own, By: "its label " + v1alpha1.OwnerLabel, Labelled: true}, nil
	}
	if c, found := claimOf(pod, a.hand); found {
		return Server{Owner: v1alpha1.OwnerNadra, By: c}, nil
	}
	if l.NamespaceLabels != nil {
		own, err = ownerLabel("namespace "+namespace, l.NamespaceLabels(namespace))
		if err != nil {
			return Server{}, err
		}
	}
	if own != "" {
		return Server{Owner: own, By: fmt.Sprintf("label %s of namespace %s", v1alpha1.OwnerLabel, namespace)}, nil
	}
	if attachment.NamesOwn(pod.Annotations) {
		return Server{Owner: v1alpha1.OwnerNadra, By: "its annotation " + attachment.OwnNetworksAnnotation}, nil
	}
	return Server{Owner: cmp.Or(o.DefaultOwner, v1alpha1.OwnerMultus), By: "the cluster's default"}, nil
}

// byNode returns the owner of a node. Any other value of its label than nadra leaves the node to
// Multus, as the node affinity of Multus' pods does.
func byNode(node string, l Lookups) Server {
	s := Server{Owner: v1alpha1.OwnerMultus, By: "its only node " + node, Node: node}
	if l.NodeLabels != nil && l.NodeLabels(node)[v1alpha1.OwnerLabel] == v1alpha1.OwnerNadra {
		s.Owner = v1alpha1.OwnerNadra
	}
	return s
}

// ownerLabel returns the value of an object's label, or "".
func ownerLabel(object string, labels map[string]string) (string, error) {
	value, labelled := labels[v1alpha1.OwnerLabel]
	switch value {
	case v1alpha1.OwnerNadra, v1alpha1.OwnerMultus:
		return value, nil
	}
	if !labelled {
		return "", nil
	}
	return "", reason.Errorf(reason.OwnerContradiction, "label %s of the %s: %q is unknown: use %s or %s, or remove it",
		v1alpha1.OwnerLabel, object, value, v1alpha1.OwnerNadra, v1alpha1.OwnerMultus)
}

// targetNode returns the only node on which a pod can run: spec.nodeName, or the node to which the
// DaemonSet controller binds its pods by a required affinity to metadata.name.
func targetNode(pod *corev1.Pod) string {
	if pod.Spec.NodeName != "" {
		return pod.Spec.NodeName
	}
	required := requiredAffinity(pod)
	if required == nil {
		return ""
	}
	node := ""
	for _, term := range required.NodeSelectorTerms {
		name := nodeOfTerm(term)
		if name == "" || node != "" && name != node {
			return ""
		}
		node = name
	}
	return node
}

// nodeOfTerm returns the node that a term requires.
func nodeOfTerm(term corev1.NodeSelectorTerm) string {
	for _, f := range term.MatchFields {
		if f.Key == "metadata.name" && f.Operator == corev1.NodeSelectorOpIn && len(f.Values) == 1 {
			return f.Values[0]
		}
	}
	return ""
}

func requiredAffinity(pod *corev1.Pod) *corev1.NodeSelector {
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		return a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	return nil
}
