// Package bundleread reads from a cluster what package bundle makes an archive of. It
// gets and lists, and never Secrets; only a probe creates something, a pod, and
// deletes it again.
package bundleread

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/internal/bundle"
	"github.com/nadra-dev/nadra/internal/doctor"
	"github.com/nadra-dev/nadra/internal/doctorread"
	"github.com/nadra-dev/nadra/internal/inspect"
	"github.com/nadra-dev/nadra/internal/inspectread"
	"github.com/nadra-dev/nadra/internal/kube"
	"github.com/nadra-dev/nadra/internal/upgraderun"
)

// Cluster is what to read.
type Cluster struct {
	doctorread.Cluster
	// Namespace is that of pods, claims and networks; empty means all.
	Namespace string
	// StateNamespace is where an upgrade keeps how far it is.
	StateNamespace string
	// Since is how far back logs go.
	Since time.Duration
	// Probe looks at nodes from inside; nil looks at none.
	Probe *doctorread.Probe
}

// collector reads one cluster into one bundle.
type collector struct {
	Cluster
	out *bundle.Bundle
	// pods are nadra's own.
	pods []corev1.Pod
	// of are whose events matter: kind/namespace/name.
	of map[string]bool
}

// Collect adds to a bundle what there is. What cannot be read is a gap of the
// bundle; the error is that there is no cluster to talk to.
func (c Cluster) Collect(ctx context.Context, out *bundle.Bundle) error {
	r := collector{Cluster: c, out: out, of: map[string]bool{}}
	for _, step := range []struct {
		what string
		read func(context.Context) error
	}{
		{"the cluster", r.doctor},
		{"attachments", r.attachments},
		{"nadra's objects", r.own},
		{"nadra's configuration", r.configuration},
		{"events", r.events},
		{"the upgrade's state", r.upgrade},
		{"logs and metrics", r.logs},
	} {
		if c.Progress != nil {
			c.Progress(step.what)
		}
		if err := step.read(ctx); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return fmt.Errorf("reading %s: %w", step.what, ctx.Err())
		}
	}
	return nil
}

// failed notes what could not be read, and reports whether there was an error.
func (r *collector) failed(what string, err error, remedy string) bool {
	if err == nil {
		return false
	}
	reason, _, _ := strings.Cut(err.Error(), "\n")
	if apierrors.IsForbidden(err) {
		reason = "not allowed to read it"
	}
	r.out.AddGap(what, reason, remedy)
	return true
}

// doctor adds what doctor reads, and says of it.
func (r *collector) doctor(ctx context.Context) error {
	caps, err := r.Read(ctx)
	if err != nil {
		return err
	}
	if r.Probe != nil {
		if err := r.Probe.Run(ctx, &caps); err != nil {
			return err
		}
	} else {
		caps.Gaps = append(caps.Gaps, doctor.Gap{Part: doctor.PartProbe, Reason: "it can only be seen from inside of the node", Remedy: "--probe"})
	}
	r.out.Head.Server = caps.Server.Version
	for _, g := range caps.Gaps {
		what := "doctor: " + g.Part
		if g.Node != "" {
			what += " of node " + g.Node
		}
		r.out.AddGap(what, g.Reason, g.Remedy)
	}
	return errors.Join(
		r.out.AddValue("doctor/capabilities.json", "what doctor has read, for kubectl nadra doctor --from", caps),
		r.out.AddValue("doctor/report.json", "what doctor says of it", doctor.NewReport(caps)),
	)
}

