package snapshot

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/nadra-dev/nadra/pkg/translate"
)

// Options limit a comparison.
type Options struct {
	// Nodes limits it to pods that were or are on these nodes; empty means all.
	Nodes []string
	// Namespace limits it to the pods of a namespace; empty means all.
	Namespace string
	// Ignore are codes that the report leaves out.
	Ignore []Code
}

// Compare reports the differences between two snapshots. It fails if they do not select
// the same pods.
func Compare(was, now *Snapshot, o Options) (*Report, error) {
	if was.Selector != now.Selector {
		return nil, fmt.Errorf("comparing the snapshots: one selects pods by %q, the other by %q", was.Selector, now.Selector)
	}
	for _, namespace := range []string{was.Namespace, now.Namespace} {
		if namespace != "" && o.Namespace != "" && namespace != o.Namespace {
			return nil, fmt.Errorf("comparing the snapshots: one has namespace %s only, not %s", namespace, o.Namespace)
		}
		o.Namespace = cmp.Or(o.Namespace, namespace)
	}
	c := comparison{was: index(was), now: index(now), options: o, results: map[identity]*WorkloadResult{}, waiting: map[identity]*NotRunning{}}
	c.pods()
	c.networks()
	return c.report(), nil
}

// comparison is a comparison of two snapshots.
type comparison struct {
	was, now *indexed
	options  Options
	summary  Summary
	results  map[identity]*WorkloadResult
	found    []Difference
	// waiting has the first pod of now.NotRunning of each workload, and the pod of each name by an identity without a kind.
	waiting map[identity]*NotRunning
}

// pods compares each pod with its successor.
func (c *comparison) pods() {
	p := pair(c.of(c.was), c.of(c.now))
	slices.SortFunc(p.matches, func(a, b match) int {
		return cmp.Or(cmp.Compare(a.was.Namespace, b.was.Namespace), cmp.Compare(a.was.Name, b.was.Name))
	})
	c.notObserved()
	for i, n := range slices.Backward(c.now.NotRunning) {
		c.waiting[identity{n.Namespace, "", n.Name}] = &c.now.NotRunning[i]
		if n.Workload != nil {
			c.waiting[identity{n.Namespace, n.Workload.Kind, n.Workload.Name}] = &c.now.NotRunning[i]
		}
	}
	for _, m := range p.matches {
		if c.counts(m.was, m.now) {
			c.summary.Pods++
			c.result(m.was)
			newPodPair(c, m.was, m.now).compare()
		}
	}
	for _, pod := range p.missing {
		if c.counts(pod) {
			c.result(pod)
			c.missing(pod)
		}
	}
	for _, pod := range p.added {
		if c.counts(pod) {
			c.summary.Added++
			d := differenceOf(pod, "it runs now, and is not in the snapshot")
			d.Node, d.NowNode = "", pod.Node
			c.add(PodAdditional, d)
		}
	}
}

// result counts a pod of the snapshot for its workload.
func (c *comparison) result(pod *Pod) {
	id := pod.identity()
	if c.results[id] == nil {
		c.results[id] = &WorkloadResult{Namespace: id.namespace, Workload: Workload{Kind: id.kind, Name: id.name}}
	}
	c.results[id].Pods++
}

// of returns a snapshot's pods in Options.Namespace.
func (c *comparison) of(s *indexed) []*Pod {
	var out []*Pod
	for i := range s.Pods {
		if c.options.Namespace == "" || s.Pods[i].Namespace == c.options.Namespace {
			out = append(out, &s.Pods[i])
		}
	}
	return out
}

// counts reports whether one of the pods is on one of Options.Nodes.
func (c *comparison) counts(pods ...*Pod) bool {
	return len(c.options.Nodes) == 0 || slices.ContainsFunc(pods, func(p *Pod) bool { return slices.Contains(c.options.Nodes, p.Node) })
}

// differenceOf returns a difference of a pod of the first snapshot.
func differenceOf(pod *Pod, message string) Difference {
	d := Difference{Workload: pod.Workload, Node: pod.Node}
	d.Object, d.Message = translate.ObjectRef{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name}, message
	return d
}

// missing records a pod without a successor.
func (c *comparison) missing(pod *Pod) {
	d := differenceOf(pod, "it does not run now")
	if pod.Workload.ends() {
		c.add(PodEnded, d)
		return
	}
	c.summary.Missing++
	if n := cmp.Or(c.waiting[identity{pod.Namespace, "", pod.Name}], c.waiting[pod.identity()]); n != nil {
		d.Message = fmt.Sprintf("it does not run now: %s is %s", n.Name, n.Phase)
		if n.Why != "" {
			d.Message += ": " + n.Why
		}
		if n.Name != pod.Name {
			d.NowPod = n.Name
		}
	}
	c.add(PodMissing, d)
}

// notObserved records once that only the first snapshot has observations of nodes.
func (c *comparison) notObserved() {
	if len(c.was.Nodes) > 0 && len(c.now.Nodes) == 0 {
		var d Difference
		d.Message = "the snapshot was taken with --probe: verify with --probe, too"
		c.add(NotCompared, d)
	}
}

// networks compares NetworkAttachmentDefinitions; of one namespace, those that a pod of the first snapshot has.
func (c *comparison) networks() {
	used := map[string]bool{}
	for _, p := range c.of(c.was) {
		for _, n := range p.Interfaces {
			used[n.Network] = true
		}
	}
	for _, was := range c.was.Networks {
		now := c.now.networks[was.String()]
		if now == nil || was.Missing || c.options.Namespace != "" && !used[was.String()] {
			continue
		}
		d := Difference{Network: was.String()}
		d.Object = translate.ObjectRef{Kind: "NetworkAttachmentDefinition", Namespace: was.Namespace, Name: was.Name}
		switch {
		case now.Missing:
			d.Message = "the NetworkAttachmentDefinition was deleted"
			c.add(NADMissing, d)
		case was.Pool != now.Pool:
			d.Was, d.Now = was.Pool, now.Pool
			d.Message = fmt.Sprintf("its resource pool was %q, and is %q", was.Pool, now.Pool)
			c.add(NADOther, d)
		case was.Digest != now.Digest:
			d.Message = "its configuration changed"
			c.add(NADOther, d)
		}
	}
}

// add records a difference.
func (c *comparison) add(code Code, d Difference) {
	rule, _ := RuleOf(code)
	d.Code, d.Severity = code, rule.Severity
	d.Finding = d.WithRule(rule)
	c.found = append(c.found, d)
}
