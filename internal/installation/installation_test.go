package installation

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// installed returns an installation with the arguments of its programs; nil leaves a program out.
func installed(driver, controller []string) Settings {
	var daemonSets []appsv1.DaemonSet
	var deployments []appsv1.Deployment
	template := func(container string, args []string) corev1.PodTemplateSpec {
		return corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "proxy"}, {Name: container, Args: args}}}}
	}
	if driver != nil {
		daemonSets = []appsv1.DaemonSet{{}, {Spec: appsv1.DaemonSetSpec{Template: template(DriverContainer, driver)}}}
	}
	if controller != nil {
		deployments = []appsv1.Deployment{{Spec: appsv1.DeploymentSpec{Template: template(ControllerContainer, controller)}}, {}}
	}
	return Of(daemonSets, deployments)
}

func TestSettings(t *testing.T) {
	for name, tt := range map[string]struct {
		driver, controller                             []string
		complete, beside, contradicts, labelled, pools bool
		owner                                          string
	}{
		"nothing":                {pools: true, owner: "multus"},
		"drop-in":                {driver: []string{"--owned-nodes=labelled"}, controller: []string{"--default-owner=nadra"}, complete: true, labelled: true, pools: true, owner: "nadra"},
		"beside":                 {driver: []string{"--beside-multus"}, controller: []string{"-beside-multus"}, complete: true, beside: true, owner: "multus"},
		"beside, with pools":     {driver: []string{"--beside-multus=true"}, controller: []string{"--beside-multus=true", "--pools"}, complete: true, beside: true, pools: true, owner: "multus"},
		"without pools":          {driver: []string{}, controller: []string{"--pools=false"}, complete: true, owner: "multus"},
		"switched off again":     {driver: []string{"--beside-multus", "--beside-multus=false"}, controller: []string{"--beside-multus=false"}, complete: true, pools: true, owner: "multus"},
		"only the driver has it": {driver: []string{"--beside-multus"}, controller: []string{"--v=2"}, complete: true, contradicts: true, pools: true, owner: "multus"},
		"only the controller":    {driver: []string{}, controller: []string{"--beside-multus"}, complete: true, contradicts: true, beside: true, owner: "multus"},
		"no controller":          {driver: []string{"--beside-multus"}, beside: true, owner: "multus"},
	} {
		t.Run(name, func(t *testing.T) {
			s := installed(tt.driver, tt.controller)
			if s.Complete() != tt.complete || s.BesideMultus() != tt.beside || s.Contradiction() != tt.contradicts || s.Labelled() != tt.labelled ||
				s.Pools() != tt.pools || s.DefaultOwner() != tt.owner {
				t.Errorf("complete %v, beside %v, contradicts %v, labelled %v, pools %v, owner %s", s.Complete(), s.BesideMultus(), s.Contradiction(), s.Labelled(), s.Pools(), s.DefaultOwner())
			}
			if got := s.Admission(); got.BesideMultus != tt.beside || got.DefaultOwner != tt.owner || got.Pools != tt.pools {
				t.Errorf("options of the webhook: %+v", got)
			}
		})
	}
}

// TestDriverReady checks that no pod of a tenant, and no other pod of the driver's namespace, passes for a driver.
func TestDriverReady(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*corev1.Pod)
		want   bool
	}{
		"the driver":              {func(*corev1.Pod) {}, true},
		"in a tenant's namespace": {func(p *corev1.Pod) { p.Namespace = "shop" }, false},
		"without a DaemonSet":     {func(p *corev1.Pod) { p.OwnerReferences = nil }, false},
		"of a Job":                {func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "Job" }, false},
		"with another container":  {func(p *corev1.Pod) { p.Spec.Containers[0].Name = "probe" }, false},
		"that is not ready":       {func(p *corev1.Pod) { p.Status.Conditions = nil }, false},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "nadra", OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", Controller: ptr.To(true)}}}}
		pod.Spec.HostNetwork, pod.Spec.Containers = true, []corev1.Container{{Name: DriverContainer}}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		tt.change(pod)
		if got := DriverReady(pod, "nadra"); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestTheOldestCounts checks that a workload with a container of nadra's name does not take the place of an older one, in
// whatever order they are listed.
func TestTheOldestCounts(t *testing.T) {
	at := func(namespace string, second int64) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: "x", CreationTimestamp: metav1.Unix(second, 0)}
	}
	template := func(container string) corev1.PodTemplateSpec {
		return corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: container}}}}
	}
	var daemonSets []appsv1.DaemonSet
	var deployments []appsv1.Deployment
	for _, m := range []metav1.ObjectMeta{at("a-tenant", 2), at("nadra", 1), at("tenant", 3)} {
		daemonSets = append(daemonSets, appsv1.DaemonSet{ObjectMeta: m, Spec: appsv1.DaemonSetSpec{Template: template(DriverContainer)}})
		deployments = append(deployments, appsv1.Deployment{ObjectMeta: m, Spec: appsv1.DeploymentSpec{Template: template(ControllerContainer)}})
	}
	if s := Of(daemonSets, deployments); s.Driver.Namespace != "nadra" || s.Controller.Namespace != "nadra" {
		t.Errorf("driver %s, controller %s", s.Driver, s.Controller)
	}
}
