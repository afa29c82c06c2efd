package chart

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	securityv1 "github.com/openshift/api/security/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// decode decodes an object of an overlay, and rejects fields that its type does not have.
func decode[T any](t *testing.T, all objects, key string) *T {
	t.Helper()
	text, err := yaml.Marshal(all[key])
	if err != nil || all[key] == nil {
		t.Fatalf("there is no %s: %v", key, err)
	}
	out := new(T)
	if err := yaml.UnmarshalStrict(text, out); err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	return out
}

// TestSecurityContextConstraints checks that the constraints of the overlay for OpenShift allow what the
// driver's pod asks for, and no right that it does not ask for. The types are OpenShift's own; its
// admission is not run.
func TestSecurityContextConstraints(t *testing.T) {
	all := fromKustomize(t, "../build/release/overlays/openshift")
	scc := decode[securityv1.SecurityContextConstraints](t, all, "SecurityContextConstraints <nil>/nadra-node")
	pod := decode[appsv1.DaemonSet](t, all, "DaemonSet nadra/nadra-node").Spec.Template.Spec
	main := pod.Containers[0]
	s := main.SecurityContext
	for what, pair := range map[string][2]any{
		"host network":          {pod.HostNetwork, scc.AllowHostNetwork},
		"host ports":            {len(main.Ports) > 0, scc.AllowHostPorts},
		"host IPC":              {pod.HostIPC, scc.AllowHostIPC},
		"host PID":              {pod.HostPID, scc.AllowHostPID},
		"privileged":            {s.Privileged != nil && *s.Privileged, scc.AllowPrivilegedContainer},
		"read-only root":        {*s.ReadOnlyRootFilesystem, scc.ReadOnlyRootFilesystem},
		"capabilities":          {s.Capabilities.Add, scc.AllowedCapabilities},
		"seccomp":               {[]string{"runtime/" + strings.ToLower(strings.TrimPrefix(string(s.SeccompProfile.Type), "Runtime"))}, scc.SeccompProfiles},
		"volumes":               {volumeTypes(pod), scc.Volumes},
		"directories of a host": {slices.Contains(volumeTypes(pod), securityv1.FSTypeHostPath), scc.AllowHostDirVolumePlugin},
	} {
		if asked, allowed := fmt.Sprint(pair[0]), fmt.Sprint(pair[1]); asked != allowed {
			t.Errorf("%s: the pod asks for %s, the constraints allow %s", what, asked, allowed)
		}
	}
	if s.SELinuxOptions.Type != "spc_t" || scc.SELinuxContext.Type != securityv1.SELinuxStrategyRunAsAny {
		t.Errorf("the pod has SELinux type %s, and the constraints allow %s", s.SELinuxOptions.Type, scc.SELinuxContext.Type)
	}
	role := decode[rbacv1.Role](t, all, "Role nadra/nadra-node-scc").Rules[0]
	if !slices.Equal(role.ResourceNames, []string{scc.Name}) || role.APIGroups[0] != securityv1.GroupName || role.Verbs[0] != "use" {
		t.Errorf("the role is %+v", role)
	}
	for namespace, account := range map[string]string{"nadra": "nadra-node", "nadra-system": "nadra-controller"} {
		subject := decode[rbacv1.RoleBinding](t, all, fmt.Sprintf("RoleBinding %s/%s-scc", namespace, account)).Subjects[0]
		if subject.Name != account || subject.Namespace != namespace || all["ServiceAccount "+namespace+"/"+account] == nil {
			t.Errorf("the binding of %s is for %+v", namespace, subject)
		}
	}
}

// volumeTypes returns the types of a pod's volumes, with that of the token which the API server adds.
func volumeTypes(pod corev1.PodSpec) []securityv1.FSType {
	out := []securityv1.FSType{securityv1.FSProjected}
	for _, v := range pod.Volumes {
		if v.HostPath != nil {
			out = append(out, securityv1.FSTypeHostPath)
		}
		if v.EmptyDir != nil {
			out = append(out, securityv1.FSTypeEmptyDir)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
