package installation

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
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
