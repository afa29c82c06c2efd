package admission

import (
	"encoding/json"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// ownedBy returns a requirement about nadra's nodes: In for these, NotIn for all others.
func ownedBy(operator corev1.NodeSelectorOperator) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: v1alpha1.OwnerLabel, Operator: operator, Values: []string{v1alpha1.OwnerNadra}}
}

// KeepOff changes the affinity of pods so that it keeps them off nadra's nodes, and reports whether it did.
func KeepOff(spec *corev1.PodSpec) (changed bool, err error) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Affinity: spec.Affinity}}
	edits := require(pod, ownedBy(corev1.NodeSelectorOpNotIn))
	text, err := json.Marshal(pod)
	if err == nil {
		text, err = patched(text, edits)
	}
	if pod = new(corev1.Pod); err == nil {
		err = json.Unmarshal(text, pod)
	}
	spec.Affinity = pod.Spec.Affinity
	return len(edits) > 0, err
}

// KeepsOff reports whether an affinity keeps pods off nadra's nodes, and not off all nodes.
func KeepsOff(affinity *corev1.Affinity) bool {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Affinity: affinity}}
	return len(require(pod, ownedBy(corev1.NodeSelectorOpNotIn))) == 0 &&
		slices.ContainsFunc(requiredAffinity(pod).NodeSelectorTerms, mayMatch)
}

// mayMatch reports whether a term has requirements. One without matches no node.
func mayMatch(t corev1.NodeSelectorTerm) bool { return len(t.MatchExpressions)+len(t.MatchFields) > 0 }

// require returns the edits that give a pod a requirement of its node. It returns none for terms that have it.
//
// Terms are alternatives, so each gets the requirement. A term without requirements would match nearly all nodes with
// this one, so it stays as it is. The API server refuses a list without terms.
func require(pod *corev1.Pod, requirement corev1.NodeSelectorRequirement) []translate.Edit {
	at := translate.Path{"spec", "affinity"}
	term := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{requirement}}
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
		edits = append(edits, termEdits(at.Child("nodeSelectorTerms", strconv.Itoa(i), "matchExpressions"), t, requirement)...)
	}
	return edits
}

// termEdits returns the edit of one term.
func termEdits(at translate.Path, t corev1.NodeSelectorTerm, requirement corev1.NodeSelectorRequirement) []translate.Edit {
	has := func(r corev1.NodeSelectorRequirement) bool {
		return r.Key == requirement.Key && r.Operator == requirement.Operator &&
			(slices.Equal(r.Values, requirement.Values) ||
				r.Operator == corev1.NodeSelectorOpNotIn && slices.Contains(r.Values, v1alpha1.OwnerNadra))
	}
	if !mayMatch(t) || slices.ContainsFunc(t.MatchExpressions, has) {
		return nil
	}
	return translate.AppendEdits(at, len(t.MatchExpressions) == 0, requirement)
}
