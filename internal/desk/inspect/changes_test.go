package inspect

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// TestChanges checks that a watch prints each row once, and again only after a change.
func TestChanges(t *testing.T) {
	row := func(pod string, state State, notes ...string) Attachment {
		return Attachment{Pod: pod, State: state, Notes: notes, key: pod}
	}
	wide, narrow := Changes{}, Changes{Narrow: true}
	for _, step := range []struct {
		rows         []Attachment
		wide, narrow string
	}{
		{[]Attachment{row("a", Preparing), row("b", Waiting)}, "a Preparing, b Waiting", "a Preparing, b Waiting"},
		{[]Attachment{row("a", Preparing), row("b", Waiting)}, "", ""},
		{[]Attachment{row("a", Attached, "no network-status"), row("b", Waiting)}, "a Attached", "a Attached"},
		{[]Attachment{row("a", Attached), row("b", Waiting)}, "a Attached", ""},
		{[]Attachment{row("b", Attached)}, "b Attached, a Gone", "b Attached, a Gone"},
		{nil, "b Gone", "b Gone"},
	} {
		if diff := cmp.Diff([]string{step.wide, step.narrow}, []string{states(wide.Next(step.rows)), states(narrow.Next(step.rows))}); diff != "" {
			t.Errorf("after %s (-want +got):\n%s", states(step.rows), diff)
		}
	}
}

func states(rows []Attachment) string {
	var out []string
	for _, a := range rows {
		out = append(out, a.Pod+" "+string(a.State))
	}
	return strings.Join(out, ", ")
}

func TestFilter(t *testing.T) {
	rows := []Attachment{
		{Namespace: "x", Pod: "a", Node: "n1", State: Attached, Network: &attachment.NetworkRef{Namespace: "x", Name: "blue"}},
		{Namespace: "x", Pod: "b", Node: "n2", State: Failed, Network: &attachment.NetworkRef{Namespace: "y", Name: "blue"}},
		{Namespace: "x", Pod: "b", Node: "n2", State: Waiting},
	}
	pods := []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "b", Labels: map[string]string{"app": "web"}}}}
	for _, tt := range []struct {
		name   string
		filter Filter
		want   string
	}{
		{"nothing", Filter{}, "a Attached, b Failed, b Waiting"},
		{"no labels", Filter{Labels: labels.Everything()}, "a Attached, b Failed, b Waiting"},
		{"labels", Filter{Labels: labels.SelectorFromSet(labels.Set{"app": "web"})}, "b Failed, b Waiting"},
		{"pod", Filter{Pods: []string{"a", "c"}}, "a Attached"},
		{"node", Filter{Node: "n2"}, "b Failed, b Waiting"},
		{"network by name", Filter{Network: "blue"}, "a Attached, b Failed"},
		{"network", Filter{Network: "y/blue"}, "b Failed"},
		{"none", Filter{Network: "y/red"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := states(tt.filter.Apply(rows, pods)); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
