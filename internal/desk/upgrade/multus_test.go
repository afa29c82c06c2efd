package upgrade

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"
)

func daemonSet(t *testing.T, affinity string) *appsv1.DaemonSet {
	t.Helper()
	var d appsv1.DaemonSet
	decode(t, []byte(`
metadata: {name: kube-multus-ds, namespace: kube-system}
spec:
  updateStrategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 10%}}
  template:
    spec: {`+affinity+`}
`), &d)
	return &d
}

// Every form of node affinity is kept and extended by the exclusion of nadra's nodes,
// and restored afterwards.
func TestKeepOffAndRestore(t *testing.T) {
	const not = "{key: nadra.dev/owner, operator: NotIn, values: [nadra]}"
	for name, test := range map[string]struct{ before, after string }{
		"nothing":     {"", "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [" + not + "]}]}}}"},
		"other kinds": {"affinity: {podAntiAffinity: {}}", "affinity: {podAntiAffinity: {}, nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [" + not + "]}]}}}"},
		"terms, each of them": {
			"affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}, {matchFields: [{key: metadata.name, operator: In, values: [x]}]}]}}}",
			"affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}, " + not + "]}, {matchExpressions: [" + not + "], matchFields: [{key: metadata.name, operator: In, values: [x]}]}]}}}",
		},
		// With the requirement, the empty term, which matches no node, would match all of Multus' nodes.
		"an empty term": {
			"affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{}, {matchExpressions: [{key: a, operator: Exists}]}]}}}",
			"affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{}, {matchExpressions: [{key: a, operator: Exists}, " + not + "]}]}}}",
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, original := daemonSet(t, test.before), daemonSet(t, test.before)
			was, changed, err := keepOff(d)
			if err != nil || !changed {
				t.Fatalf("changed %v, %v", changed, err)
			}
			want := daemonSet(t, test.after)
			want.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType}
			if diff := cmp.Diff(text(t, want), text(t, d)); diff != "" {
				t.Errorf("kept off (-want +got):\n%s", diff)
			}
			if _, again, err := keepOff(d); err != nil || again {
				t.Errorf("a second time: changed %v, %v", again, err)
			}
			if changed, err := restore(d, was); err != nil || !changed {
				t.Errorf("restored %v, %v", changed, err)
			}
			if diff := cmp.Diff(text(t, original), text(t, d)); diff != "" {
				t.Errorf("restored (-want +got):\n%s", diff)
			}
			if again, err := restore(d, was); err != nil || again {
				t.Errorf("restored a second time: %v, %v", again, err)
			}
		})
	}
}

// A DaemonSet whose only term matches no node stays as it is.
func TestKeepOffNoNode(t *testing.T) {
	d := daemonSet(t, "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{}]}}}")
	before := text(t, d)
	if _, changed, err := keepOff(d); err != nil || changed || text(t, d) != before {
		t.Errorf("changed %v, %v:\n%s", changed, err, text(t, d))
	}
}

func text(t *testing.T, d *appsv1.DaemonSet) string {
	t.Helper()
	out, err := yaml.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
