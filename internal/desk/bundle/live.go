package bundle

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/internal/desk/doctor"
	"github.com/nadra-dev/nadra/internal/desk/inspect"
	"github.com/nadra-dev/nadra/internal/desk/upgrade"
	"github.com/nadra-dev/nadra/internal/kube"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// Cluster is the cluster to read.
type Cluster struct {
	doctor.Cluster
	// Namespace is the namespace of pods, claims and networks. Empty means all.
	Namespace string
	// StateNamespace is the namespace of an upgrade's state.
	StateNamespace string
	// Since is the age of the oldest lines of logs.
	Since time.Duration
	// Probe probes the nodes. Nil means that they are not probed.
	Probe *doctor.Probe
}

// collector reads one cluster into one bundle.
type collector struct {
	Cluster
	out *Bundle
	// pods are nadra's own.
	pods []corev1.Pod
	// related are the objects whose events are read: kind/namespace/name.
	related map[string]bool
}

// Collect reads the cluster into a bundle. What cannot be read is a gap of the bundle.
// Collect returns an error if the cluster does not answer.
func (c Cluster) Collect(ctx context.Context, out *Bundle) error {
	r := collector{Cluster: c, out: out, related: map[string]bool{}}
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

// failed records what could not be read. It reports whether err is an error.
func (r *collector) failed(what string, err error, remedy string) bool {
	if err == nil {
		return false
	}
	r.out.addGap(what, doctor.ReasonOf(err), remedy)
	return true
}

// doctor adds doctor's input and its report.
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
		caps.Gaps = append(caps.Gaps, doctor.Gap{Part: doctor.PartProbe, Reason: "it can only be read on the node", Remedy: "--probe"})
	}
	r.out.Head.Server = caps.Server.Version
	for _, g := range caps.Gaps {
		what := "doctor: " + g.Part
		if g.Node != "" {
			what += " of node " + g.Node
		}
		r.out.addGap(what, g.Reason, g.Remedy)
	}
	return r.out.AddValue("doctor/capabilities.json",
		"facts about the cluster: kubectl nadra doctor --from judges them", "Capabilities", caps)
}

// attachments adds pods, claims and networks, and the state of the attachments.
func (r *collector) attachments(ctx context.Context) error {
	in, err := inspect.Cluster{Kube: r.Kube, NADs: r.NADs, Namespace: r.Namespace}.Read(ctx)
	if r.failed("attachments, pods, claims, networks", err, "the right to list pods and resourceclaims.resource.k8s.io"+r.where()) {
		return nil
	}
	for _, kind := range slices.Sorted(maps.Keys(in.Unread)) {
		r.out.addGap(string(kind), "not allowed to read all of them", "the right to list "+string(kind))
	}
	rows := inspect.Attachments(in)
	for _, row := range rows {
		if row.Pod != "" {
			r.related["Pod/"+row.Namespace+"/"+row.Pod] = true
		}
		if row.Claim != "" {
			r.related["ResourceClaim/"+row.Namespace+"/"+row.Claim] = true
		}
	}
	pods := slices.DeleteFunc(in.Pods, func(p *corev1.Pod) bool { return !r.related["Pod/"+p.Namespace+"/"+p.Name] && !hasNetworks(p) })
	for _, p := range pods {
		r.related["Pod/"+p.Namespace+"/"+p.Name] = true
	}
	for _, n := range in.Networks {
		r.related["NetworkAttachmentDefinition/"+n.Namespace+"/"+n.Name] = true
	}
	classes := map[string]*resourceapi.DeviceClass{}
	for _, c := range in.Classes {
		classes[c.Name] = c
	}
	classOf := func(name string) *resourceapi.DeviceClass { return classes[name] }
	templates := slices.DeleteFunc(slices.Clone(in.Templates), func(t *resourceapi.ResourceClaimTemplate) bool {
		return len(attachment.RequestsOfClaim(t.Spec.Spec, t.Namespace, classOf).Ours) == 0 && !mentionsNadra(t)
	})
	return errors.Join(
		r.out.AddValue("attachments.json", "kubectl nadra get attachments", "Attachments", inspect.NewList(rows)),
		add(r.out, "pods", "pods that have networks, reduced to the fields about these", pods),
		add(r.out, "resourceclaims", "claims of nadra's devices", keep(in.Claims, r.isOurs)),
		add(r.out, "resourceclaimtemplates", "claim templates of nadra's devices", templates),
		add(r.out, "resourceslices", "devices of net.nadra.dev", in.Slices),
		add(r.out, "deviceclasses", "DeviceClasses of nadra", keep(in.Classes, mentionsNadra)),
		add(r.out, "network-attachment-definitions", "networks", in.Networks),
	)
}

// isOurs reports whether a claim has an attachment, or mentions the driver.
func (r *collector) isOurs(o metav1.Object) bool {
	if !r.related["ResourceClaim/"+o.GetNamespace()+"/"+o.GetName()] && !mentionsNadra(o) {
		return false
	}
	r.related["ResourceClaim/"+o.GetNamespace()+"/"+o.GetName()] = true
	return true
}

// where names the namespace for a remedy.
func (r *collector) where() string {
	if r.Namespace == "" {
		return " in all namespaces"
	}
	return " in namespace " + r.Namespace
}

// hasNetworks reports whether a pod asks for networks by annotation.
func hasNetworks(p *corev1.Pod) bool {
	return slices.ContainsFunc([]string{
		attachment.NetworksAnnotation, attachment.OwnNetworksAnnotation, attachment.DefaultNetworkAnnotation,
	}, func(key string) bool {
		_, found := p.Annotations[key]
		return found
	})
}

// events adds the events on objects that were read.
func (r *collector) events(ctx context.Context) error {
	namespaces := []string{r.Namespace}
	if r.Namespace != "" {
		namespaces = append(namespaces, r.namespaces()...)
	}
	for i := range r.pods {
		r.related["Pod/"+r.pods[i].Namespace+"/"+r.pods[i].Name] = true
	}
	var found []*corev1.Event
	for _, ns := range slices.Compact(slices.Sorted(slices.Values(namespaces))) {
		list, err := kube.AllItems[corev1.Event](ctx, kube.All, r.Kube.CoreV1().Events(ns).List)
		r.failed("events of "+named(ns), err, "the right to list events there")
		for _, e := range list {
			if about := e.InvolvedObject; r.related[about.Kind+"/"+about.Namespace+"/"+about.Name] {
				found = append(found, e)
			}
		}
	}
	return add(r.out, "events", "events on these pods, claims and networks", found)
}

// named names a namespace for a text.
func named(namespace string) string {
	if namespace == "" {
		return "all namespaces"
	}
	return "namespace " + namespace
}

// upgrade adds the plan and the state of an upgrade, if there is one.
func (r *collector) upgrade(ctx context.Context) error {
	plan, state, paused, err := upgrade.Store{Kube: r.Kube, Namespace: r.StateNamespace}.Load(ctx)
	if errors.Is(err, upgrade.ErrNone) ||
		r.failed("the upgrade's state", err, "the right to get configmaps in namespace "+r.StateNamespace) {
		return nil
	}
	return r.out.AddValue("upgrade.json", "plan and state of the upgrade", "Upgrade", map[string]any{
		"plan": plan, "state": state, "paused": paused, "lines": state.Lines(plan),
	})
}
