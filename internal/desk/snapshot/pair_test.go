package snapshot

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// podFrom parses a pod: kind/workload#ordinal@node name net1,net2
func podFrom(text string) *Pod {
	fields := strings.Fields(text)
	head, node, _ := strings.Cut(fields[0], "@")
	owner, ordinal, numbered := strings.Cut(head, "#")
	p := &Pod{Namespace: "a", Name: fields[1], Node: node}
	if kind, name, found := strings.Cut(owner, "/"); found {
		p.Workload = &Workload{Kind: kind, Name: name}
	}
	if numbered {
		n := int(ordinal[0] - '0')
		p.Ordinal = &n
	}
	if len(fields) > 2 {
		for _, network := range strings.Split(fields[2], ",") {
			p.Interfaces = append(p.Interfaces, Interface{Network: "a/" + network, Name: network})
		}
	}
	return p
}

func podsFrom(texts []string) []*Pod {
	var out []*Pod
	for _, t := range texts {
		out = append(out, podFrom(t))
	}
	return out
}

func TestPair(t *testing.T) {
	for name, test := range map[string]struct{ was, now, want []string }{
		"the name counts first": {
			[]string{"Deployment/web@n1 web-1", "Deployment/web@n2 web-2"},
			[]string{"Deployment/web@n2 web-1", "Deployment/web@n1 web-2"},
			[]string{"web-1=web-1", "web-2=web-2"},
		},
		"a Deployment's, on the same node first": {
			[]string{"Deployment/web@n1 web-1", "Deployment/web@n2 web-2"},
			[]string{"Deployment/web@n2 web-3", "Deployment/web@n1 web-4"},
			[]string{"web-1=web-4", "web-2=web-3"},
		},
		"those that look the same": {
			[]string{"Deployment/web@n1 web-1 blue", "Deployment/web@n2 web-2 blue,red"},
			[]string{"Deployment/web@n3 web-3 blue,red", "Deployment/web@n3 web-4 blue"},
			[]string{"web-1=web-4", "web-2=web-3"},
		},
		"and else any": {
			[]string{"Deployment/web@n1 web-1 blue"},
			[]string{"Deployment/web@n3 web-3 red"},
			[]string{"web-1=web-3"},
		},
		"fewer and more": {
			[]string{"Deployment/web@n1 web-1", "Deployment/web@n1 web-2", "Deployment/api@n1 api-1"},
			[]string{"Deployment/web@n1 web-3", "Deployment/api@n1 api-2", "Deployment/api@n1 api-3"},
			[]string{"web-1=web-3", "api-1=api-2", "-web-2", "+api-3"},
		},
		"a DaemonSet's by its node": {
			[]string{"DaemonSet/osd@n1 osd-1", "DaemonSet/osd@n2 osd-2"},
			[]string{"DaemonSet/osd@n2 osd-3", "DaemonSet/osd@n3 osd-4"},
			[]string{"osd-2=osd-3", "-osd-1", "+osd-4"},
		},
		"by number": {
			[]string{"Job/train#0@n1 train-0-aaa", "Job/train#1@n2 train-1-bbb"},
			[]string{"Job/train#1@n1 train-1-ccc", "Job/train#2@n2 train-2-ddd"},
			[]string{"train-1-bbb=train-1-ccc", "-train-0-aaa", "+train-2-ddd"},
		},
		"bare pods": {
			[]string{"@n1 one", "@n1 two"},
			[]string{"@n2 two", "@n2 three"},
			[]string{"two=two", "-one", "+three"},
		},
		"of the same name and another kind": {
			[]string{"Deployment/web@n1 web-1"},
			[]string{"StatefulSet/web@n1 web-2"},
			[]string{"-web-1", "+web-2"},
		},
	} {
		p := pair(podsFrom(test.was), podsFrom(test.now))
		var got []string
		for _, m := range p.matches {
			got = append(got, m.was.Name+"="+m.now.Name)
		}
		for _, m := range p.missing {
			got = append(got, "-"+m.Name)
		}
		for _, m := range p.added {
			got = append(got, "+"+m.Name)
		}
		slices.Sort(got)
		slices.Sort(test.want)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
