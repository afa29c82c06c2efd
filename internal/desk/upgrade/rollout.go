package upgrade

import (
	"math"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// Controller is a workload that a rollout restarts, or that holds its rollouts.
type Controller struct {
	Workload
	// Held is why a rollout restarts nothing; empty if it restarts all pods.
	Held string
	// Down is the largest number of its pods that a rollout takes down at once.
	Down int32
	// Wanted is the number of pods that it is to have.
	Wanted int32
}

// controllers returns the workloads that rollouts restart.
func (o *Objects) controllers() []Controller {
	var out []Controller
	for i := range o.Deployments {
		d := &o.Deployments[i]
		c := Controller{Workload: Workload{"Deployment", d.Namespace, d.Name}, Down: d.Status.Replicas, Wanted: ptr.Deref(d.Spec.Replicas, 1)}
		if d.Spec.Paused {
			c.Held = "it is paused"
		}
		if r := d.Spec.Strategy.RollingUpdate; d.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType {
			unavailable := intstr.FromString("25%")
			if r != nil && r.MaxUnavailable != nil {
				unavailable = *r.MaxUnavailable
			}
			c.Down = share(&unavailable, c.Wanted, false)
		}
		out = append(out, c)
	}
	for i := range o.StatefulSets {
		s := &o.StatefulSets[i]
		c := Controller{Workload: Workload{"StatefulSet", s.Namespace, s.Name}, Down: 1, Wanted: ptr.Deref(s.Spec.Replicas, 1)}
		switch r := s.Spec.UpdateStrategy.RollingUpdate; {
		case s.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType:
			c.Held = "its update strategy is OnDelete"
		case r == nil:
		case ptr.Deref(r.Partition, 0) > 0:
			c.Held = "its update strategy has a partition"
		case r.MaxUnavailable != nil:
			c.Down = share(r.MaxUnavailable, c.Wanted, false)
		}
		out = append(out, c)
	}
	for i := range o.DaemonSets {
		d := &o.DaemonSets[i]
		c := Controller{Workload: Workload{"DaemonSet", d.Namespace, d.Name}, Down: 1, Wanted: d.Status.DesiredNumberScheduled}
		switch r := d.Spec.UpdateStrategy.RollingUpdate; {
		case d.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType:
			c.Held = "its update strategy is OnDelete"
		case r != nil && r.MaxUnavailable != nil:
			c.Down = share(r.MaxUnavailable, c.Wanted, true)
		}
		out = append(out, c)
	}
	return out
}

// share returns a number or a percentage of pods.
func share(of *intstr.IntOrString, pods int32, up bool) int32 {
	n, err := intstr.GetScaledValueFromIntOrPercent(of, int(pods), up)
	if err != nil {
		return 0
	}
	return int32(n) //nolint:gosec // not more than pods
}

// controller returns what is known about the rollouts of a workload, nil if nothing restarts it.
func (f *Facts) controller(w Workload) *Controller {
	i := slices.IndexFunc(f.Controllers, func(c Controller) bool { return c.Workload == w })
	if i < 0 {
		return nil
	}
	return &f.Controllers[i]
}

// wanted returns how many pods a workload is to have now: none if it and its pods are gone. Of a kind that is not read it is
// unknown, and as many as before count.
func (f *Facts) wanted(w Workload) int {
	if c := f.controller(w); c != nil {
		return int(c.Wanted)
	}
	ofIt := func(p Pod) bool { return p.Workload == w }
	if slices.Contains([]string{"Deployment", "StatefulSet", "DaemonSet"}, w.Kind) && !slices.ContainsFunc(f.Pods, ofIt) {
		return 0
	}
	return math.MaxInt
}

// servedByNadra reports whether nadra attached the pod's networks.
func (p Pod) servedByNadra() bool { return p.Nadra || p.Unclaimed }

// Rollouts returns the workloads of a namespace that a rollout restarts so that the pods change their owner, and
// the workloads and pods that nothing restarts. It leaves out pods that stay: static ones, those of workloads
// in stays, and those that their own label leaves to Multus.
func (f *Facts) Rollouts(namespace string, direction Direction, stays []Workload) namespaceShare {
	out := namespaceShare{Name: namespace}
	var restarts, later []Pod
	for _, p := range f.Pods {
		w := p.Workload
		if w.Kind == "" {
			w = Workload{Kind: "Pod", Namespace: p.Namespace, Name: p.Name}
		}
		if p.Namespace != namespace || p.servedByNadra() == (direction == ToNadra) || p.Static || p.Disposable || p.Pinned || p.OnlyDefault || slices.Contains(stays, w) {
			continue
		}
		if c := f.controller(p.Workload); c != nil && c.Held == "" {
			restarts = append(restarts, p)
		} else {
			later = append(later, p)
		}
	}
	out.Restarts, out.Later = countBy(restarts), countBy(later)
	return out
}

// unchanged returns a pod of a workload that its rollout has not changed to the new owner yet.
func (f *Facts) unchanged(w Workload, direction Direction) (Pod, bool) {
	i := slices.IndexFunc(f.Pods, func(p Pod) bool {
		return p.Workload == w && !p.Pinned && !p.OnlyDefault && p.servedByNadra() == (direction == ToMultus)
	})
	if i < 0 {
		return Pod{}, false
	}
	return f.Pods[i], true
}

// staying returns the workloads of a plan that stay with Multus.
func (p *Plan) staying() []Workload {
	var out []Workload
	for _, s := range p.Stays {
		out = append(out, s.Workload)
	}
	return out
}
