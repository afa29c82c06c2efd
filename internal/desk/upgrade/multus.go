package upgrade

import (
	"encoding/json"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// awayFromNadra keeps a pod off nadra's nodes.
var awayFromNadra = corev1.NodeSelectorRequirement{
	Key: v1alpha1.OwnerLabel, Operator: corev1.NodeSelectorOpNotIn, Values: []string{v1alpha1.OwnerNadra},
}

// keepOff changes a DaemonSet of Multus so that its pods leave nadra's nodes. The
// pods on other nodes stay: they are replaced only when they are deleted. It returns
// the DaemonSet's original settings, and reports whether it changed them.
func keepOff(d *appsv1.DaemonSet) (was MultusState, changed bool, err error) {
	spec := &d.Spec.Template.Spec
	if was.Affinity, err = asJSON(spec.Affinity); err == nil {
		was.UpdateStrategy, err = asJSON(&d.Spec.UpdateStrategy)
	}
	if err != nil {
		return was, false, fmt.Errorf("keeping DaemonSet %s/%s off nadra's nodes: %w", d.Namespace, d.Name, err)
	}
	if keepsOff(spec.Affinity) {
		return was, false, nil
	}
	spec.Affinity = withoutNadra(spec.Affinity)
	d.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType}
	return was, true, nil
}

// Restore gives a DaemonSet its original settings, and reports whether it changed
// them.
func Restore(d *appsv1.DaemonSet, was MultusState) (changed bool, err error) {
	var affinity *corev1.Affinity
	var strategy appsv1.DaemonSetUpdateStrategy
	for _, field := range []struct {
		text json.RawMessage
		into any
	}{{was.Affinity, &affinity}, {was.UpdateStrategy, &strategy}} {
		if len(field.text) == 0 {
			continue
		}
		if err := json.Unmarshal(field.text, field.into); err != nil {
			return false, fmt.Errorf("reading the original settings of DaemonSet %s/%s: %w", d.Namespace, d.Name, err)
		}
	}
	if !keepsOff(d.Spec.Template.Spec.Affinity) {
		return false, nil
	}
	d.Spec.Template.Spec.Affinity, d.Spec.UpdateStrategy = affinity, strategy
	return true, nil
}

func asJSON(v any) (json.RawMessage, error) {
	text, err := json.Marshal(v)
	if err != nil || string(text) == "null" {
		return nil, err
	}
	return text, nil
}

// keepsOff reports whether no term of an affinity lets a pod onto nadra's nodes.
func keepsOff(a *corev1.Affinity) bool {
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return false
	}
	terms := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	return len(terms) > 0 && !slices.ContainsFunc(terms, func(t corev1.NodeSelectorTerm) bool { return !hasTerm(t) })
}

func hasTerm(t corev1.NodeSelectorTerm) bool {
	return slices.ContainsFunc(t.MatchExpressions, func(r corev1.NodeSelectorRequirement) bool {
		return r.Key == awayFromNadra.Key && r.Operator == awayFromNadra.Operator && slices.Contains(r.Values, v1alpha1.OwnerNadra)
	})
}

// withoutNadra adds the requirement to each term, because one matching term is enough
// for the scheduler.
func withoutNadra(a *corev1.Affinity) *corev1.Affinity {
	out := a.DeepCopy()
	if out == nil {
		out = &corev1.Affinity{}
	}
	if out.NodeAffinity == nil {
		out.NodeAffinity = &corev1.NodeAffinity{}
	}
	selector := out.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if selector == nil || len(selector.NodeSelectorTerms) == 0 {
		selector = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{}}}
		out.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = selector
	}
	for i := range selector.NodeSelectorTerms {
		if t := &selector.NodeSelectorTerms[i]; !hasTerm(*t) {
			t.MatchExpressions = append(t.MatchExpressions, awayFromNadra)
		}
	}
	return out
}
