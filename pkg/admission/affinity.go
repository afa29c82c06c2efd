package admission

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// away returns the requirement that keeps a pod off nadra's nodes. Nodes without the label match.
func away() corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: v1alpha1.OwnerLabel, Operator: corev1.NodeSelectorOpNotIn, Values: []string{v1alpha1.OwnerNadra}}
}

// keepAway returns the edits that keep a pod off nadra's nodes. It returns none for terms that have
// the requirement.
//
// Terms are alternatives, so each gets the requirement. A term without requirements matches no node
// and would match nearly all with this one, so it stays as it is. The API server refuses a list
// without terms.
func keepAway(pod *corev1.Pod) []translate.Edit {
	at := translate.Path{"spec", "affinity"}
	term := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{away()}}
	required := &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term}}
	node := &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required}
	affinity := pod.Spec.Affinity
	if affinity == nil {
		return []translate.Edit{{Op: translate.Add, Path: at, Value: &corev1.Affinity{NodeAffinity: node}}}
	}
	at = at.Child("nodeAffinity")
	if affinity.NodeAffinity == nil {
		return []translate.Edit{{Op: translate.Add, Path: at, Value: node}}
	}
	at = at.Child("requiredDuringSchedulingIgnoredDuringExecution")
	there := affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if there == nil {
		return []translate.Edit{{Op: translate.Add, Path: at, Value: required}}
	}
	var edits []translate.Edit
	for i, t := range there.NodeSelectorTerms {
		edits = append(edits, termEdits(at.Child("nodeSelectorTerms", strconv.Itoa(i), "matchExpressions"), t)...)
	}
	return edits
}

// termEdits returns the edit of one term.
func termEdits(at translate.Path, t corev1.NodeSelectorTerm) []translate.Edit {
	switch {
	case len(t.MatchExpressions) == 0 && len(t.MatchFields) == 0, slices.ContainsFunc(t.MatchExpressions, isAway):
		return nil
	case len(t.MatchExpressions) == 0:
		return []translate.Edit{{Op: translate.Add, Path: at, Value: []corev1.NodeSelectorRequirement{away()}}}
	}
	return []translate.Edit{{Op: translate.Add, Path: at.Child("-"), Value: away()}}
}

// isAway reports whether a requirement keeps a pod off nadra's nodes.
func isAway(r corev1.NodeSelectorRequirement) bool {
	return r.Key == v1alpha1.OwnerLabel && r.Operator == corev1.NodeSelectorOpNotIn && slices.Contains(r.Values, v1alpha1.OwnerNadra)
}
