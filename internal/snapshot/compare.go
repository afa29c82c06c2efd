package snapshot

import (
	"cmp"
	"fmt"
	"slices"
)

// Options say what to compare, and what counts.
type Options struct {
	// Nodes are those whose pods count, before or now; empty means all.
	Nodes []string
	// Namespace is the one whose pods count; empty means all.
	Namespace string
	// Ignore are codes that are left out.
	Ignore []Code
}

// Compare says what is otherwise now. The error is that the two are not of the
// same pods.
func Compare(was, now *Snapshot, o Options) (*Report, error) {
	if was.Selector != now.Selector {
		return nil, fmt.Errorf("comparing the snapshots: one is of the pods with labels %q, the other of those with %q", was.Selector, now.Selector)
	}
	for _, namespace := range []string{was.Namespace, now.Namespace} {
		if namespace != "" && o.Namespace != "" && namespace != o.Namespace {
			return nil, fmt.Errorf("comparing the snapshots: one is of namespace %s only, and %s is asked for", namespace, o.Namespace)
		}
		o.Namespace = cmp.Or(o.Namespace, namespace)
	}
	c := comparison{was: was, now: now, options: o, results: map[identity]*WorkloadResult{}}
	c.pods()
	c.networks()
	return c.report(), nil
}

// comparison is one of two snapshots.
type comparison struct {
	was, now *Snapshot
	options  Options
	summary  Summary
	results  map[identity]*WorkloadResult
	found    []Difference
}

func (c *comparison) pods() {
	p := pair(c.of(c.was), c.of(c.now))
	slices.SortFunc(p.matches, func(a, b match) int {
		return cmp.Or(cmp.Compare(a.was.Namespace, b.was.Namespace), cmp.Compare(a.was.Name, b.was.Name))
	})
	c.unseen()
	for _, m := range p.matches {
		if c.counts(m.was, m.now) {
			c.summary.Pods++
			c.result(m.was)
			(&podComparison{comparison: c, was: m.was, now: m.now}).compare()
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
			c.add(PodAdditional, Difference{Namespace: pod.Namespace, Workload: pod.Workload, Pod: pod.Name, NowNode: pod.Node, Message: "it runs now, and the snapshot does not have it"})
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

// of are a snapshot's pods in the namespace that counts.
func (c *comparison) of(s *Snapshot) []*Pod {
	var out []*Pod
	for i := range s.Pods {
		if c.options.Namespace == "" || s.Pods[i].Namespace == c.options.Namespace {
			out = append(out, &s.Pods[i])
		}
	}
	return out
}

// counts reports whether one of the pods is on a node that counts.
func (c *comparison) counts(pods ...*Pod) bool {
	return len(c.options.Nodes) == 0 || slices.ContainsFunc(pods, func(p *Pod) bool { return slices.Contains(c.options.Nodes, p.Node) })
}

func (c *comparison) missing(pod *Pod) {
	d := Difference{Namespace: pod.Namespace, Workload: pod.Workload, Pod: pod.Name, Node: pod.Node, Message: "it does not run now"}
	if pod.Workload.ends() {
		c.add(PodEnded, d)
		return
	}
	c.summary.Missing++
	for _, n := range c.now.NotRunning {
		if n.Namespace != pod.Namespace || n.Name != pod.Name && (pod.Workload == nil || n.Workload == nil || *n.Workload != *pod.Workload) {
			continue
		}
		d.Message = fmt.Sprintf("it does not run now: %s is %s", n.Name, n.Phase)
		if n.Why != "" {
			d.Message += ": " + n.Why
		}
		if n.Name != pod.Name {
			d.NowPod = n.Name
		}
		break
	}
	c.add(PodMissing, d)
}

// unseen says once that nobody has looked from inside, where the snapshot has
// what nodes saw.
func (c *comparison) unseen() {
	if len(c.was.Nodes) > 0 && len(c.now.Nodes) == 0 {
		c.add(NotCompared, Difference{Message: "the snapshot has what nodes saw, and now no node was looked at: --from-nodes"})
	}
}

// networks compares definitions.
func (c *comparison) networks() {
	for _, was := range c.was.Networks {
		now := c.now.network(was.String())
		if now == nil || was.Missing || c.options.Namespace != "" && !c.used(was.String()) {
			continue
		}
		d := Difference{Network: was.String()}
		switch {
		case now.Missing:
			d.Message = "the NetworkAttachmentDefinition is not there any more"
			c.add(NADMissing, d)
		case was.Pool != now.Pool:
			d.Was, d.Now = was.Pool, now.Pool
			d.Message = fmt.Sprintf("it draws from pool %q, now from %q", was.Pool, now.Pool)
			c.add(NADOther, d)
		case was.Digest != now.Digest:
			d.Message = "its configuration is another one"
			c.add(NADOther, d)
		}
	}
}

// used reports whether a pod that counts has a network.
func (c *comparison) used(network string) bool {
	return slices.ContainsFunc(c.of(c.was), func(p *Pod) bool {
		return slices.ContainsFunc(p.Interfaces, func(n Interface) bool { return n.Network == network })
	})
}

func (c *comparison) add(code Code, d Difference) {
	rule, _ := RuleOf(code)
	d.Code, d.Severity, d.Title = code, rule.Severity, rule.Title
	c.found = append(c.found, d)
}
