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
)

// useFacts describe who may use nadra in a cluster.
type useFacts struct {
	Claims     []resourceapi.ResourceClaim
	Templates  []resourceapi.ResourceClaimTemplate
	Pods       []corev1.Pod
	Nodes      []corev1.Node
	Namespaces []corev1.Namespace
	Workloads  []workload
	// Upgrade describes an unfinished upgrade; empty without one.
	Upgrade string
	// Records are attachments and pending DELs on nodes.
	Records []probe.Record
}

// workload is a workload with its pod template.
type workload struct {
	Kind, Namespace, Name string
	Template              *corev1.PodTemplateSpec
}

// User is a user of nadra: who it is, how it uses nadra, and the remedy.
type User struct{ Who, How, Remedy string }

// rollBack gives all pods, nodes and namespaces of an upgrade back to Multus.
const rollBack = "kubectl nadra upgrade rollback --all -y"

// inUse returns the users of nadra. While there is one, nadra must not be removed: only the
// driver can unprepare a claim, and without it no pod with a claim can be deleted.
func inUse(f useFacts) []User {
	out := slices.Concat(f.pods(), f.renamed())
	for i := range f.Claims {
		c := &f.Claims[i]
		if attachment.HasDevices(c) && len(c.Status.ReservedFor) == 0 {
			out = append(out, User{
				fmt.Sprintf("claim %s/%s", c.Namespace, c.Name), "it has a device of nadra, and no pod",
				"Delete it: kubectl -n " + c.Namespace + " delete resourceclaim " + c.Name,
			})
		}
	}
	for i := range f.Nodes {
		if n := &f.Nodes[i]; n.Labels[v1alpha1.OwnerLabel] == v1alpha1.OwnerNadra {
			out = append(out, User{
				"node " + n.Name, "it is labelled for nadra",
				"Roll it back to Multus (" + rollBack + "), or remove the label: kubectl label node " + n.Name + " " + v1alpha1.OwnerLabel + "-",
			})
		}
	}
	for i := range f.Namespaces {
		if n := &f.Namespaces[i]; n.Labels[v1alpha1.OwnerLabel] == v1alpha1.OwnerNadra {
			out = append(out, User{
				"namespace " + n.Name, "it is labelled for nadra",
				"Remove the label: kubectl label namespace " + n.Name + " " + v1alpha1.OwnerLabel + "-",
			})
		}
	}
	if f.Upgrade != "" {
		out = append(out, User{"an upgrade", f.Upgrade, "Finish it with kubectl nadra upgrade finish --remove-multus, after kubectl nadra upgrade resume if it has stopped; or roll it back with " + rollBack})
	}
	for _, r := range f.Records {
		out = append(out, userOf(r))
	}
	return out
}

// userOf returns the user that a record stands for.
func userOf(r probe.Record) User {
	who := "node " + r.Node
	if r.Pod != "" {
		who += ", pod " + r.Pod
	}
	if r.Claim != "" {
		who += ", claim " + r.Claim
	}
	remedy := "Wait until the pod is gone, or delete it; nadra's driver must run on the node"
	if r.PendingDEL {
		remedy = "Repair what the message names; nadra's driver retries the DEL. If it cannot be repaired, leave the node as it is: --exclude-node " + r.Node
	}
	if r.Cleanup {
		remedy = "Clean up the node: kubectl nadra cleanup --apply --node " + r.Node
	}
	return User{who, r.What, remedy}
}

// named limits the pods of a workload that are named.
const named = 5

// pods returns the pods that have claims with devices of nadra, grouped by workload.
func (f useFacts) pods() []User {
	pods := map[types.UID]*corev1.Pod{}
	for i := range f.Pods {
		pods[f.Pods[i].UID] = &f.Pods[i]
	}
	groups := map[string][]string{}
	for i := range f.Claims {
		c := &f.Claims[i]
		if !attachment.HasDevices(c) {
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
		out = append(out, User{key, how + strings.Join(words.ShortList(names, named), ", "), "Recreate them without nadra (to roll back to Multus: " + rollBack + "), or delete them"})
	}
	slices.SortFunc(out, func(a, b User) int { return strings.Compare(a.Who, b.Who) })
	return out
}

// renamed returns the pods without a claim, and the workloads, that name networks in nadra's own annotation.
// Without nadra, nothing reads it: their next pods would run without these networks.
func (f useFacts) renamed() []User {
	const (
		how    = "it names networks in annotation " + attachment.OwnNetworksAnnotation + ", which only nadra reads: its next pods would run without them"
		remedy = "Name them in " + attachment.NetworksAnnotation + " again, and remove the claims of a conversion; or delete it"
	)
	var out []User
	for _, w := range f.Workloads {
		if attachment.NamesOwn(w.Template.Annotations) {
			out = append(out, User{fmt.Sprintf("%s %s/%s", w.Kind, w.Namespace, w.Name), how, remedy})
		}
	}
	for i := range f.Pods {
		p := &f.Pods[i]
		if !attachment.IsOver(p) && len(attachment.ClaimNames(p)) == 0 && attachment.NamesOwn(p.Annotations) {
			out = append(out, User{fmt.Sprintf("pod %s/%s", p.Namespace, p.Name), "nadra attached its networks by annotation " + attachment.OwnNetworksAnnotation, "Recreate it without nadra, or delete it"})
		}
	}
	return out
}

// notesOf lists workloads whose next pods will stay Pending without nadra.
func notesOf(f useFacts) []string {
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
	var out []string
	for _, w := range f.Workloads {
		for _, c := range w.Template.Spec.ResourceClaims {
			for _, name := range []*string{c.ResourceClaimTemplateName, c.ResourceClaimName} {
				if name != nil && ours[w.Namespace+"/"+*name] {
					out = append(out, fmt.Sprintf("%s %s/%s requests networks by claim %s: its next pods will stay Pending", w.Kind, w.Namespace, w.Name, *name))
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// requestsNadra reports whether a claim requests devices of nadra.
func requestsNadra(spec resourceapi.ResourceClaimSpec) bool {
	return len(attachment.RequestsOfClaim(spec, "", nil).Ours) > 0
}
