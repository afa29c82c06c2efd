package admission

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// TestKeepsOff checks that an affinity keeps pods off nadra's nodes only if each of its terms does that can match a node.
func TestKeepsOff(t *testing.T) {
	const not, other = "{key: nadra.dev/owner, operator: NotIn, values: [nadra]}", "{key: a, operator: Exists}"
	for terms, want := range map[string]bool{
		"[{matchExpressions: [" + not + "]}]":                                       true,
		"[{matchExpressions: [" + not + "]}, {}]":                                   true,
		"[{matchExpressions: [" + not + "]}, {matchExpressions: [" + other + "]}]":  false,
		"[{matchExpressions: [{key: nadra.dev/owner, operator: In, values: [x]}]}]": false,
		"[{}]": false,
	} {
		var affinity corev1.Affinity
		text := "{nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: " + terms + "}}}"
		if err := yaml.UnmarshalStrict([]byte(text), &affinity); err != nil {
			t.Fatal(err)
		}
		if got := KeepsOff(&affinity); got != want {
			t.Errorf("%s: %v, want %v", terms, got, want)
		}
	}
	if KeepsOff(nil) {
		t.Error("no affinity keeps pods off")
	}
}
