package translate

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestFind(t *testing.T) {
	for name, tt := range map[string]struct {
		workload  string
		container corev1.Container
		want      string
	}{
		"an image":                     {"policies", corev1.Container{Name: "main", Image: "ghcr.io/k8snetworkplumbingwg/multi-networkpolicy-nftables:v0.1.0"}, "multi-networkpolicy"},
		"the upstream DaemonSet":       {"multi-networkpolicy-ds-amd64", corev1.Container{Image: "mirror.example/x@sha256:00"}, "multi-networkpolicy"},
		"a container, image by digest": {"x", corev1.Container{Name: "kube-multus-admission", Image: "quay.io/y@sha256:00", Command: []string{"/usr/bin/multus-admission-controller", "-v"}}, "multus-admission-controller"},
		"KubeVirt":                     {"virt-controller", corev1.Container{Name: "virt-controller", Image: "quay.io/kubevirt/virt-controller:v1.8.0"}, "KubeVirt"},
		"kubemacpool":                  {"kubemacpool-mac-controller-manager", corev1.Container{Name: "manager", Image: "quay.io/kubevirt/kubemacpool:latest"}, "kubemacpool"},
		"a script":                     {"ds", corev1.Container{Command: []string{"sh", "-c", "exec /opt/kube-ovn-controller --x"}}, "kube-ovn"},
		"OpenShift's OVN":              {"ovnkube-node", corev1.Container{Name: "ovnkube-controller"}, "ovn-kubernetes"},
		"Multus":                       {"kube-multus-ds", corev1.Container{Name: "kube-multus", Image: "ghcr.io/k8snetworkplumbingwg/multus-cni:v4.3.0-thick"}, ""},
		"whereabouts":                  {"whereabouts", corev1.Container{Name: "whereabouts", Image: "ghcr.io/k8snetworkplumbingwg/whereabouts:v0.9"}, ""},
		"KubeVirt's other parts":       {"virt-handler", corev1.Container{Name: "virt-handler", Image: "quay.io/kubevirt/virt-handler:v1.8.0"}, ""},
		"a name that only contains it": {"antreaagents", corev1.Container{Name: "myvirt-controllers"}, ""},
		"a flag":                       {"x", corev1.Container{Args: []string{"--exclude=kubemacpool"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p, image, found := Find(tt.workload, &corev1.PodSpec{Containers: []corev1.Container{tt.container}})
			if p.Name != tt.want || found != (tt.want != "") || found && image != tt.container.Image {
				t.Errorf("got %q with image %q", p.Name, image)
			}
		})
	}
}

// TestPrograms checks that each program has what a finding needs.
func TestPrograms(t *testing.T) {
	for _, p := range programs {
		if p.Lost == "" || p.Do == "" || len(p.Names) == 0 || (p.Scope == Networks) != (len(p.Plugins) > 0) {
			t.Errorf("%+v", p)
		}
		if got, found := Of(p.Name); !found || got.Name != p.Name {
			t.Errorf("Of does not find %s", p.Name)
		}
	}
}

func TestAccounts(t *testing.T) {
	rule := func(group, resource, verb string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{verb}}
	}
	role := func(name string, rules ...rbacv1.PolicyRule) rbacv1.ClusterRole {
		r := rbacv1.ClusterRole{Rules: rules}
		r.Name = name
		return r
	}
	bind := func(role string, accounts ...string) rbacv1.ClusterRoleBinding {
		b := rbacv1.ClusterRoleBinding{RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: role}}
		for _, a := range accounts {
			b.Subjects = append(b.Subjects, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "x", Name: a})
		}
		return b
	}
	got := Accounts([]rbacv1.ClusterRole{
		role("both", rule("", "pods", "watch"), rule(networkGroup, "*", "*")),
		role("pods", rule("", "pods", "list")),
		role("networks", rule(networkGroup, networkResource, "get")),
		role("writes", rule("", "pods", "delete"), rule(networkGroup, networkResource, "create")),
		role("everything", rule("*", "*", "*")),
	}, []rbacv1.ClusterRoleBinding{
		bind("both", "one"), bind("pods", "two", "three"), bind("networks", "three", "four"), bind("writes", "five"), bind("everything", "six"),
		{RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "both"}, Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: "seven"}}},
	})
	want := map[types.NamespacedName]bool{{Namespace: "x", Name: "one"}: true, {Namespace: "x", Name: "three"}: true}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
