package admission

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// Server is who attaches a pod's networks.
type Server struct {
	// Owner is v1alpha1.OwnerNadra or v1alpha1.OwnerMultus.
	Owner string
	// By says what decided it, for messages.
	By string
	// Node is the node that the pod can run on alone, if it is known already.
	Node string
	// Labelled is set where the pod's own label says so.
	Labelled bool
}

// Serves says who serves a pod of a namespace. A pod that is for one node is
// served by whoever serves that node; else the pod's label counts before its
// claims, those before the namespace's label, and that before the default.
//
// A namespace's label is a default and yields to the node: that is how one
// DaemonSet runs on both kinds of node. The pod's own label is a demand: where
// the node contradicts it, nobody can meet it, and that is an error.
func Serves(pod *corev1.Pod, namespace string, o Options, l Lookups) (Server, error) {
	own, err := ownerLabel("pod", pod.Labels)
	if err != nil {
		return Server{}, err
	}
	if node := targetNode(pod); node != "" {
		s := byNode(node, l)
		if own != "" && own != s.Owner {
			return Server{}, reason.Errorf(reason.OwnerContradiction, "the pod has label %s=%s and is for node %s, which is %s's: remove the label, and the node decides; or keep the pod off the node",
				v1alpha1.OwnerLabel, own, node, s.Owner)
		}
		s.Labelled = own != ""
		return s, nil
	}
	if own != "" {
		return Server{Owner: own, By: "its label " + v1alpha1.OwnerLabel, Labelled: true}, nil
	}
	if c, found := claimOf(pod, handClaimsOf(pod, namespace, l)); found {
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
	return Server{Owner: o.defaultOwner(), By: "the cluster's default"}, nil
}

// byNode is exact where labels of pods are strict: every other value leaves a
// node to Multus, as it does for the node affinity that the others get.
func byNode(node string, l Lookups) Server {
	s := Server{Owner: v1alpha1.OwnerMultus, By: "node " + node + ", the only one that it is for", Node: node}
	if l.NodeLabels != nil && l.NodeLabels(node)[v1alpha1.OwnerLabel] == v1alpha1.OwnerNadra {
		s.Owner = v1alpha1.OwnerNadra
	}
	return s
}

// ownerLabel reads the label of an object; it is empty where there is none.
func ownerLabel(object string, labels map[string]string) (string, error) {
	value, labelled := labels[v1alpha1.OwnerLabel]
	switch value {
	case v1alpha1.OwnerNadra, v1alpha1.OwnerMultus:
		return value, nil
	}
	if !labelled {
		return "", nil
	}
	return "", reason.Errorf(reason.OwnerContradiction, "label %s of the %s: %q is not known: use %s or %s, or remove it",
		v1alpha1.OwnerLabel, object, value, v1alpha1.OwnerNadra, v1alpha1.OwnerMultus)
}

// targetNode is the only node that a pod can run on: that of spec.nodeName, or
// the one to which the DaemonSet controller binds its pods, by a required
// affinity to metadata.name.
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
