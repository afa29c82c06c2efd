package inspect

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Filter selects attachments. The zero value selects all.
type Filter struct {
	// Pods are pods' names.
	Pods []string
	// Labels selects pods.
	Labels labels.Selector
	Node   string
	// Network is the name of a NAD, or namespace/name.
	Network string
}

// Apply returns the selected rows. It finds the labels in pods.
func (f Filter) Apply(rows []Attachment, pods []*corev1.Pod) []Attachment {
	labelled := map[string]bool{}
	if f.Labels != nil {
		for _, p := range pods {
			labelled[p.Namespace+"/"+p.Name] = f.Labels.Matches(labels.Set(p.Labels))
		}
	}
	out := []Attachment{}
	for _, a := range rows {
		if f.passes(a) && (f.Labels == nil || f.Labels.Empty() || labelled[a.Namespace+"/"+a.Pod]) {
			out = append(out, a)
		}
	}
	return out
}

func (f Filter) passes(a Attachment) bool {
	if len(f.Pods) > 0 && !slices.Contains(f.Pods, a.Pod) || f.Node != "" && f.Node != a.Node {
		return false
	}
	switch {
	case f.Network == "":
		return true
	case a.Network == nil:
		return false
	case strings.Contains(f.Network, "/"):
		return a.Network.String() == f.Network
	}
	return a.Network.Name == f.Network
}
