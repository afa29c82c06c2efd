package cleanup

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nadra-dev/nadra/internal/probe"
	"github.com/nadra-dev/nadra/internal/words"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// found returns a finding about an object.
func found(code translate.Code, kind, namespace, name, message string) translate.Finding {
	return translate.NewFinding(rules, code, translate.ObjectRef{Kind: kind, Namespace: namespace, Name: name}, message)
}

// inUse returns the users of nadra. While there is one, nadra must not be removed: only the
// driver can unprepare a claim, and without it no pod with a claim can be deleted.
func inUse(f facts) []translate.Finding {
	out := slices.Concat(f.pods(), f.renamed())
	for i := range f.Claims {
		if c := &f.Claims[i]; attachment.HasDevices(c) && len(c.Status.ReservedFor) == 0 {
			out = append(out, found(codeClaim, "ResourceClaim", c.Namespace, c.Name, "it has a device of nadra, and no pod"))
		}
	}
	labelled := func(kind string, o metav1.ObjectMeta) {
		if o.Labels[v1alpha1.OwnerLabel] == v1alpha1.OwnerNadra {
			out = append(out, found(codeLabel, kind, "", o.Name, "it is labelled for nadra"))
		}
	}
	for i := range f.Nodes {
		labelled("Node", f.Nodes[i].ObjectMeta)
	}
	for i := range f.Namespaces {
		labelled("Namespace", f.Namespaces[i].ObjectMeta)
	}
	if f.Upgrade != "" {
		out = append(out, found(codeUpgrade, "", "", "", "an upgrade: "+f.Upgrade))
	}
	for _, r := range f.Records {
		out = append(out, userOf(r))
	}
	return out
}

// userOf returns the user that a record stands for.
func userOf(r probe.Record) translate.Finding {
	what, code := r.What, codeAttached
	if r.Claim != "" {
		what = "claim " + r.Claim + ": " + what
	}
	if r.Pod != "" {
		what = "pod " + r.Pod + ": " + what
	}
	switch {
	case r.Cleanup:
		code = codeLeftOver
	case r.PendingDEL:
		code = codePendingDEL
	}
	return found(translate.Code(code), "Node", "", r.Node, what)
}

// named limits the pods of a workload that are named.
const named = 5

// pods returns the pods that have claims with devices of nadra, grouped by workload.
func (f facts) pods() []translate.Finding {
	pods := map[types.UID]*corev1.Pod{}
	for i := range f.Pods {
		pods[f.Pods[i].UID] = &f.Pods[i]
	}
	groups := map[translate.ObjectRef][]string{}
	for i := range f.Claims {
		c := &f.Claims[i]
		if !attachment.HasDevices(c) {
			continue
		}
		for _, r := range c.Status.ReservedFor {
			name, key := r.Name+" (gone)", translate.ObjectRef{Kind: "Namespace", Name: c.Namespace}
			if p := pods[r.UID]; p != nil {
				name = r.Name + " on " + cmp.Or(p.Spec.NodeName, "no node yet")
				if o := metav1.GetControllerOf(p); o != nil {
					key = translate.ObjectRef{Kind: o.Kind, Namespace: c.Namespace, Name: o.Name}
				}
			}
			if !slices.Contains(groups[key], name) {
				groups[key] = append(groups[key], name)
			}
		}
	}
	var out []translate.Finding
	for key, names := range groups {
		slices.Sort(names)
		how := fmt.Sprintf("%d of its pods have networks of nadra: ", len(names))
		out = append(out, translate.NewFinding(rules, codePods, key, how+strings.Join(words.ShortList(names, named), ", ")))
	}
	return inOrder(out)
}

// inOrder sorts findings by their texts, and returns each once.
func inOrder(findings []translate.Finding) []translate.Finding {
	slices.SortFunc(findings, func(a, b translate.Finding) int { return strings.Compare(a.Statement(), b.Statement()) })
	return slices.Compact(findings)
}

// renamed returns the pods without a claim, and the workloads, that name networks in nadra's own annotation.
// Without nadra, nothing reads it: their next pods would run without these networks.
func (f facts) renamed() []translate.Finding {
	var out []translate.Finding
	for _, w := range f.Workloads {
		if attachment.NamesOwn(w.Template.Annotations) {
			out = append(out, found(codeAnnotation, w.Kind, w.Namespace, w.Name, "it names networks in annotation "+attachment.OwnNetworksAnnotation))
		}
	}
	for i := range f.Pods {
		p := &f.Pods[i]
		if !attachment.IsOver(p) && len(attachment.ClaimNames(p)) == 0 && attachment.NamesOwn(p.Annotations) {
			out = append(out, found(codeAnnotation, "Pod", p.Namespace, p.Name, "nadra attached its networks by annotation "+attachment.OwnNetworksAnnotation))
		}
	}
	return out
}

// notesOf returns the workloads whose next pods will stay Pending without nadra.
func notesOf(f facts) []translate.Finding {
	ours := map[string]bool{}
	for i := range f.Templates {
		if t := &f.Templates[i]; requestsNadra(t.Spec.Spec) {
			ours[t.Namespace+"/"+t.Name] = true
		}
	}
	for i := range f.Claims {
		if c := &f.Claims[i]; requestsNadra(c.Spec) {
			ours[c.Namespace+"/"+c.Name] = true
		}
	}
	var out []translate.Finding
	for _, w := range f.Workloads {
		for _, c := range w.Template.Spec.ResourceClaims {
			for _, name := range []*string{c.ResourceClaimTemplateName, c.ResourceClaimName} {
				if name != nil && ours[w.Namespace+"/"+*name] {
					out = append(out, found(codeNextPods, w.Kind, w.Namespace, w.Name, "it requests networks by claim "+*name+": its next pods will stay Pending"))
				}
			}
		}
	}
	return inOrder(out)
}

// requestsNadra reports whether a claim requests devices of nadra.
func requestsNadra(spec resourceapi.ResourceClaimSpec) bool {
	return len(attachment.RequestsOfClaim(spec, "", nil).Ours) > 0
}
