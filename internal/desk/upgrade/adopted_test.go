package upgrade

import (
	"testing"
	"time"
)

func TestAdopted(t *testing.T) {
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	two := []Node{{Name: "a", Nadra: true}, {Name: "b"}}
	pod := func(name, node string, age time.Duration, change func(*Pod)) Pod {
		p := Pod{Namespace: "x", Name: name, Node: node, Workload: Workload{"Deployment", "x", "d"}, Started: now.Add(-age)}
		change(&p)
		return p
	}
	same := func(*Pod) {}
	for name, test := range map[string]struct {
		pods []Pod
		want string
	}{
		"none": {
			[]Pod{
				pod("claimed", "a", time.Hour, func(p *Pod) { p.Nadra = true }), pod("unclaimed", "a", time.Hour, func(p *Pod) { p.Unclaimed = true }),
				pod("of-multus", "b", time.Hour, same),
			},
			"No pod on nadra's nodes has networks that Multus attached.",
		},
		"one": {[]Pod{pod("p", "a", 90*time.Minute, same)}, "1 pod still has networks that Multus attached, of 1 workload; the oldest is 90 minutes old. nadra detaches them when the pods end."},
		"several": {
			[]Pod{
				pod("p", "a", time.Hour, same), pod("q", "a", 40*24*time.Hour, same), pod("bare", "a", 3*time.Hour, func(p *Pod) { p.Workload = Workload{} }),
			},
			"3 pods still have networks that Multus attached, of 2 workloads; the oldest is 40 days old. nadra detaches them when the pods end.",
		},
	} {
		f := Facts{Nodes: two, Pods: test.pods}
		if got := f.Adopted().Text(now); got != test.want {
			t.Errorf("%s: %s\nwant %s", name, got, test.want)
		}
	}
}
