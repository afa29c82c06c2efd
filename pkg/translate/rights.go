package translate

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
)

// networkGroup and networkResource are those of NetworkAttachmentDefinitions.
const (
	networkGroup    = "k8s.cni.cncf.io"
	networkResource = "network-attachment-definitions"
)

// Accounts returns the service accounts that may read pods and networks of all namespaces: a program with both
// rights probably reads the pods' networks. A right to everything does not count, because it says nothing
// about the program.
func Accounts(roles []rbacv1.ClusterRole, bindings []rbacv1.ClusterRoleBinding) map[types.NamespacedName]bool {
	pods, networks := map[string]bool{}, map[string]bool{}
	for _, r := range roles {
		pods[r.Name] = slices.ContainsFunc(r.Rules, readsPods)
		networks[r.Name] = slices.ContainsFunc(r.Rules, readsNetworks)
	}
	type rights struct{ pods, networks bool }
	found := map[types.NamespacedName]rights{}
	for _, b := range bindings {
		for _, s := range b.Subjects {
			if b.RoleRef.Kind != "ClusterRole" || s.Kind != rbacv1.ServiceAccountKind {
				continue
			}
			account := types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
			has := found[account]
			found[account] = rights{has.pods || pods[b.RoleRef.Name], has.networks || networks[b.RoleRef.Name]}
		}
	}
	out := map[types.NamespacedName]bool{}
	for account, has := range found {
		if has.pods && has.networks {
			out[account] = true
		}
	}
	return out
}

func readsPods(r rbacv1.PolicyRule) bool {
	return slices.Contains(r.APIGroups, "") && slices.Contains(r.Resources, "pods") && reads(r)
}

func readsNetworks(r rbacv1.PolicyRule) bool {
	return slices.Contains(r.APIGroups, networkGroup) && (slices.Contains(r.Resources, networkResource) || slices.Contains(r.Resources, rbacv1.ResourceAll)) && reads(r)
}

// reads reports whether a rule allows to read many objects.
func reads(r rbacv1.PolicyRule) bool {
	return slices.ContainsFunc(r.Verbs, func(v string) bool { return v == "list" || v == "watch" || v == "get" || v == rbacv1.VerbAll })
}
