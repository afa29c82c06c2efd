package cleanup

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nadra-dev/nadra/internal/probe"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// Annotations of claims that Kubernetes creates for pods.
const (
	fromTemplate = "resource.kubernetes.io/pod-claim-name"
	fromExtended = "resource.kubernetes.io/extended-resource-claim"
)

// facts are what a cluster has of nadra and its users. Who cleans up or removes nadra reads the parts that it needs. To
// clean up, the pods are read after all others, so that objects of a new pod are not taken for orphans.
type facts struct {
	Claims       []resourceapi.ResourceClaim
	Templates    []resourceapi.ResourceClaimTemplate
	Workloads    []workload
	Pods         []corev1.Pod
	Pools        []pool
	Reservations []reserved
	Now          time.Time
	Nodes        []corev1.Node
	Namespaces   []corev1.Namespace
	// Upgrade describes an unfinished upgrade; empty without one.
	Upgrade string
	// Records are attachments and pending DELs on nodes.
	Records []probe.Record
}

// workload is a workload with its pod template. Owned is true if another workload has made it.
type workload struct {
	Kind, Namespace, Name string
	Template              *corev1.PodTemplateSpec
	Owned                 bool
}

// orphansIn returns the cluster's objects that are orphans, and not younger than olderThan.
func orphansIn(f facts, olderThan time.Duration, s sandboxes) []probe.Orphan {
	uids, names := map[types.UID]bool{}, map[string]bool{}
	used := map[string]bool{} // templates, by namespace/name
	for i := range f.Pods {
		p := &f.Pods[i]
		uids[p.UID], names[p.Namespace+"/"+p.Name] = true, true
		for _, t := range translate.AllTemplates(&p.Spec) {
			used[p.Namespace+"/"+t] = true
		}
	}
	for _, w := range f.Workloads {
		for _, t := range translate.AllTemplates(&w.Template.Spec) {
			used[w.Namespace+"/"+t] = true
		}
	}
	var out []probe.Orphan
	for i := range f.Claims {
		if c := &f.Claims[i]; f.Now.Sub(c.CreationTimestamp.Time) >= olderThan && claimOrphan(c, uids) {
			out = append(out, claimOf(c))
		}
	}
	for i := range f.Templates {
		t := &f.Templates[i]
		if name := t.Namespace + "/" + t.Name; f.Now.Sub(t.CreationTimestamp.Time) >= olderThan && translate.Collectable(t) && !used[name] {
			out = append(out, probe.Orphan{Kind: probe.OrphanTemplate, Object: name, Why: "admission created it, and neither a pod nor a workload refers to it", Action: probe.ActionDelete})
		}
	}
	out = append(out, leases(f, names, s)...)
	probe.SortOrphans(out)
	return out
}

// claimOrphan reports whether a claim has devices of nadra, and Kubernetes created it for a
// pod that is gone. A claim that a person created may wait for pods.
func claimOrphan(c *resourceapi.ResourceClaim, pods map[types.UID]bool) bool {
	owner := metav1.GetControllerOf(c)
	_, template := c.Annotations[fromTemplate]
	_, extended := c.Annotations[fromExtended]
	if owner == nil || owner.Kind != "Pod" || !template && !extended || pods[owner.UID] || !attachment.HasDevices(c) {
		return false
	}
	for _, r := range c.Status.ReservedFor {
		if !attachment.IsPod(r) || pods[r.UID] {
			return false
		}
	}
	return true
}

func claimOf(c *resourceapi.ResourceClaim) probe.Orphan {
	owner := metav1.GetControllerOf(c)
	o := probe.Orphan{
		Kind: probe.OrphanClaim, Object: c.Namespace + "/" + c.Name, Pod: c.Namespace + "/" + owner.Name,
		Why: fmt.Sprintf("its pod (UID %s) is gone, and no other pod has reserved it", owner.UID), Action: probe.ActionDelete,
	}
	if !c.DeletionTimestamp.IsZero() {
		o.Action, o.Why = probe.ActionNone, o.Why+fmt.Sprintf("; it is being deleted, and waits for finalizers %v", c.Finalizers)
	}
	return o
}
