// Package uninstall says whether nadra is in use, and by whom, and what an
// installation consists of. internal/uninstallrun takes it away, and
// internal/uninstallhost what is on a node.
package uninstall

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nadra-dev/nadra/internal/cleanup"
	"github.com/nadra-dev/nadra/internal/owned"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// Facts are what decides.
type Facts struct {
	Claims     []resourceapi.ResourceClaim
	Templates  []resourceapi.ResourceClaimTemplate
	Pods       []corev1.Pod
	Nodes      []corev1.Node
	Namespaces []corev1.Namespace
	Workloads  []Workload
	// Upgrade is what an upgrade is about that has not come to its end; empty
	// where there is none.
	Upgrade string
	// Records are what nodes still have.
	Records []cleanup.Record
}

// Workload is what makes pods.
type Workload struct {
	Kind, Namespace, Name string
	Spec                  *corev1.PodSpec
}

// User is who uses nadra, and what to do about it.
type User struct{ Who, How, Remedy string }

// rollBack is what gives all pods, nodes and namespaces of an upgrade back.
const rollBack = "kubectl nadra upgrade rollback --all -y gives all back to Multus"

// InUse says who uses nadra. Nothing may be taken away as long as somebody does:
// only the driver can unprepare a claim, and without it no pod that has one can
// be deleted.
func InUse(f Facts) []User {
	out := f.pods()
	for i := range f.Claims {
		c := &f.Claims[i]
		if cleanup.OfNadra(c) && len(c.Status.ReservedFor) == 0 {
			out = append(out, User{
				fmt.Sprintf("claim %s/%s", c.Namespace, c.Name), "it has a device of nadra, and no pod",
				"Delete it: kubectl -n " + c.Namespace + " delete resourceclaim " + c.Name,
			})
		}
	}
	for i := range f.Nodes {
		if n := &f.Nodes[i]; n.Labels[v1alpha1.OwnerLabel] == v1alpha1.OwnerNadra {
			out = append(out, User{
				"node " + n.Name, "its label says that it is nadra's",
				"Have its pods leave it (" + rollBack + "), or label it: kubectl label node " + n.Name + " " + v1alpha1.OwnerLabel + "-",
			})
		}
	}
	for i := range f.Namespaces {
		if n := &f.Namespaces[i]; n.Labels[v1alpha1.OwnerLabel] == v1alpha1.OwnerNadra {
			out = append(out, User{
				"namespace " + n.Name, "its label says that its new pods are nadra's",
				"kubectl label namespace " + n.Name + " " + v1alpha1.OwnerLabel + "-",
			})
		}
	}
	if f.Upgrade != "" {
		out = append(out, User{"an upgrade", f.Upgrade, "Bring it to its end: kubectl nadra upgrade resume; or take it back: " + rollBack})
	}
	for _, r := range f.Records {
		out = append(out, userOf(r))
	}
	return out
}

func userOf(r cleanup.Record) User {
	who := "node " + r.Node
	if r.Pod != "" {
		who += ", pod " + r.Pod
	}
	if r.Claim != "" {
		who += ", claim " + r.Claim
	}
	remedy := "Wait until the pod is gone, or delete it; nadra's driver must run on the node"
	if r.Cleanup {
		remedy = "kubectl nadra cleanup --apply --node " + r.Node
	}
	return User{who, r.What, remedy}
}

// named is how many pods of one owner are named.
const named = 5

// pods are those that have claims with devices of nadra, by what makes them.
func (f Facts) pods() []User {
	pods := map[types.UID]*corev1.Pod{}
	for i := range f.Pods {
		pods[f.Pods[i].UID] = &f.Pods[i]
	}
	groups := map[string][]string{}
	for i := range f.Claims {
		c := &f.Claims[i]
		if !cleanup.OfNadra(c) {
			continue
		}
		for _, r := range c.Status.ReservedFor {
			name, owner := r.Name+" (gone)", ""
			if p := pods[r.UID]; p != nil {
				name = r.Name + " on " + cmp.Or(p.Spec.NodeName, "no node yet")
				if o := metav1.GetControllerOf(p); o != nil {
					owner = o.Kind + " " + c.Namespace + "/" + o.Name
				}
			}
			key := cmp.Or(owner, "namespace "+c.Namespace)
			if !slices.Contains(groups[key], name) {
				groups[key] = append(groups[key], name)
			}
		}
	}
	var out []User
	for key, names := range groups {
		slices.Sort(names)
		how := fmt.Sprintf("%d of its pods have networks of nadra: ", len(names))
		if len(names) > named {
			names = append(names[:named:named], fmt.Sprintf("and %d more", len(names)-named))
		}
		out = append(out, User{key, how + strings.Join(names, ", "), "Have them made anew without nadra (" + rollBack + "), or delete them"})
	}
	slices.SortFunc(out, func(a, b User) int { return strings.Compare(a.Who, b.Who) })
	return out
}

// Notes are about what goes on to ask for nadra, and will wait in vain.
func Notes(f Facts) []string {
	ours := map[string]bool{}
	for i := range f.Templates {
		if t := &f.Templates[i]; asksForNadra(t.Spec.Spec) {
			ours[t.Namespace+"/"+t.Name] = true
		}
	}
	for i := range f.Claims {
		if c := &f.Claims[i]; asksForNadra(c.Spec) {
			ours[c.Namespace+"/"+c.Name] = true
		}
	}
	var out []string
	for _, w := range f.Workloads {
		for _, c := range w.Spec.ResourceClaims {
			for _, name := range []*string{c.ResourceClaimTemplateName, c.ResourceClaimName} {
				if name != nil && ours[w.Namespace+"/"+*name] {
					out = append(out, fmt.Sprintf("%s %s/%s asks for networks by claim %s: its next pods will stay Pending", w.Kind, w.Namespace, w.Name, *name))
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// asksForNadra reports a claim for devices of nadra's classes.
func asksForNadra(spec resourceapi.ResourceClaimSpec) bool {
	return slices.ContainsFunc(owned.ClassesIn(spec), func(class string) bool {
		_, network := attachment.ClassNetwork(class)
		return network || class == v1alpha1.DriverName || strings.HasSuffix(class, ".pool.nadra.dev")
	})
}