// attachments adds pods, claims and networks, and who has attached what.
func (r *collector) attachments(ctx context.Context) error {
	in, err := inspectread.Cluster{Kube: r.Kube, NADs: r.NADs, Namespace: r.Namespace}.Read(ctx)
	if r.failed("attachments, pods, claims, networks", err, "the right to list pods and resourceclaims.resource.k8s.io"+r.where()) {
		return nil
	}
	for _, kind := range slices.Sorted(maps.Keys(in.Unread)) {
		r.out.AddGap(string(kind), "not allowed to read all of them", "the right to list "+string(kind))
	}
	rows := inspect.Attachments(in)
	for _, row := range rows {
		if row.Pod != "" {
			r.of["Pod/"+row.Namespace+"/"+row.Pod] = true
		}
		if row.Claim != "" {
			r.of["ResourceClaim/"+row.Namespace+"/"+row.Claim] = true
		}
	}
	pods := slices.DeleteFunc(in.Pods, func(p *corev1.Pod) bool { return !r.of["Pod/"+p.Namespace+"/"+p.Name] && !hasNetworks(p) })
	for _, p := range pods {
		r.of["Pod/"+p.Namespace+"/"+p.Name] = true
	}
	for _, n := range in.Networks {
		r.of["NetworkAttachmentDefinition/"+n.Namespace+"/"+n.Name] = true
	}
	classes := keep(in.Classes, mentionsNadra)
	return errors.Join(
		r.out.AddValue("attachments.json", "kubectl nadra get attachments", inspect.NewList(rows)),
		add(r.out, "pods", "pods that have networks, without what is not about these", pods),
		add(r.out, "resourceclaims", "claims of nadra's devices", keep(in.Claims, r.isOurs)),
		add(r.out, "resourceclaimtemplates", "claim templates of nadra's devices", keep(in.Templates, func(o metav1.Object) bool { return ofClasses(o, classes) })),
		add(r.out, "resourceslices", "devices of net.nadra.dev", in.Slices),
		add(r.out, "deviceclasses", "DeviceClasses of nadra", classes),
		add(r.out, "network-attachment-definitions", "networks", in.Networks),
	)
}

// isOurs keeps claims that have a row, or mention the driver.
func (r *collector) isOurs(o metav1.Object) bool {
	if !r.of["ResourceClaim/"+o.GetNamespace()+"/"+o.GetName()] && !mentionsNadra(o) {
		return false
	}
	r.of["ResourceClaim/"+o.GetNamespace()+"/"+o.GetName()] = true
	return true
}

func (r *collector) where() string {
	if r.Namespace == "" {
		return " in all namespaces"
	}
	return " in namespace " + r.Namespace
}

// hasNetworks tells of pods that ask for networks, whoever is to attach them.
func hasNetworks(p *corev1.Pod) bool {
	for name := range p.Annotations {
		if name == "k8s.v1.cni.cncf.io/networks" || name == "v1.multus-cni.io/default-network" {
			return true
		}
	}
	return false
}

// events adds those on what was read.
func (r *collector) events(ctx context.Context) error {
	namespaces := []string{r.Namespace}
	if r.Namespace != "" {
		namespaces = append(namespaces, r.namespaces()...)
	}
	for i := range r.pods {
		r.of["Pod/"+r.pods[i].Namespace+"/"+r.pods[i].Name] = true
	}
	var found []*corev1.Event
	for _, ns := range slices.Compact(slices.Sorted(slices.Values(namespaces))) {
		list, err := kube.AllItems[corev1.Event](ctx, metav1.ListOptions{}, kube.PagesOf(r.Kube.CoreV1().Events(ns).List))
		r.failed("events of "+named(ns), err, "the right to list events there")
		for _, e := range list {
			if about := e.InvolvedObject; r.of[about.Kind+"/"+about.Namespace+"/"+about.Name] {
				found = append(found, e)
			}
		}
	}
	return add(r.out, "events", "events on these pods, claims and networks", found)
}

func named(namespace string) string {
	if namespace == "" {
		return "all namespaces"
	}
	return "namespace " + namespace
}

// upgrade adds how far an upgrade is, if the cluster knows of one.
func (r *collector) upgrade(ctx context.Context) error {
	plan, state, paused, err := upgraderun.Store{Kube: r.Kube, Namespace: r.StateNamespace}.Load(ctx)
	if errors.Is(err, upgraderun.ErrNone) || r.failed("the upgrade's state", err, "the right to get configmaps in namespace "+r.StateNamespace) {
		return nil
	}
	return r.out.AddValue("upgrade.json", "plan and state of the upgrade", map[string]any{
		"plan": plan, "state": state, "paused": paused, "lines": state.Lines(plan),
	})
}
