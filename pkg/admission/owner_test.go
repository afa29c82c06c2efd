package admission

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/nadra-dev/nadra/internal/words"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// pinned returns a pod as the DaemonSet controller creates it.
func pinned(nodes ...string) *corev1.Pod {
	selector := &corev1.NodeSelector{}
	for _, n := range nodes {
		selector.NodeSelectorTerms = append(selector.NodeSelectorTerms, corev1.NodeSelectorTerm{
			MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{n}}},
		})
	}
	p := &corev1.Pod{}
	p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: selector}}
	return p
}

func labelled(p *corev1.Pod, owner string) *corev1.Pod {
	p.Labels = map[string]string{v1alpha1.OwnerLabel: owner}
	return p
}

func onNamedNode(name string) *corev1.Pod {
	p := &corev1.Pod{}
	p.Spec.NodeName = name
	return p
}

func withTemplate(name string) *corev1.Pod {
	p := &corev1.Pod{}
	p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "other"}, {Name: "nadra", ResourceClaimTemplateName: &name}}
	return p
}

func TestServes(t *testing.T) {
	nodes := map[string]string{"ours": "nadra", "theirs": "", "odd": "Nadra"}
	for name, c := range map[string]struct {
		pod       *corev1.Pod
		namespace string
		def       string
		want, by  string
	}{
		"default":                                      {pod: &corev1.Pod{}, want: "multus", by: "the cluster's default"},
		"another default":                              {pod: &corev1.Pod{}, def: "nadra", want: "nadra", by: "the cluster's default"},
		"namespace":                                    {pod: &corev1.Pod{}, namespace: "nadra", want: "nadra", by: "label nadra.dev/owner of namespace shop"},
		"namespace before default":                     {pod: &corev1.Pod{}, namespace: "multus", def: "nadra", want: "multus"},
		"pod before namespace":                         {pod: labelled(&corev1.Pod{}, "multus"), namespace: "nadra", want: "multus", by: "its label nadra.dev/owner"},
		"claim before namespace":                       {pod: withTemplate("nadra-lan-0123456789"), namespace: "multus", want: "nadra", by: "spec.resourceClaims[1] (template nadra-lan-0123456789)"},
		"another claim":                                {pod: withTemplate("gpu"), namespace: "multus", want: "multus"},
		"node of nadra":                                {pod: pinned("ours"), namespace: "multus", want: "nadra", by: "its only node ours"},
		"node of Multus":                               {pod: pinned("theirs"), namespace: "nadra", want: "multus"},
		"node with an odd label":                       {pod: pinned("odd"), want: "multus"},
		"node that is not there":                       {pod: pinned("none"), namespace: "nadra", want: "multus"},
		"node in all terms":                            {pod: pinned("ours", "ours"), want: "nadra"},
		"several nodes":                                {pod: pinned("ours", "theirs"), namespace: "multus", want: "multus", by: "label nadra.dev/owner of namespace shop"},
		"name of the node":                             {pod: onNamedNode("ours"), namespace: "multus", want: "nadra"},
		"node and label agree":                         {pod: labelled(pinned("ours"), "nadra"), want: "nadra"},
		"Multus' label on nadra's node":                {pod: labelled(pinned("ours"), "multus"), want: "!node ours"},
		"nadra's label on Multus' node":                {pod: labelled(pinned("theirs"), "nadra"), want: "!node theirs"},
		"no such owner":                                {pod: labelled(&corev1.Pod{}, "Multus"), want: `!label nadra.dev/owner of the pod: "Multus"`},
		"empty label":                                  {pod: labelled(&corev1.Pod{}, ""), want: `!label nadra.dev/owner of the pod: ""`},
		"namespace with no such owner":                 {pod: &corev1.Pod{}, namespace: "x", want: `!label nadra.dev/owner of the namespace shop: "x"`},
		"the pod's label decides before the namespace": {pod: labelled(&corev1.Pod{}, "nadra"), namespace: "x", want: "nadra"},
		"a node decides before namespace":              {pod: pinned("ours"), namespace: "x", want: "nadra"},
	} {
		l := Lookups{
			NodeLabels: func(name string) map[string]string { return map[string]string{v1alpha1.OwnerLabel: nodes[name]} },
			NamespaceLabels: func(name string) map[string]string {
				if name != "shop" || c.namespace == "" {
					return nil
				}
				return map[string]string{v1alpha1.OwnerLabel: c.namespace}
			},
		}
		got, err := Serves(c.pod, "shop", Options{DefaultOwner: c.def}, l)
		if message, fails := strings.CutPrefix(c.want, "!"); fails {
			if reason.Of(err) != reason.OwnerContradiction || !strings.Contains(err.Error(), message) {
				t.Errorf("%s: got %+v, %v", name, got, err)
			}
			continue
		}
		if err != nil || got.Owner != c.want || c.by != "" && got.By != c.by {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
}

func TestShortened(t *testing.T) {
	long := strings.Repeat("é", 200)
	if got := words.Short(long, maxWarning); len(got) > maxWarning || !strings.HasSuffix(got, "é…") {
		t.Errorf("got %q", got)
	}
	if got := warning("NADRA-021", strings.Repeat("x", 300)); strings.Contains(got, "xx") || len(got) > maxWarning {
		t.Errorf("got %q", got)
	}
}

// TestNoSpec checks that the API server gets to refuse a pod without a spec.
func TestNoSpec(t *testing.T) {
	pod := []byte(`{"metadata": {"annotations": {"k8s.v1.cni.cncf.io/networks": "lan"}}}`)
	for owner, want := range map[string]Outcome{"multus": Untouched, "nadra": Refused} {
		if d := Pod(pod, "shop", Options{DefaultOwner: owner}, Lookups{}); d.Outcome != want || len(d.Edits) > 0 {
			t.Errorf("%s: got %+v", owner, d)
		}
	}
}

func TestUnreadable(t *testing.T) {
	for _, text := range []string{``, `{`, `[]`, `{"spec": {"containers": 1}}`} {
		if d := Pod([]byte(text), "shop", Options{}, Lookups{}); d.Outcome != Refused || reason.In(d.Refusal) != reason.ObjectNotRead {
			t.Errorf("%q: got %+v", text, d)
		}
	}
}

// TestUnserved checks that a pod is left to Multus for what nadra leaves to Multus, and refused if anything else
// blocks it, too.
func TestUnserved(t *testing.T) {
	left := translate.Finding{Code: translate.PoolUnserved, Severity: translate.Blocker}
	for name, c := range map[string]struct {
		findings []translate.Finding
		want     bool
	}{
		"nothing":                  {nil, false},
		"left":                     {[]translate.Finding{left}, true},
		"left, and a warning":      {[]translate.Finding{left, {Code: translate.SlashInName, Severity: translate.Warning}}, true},
		"left, and another reason": {[]translate.Finding{left, {Code: translate.SlashInName, Severity: translate.Blocker}}, false},
		"another reason":           {[]translate.Finding{{Code: translate.SlashInName, Severity: translate.Blocker}}, false},
	} {
		if got := (admitted{}).unserved(c.findings); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
