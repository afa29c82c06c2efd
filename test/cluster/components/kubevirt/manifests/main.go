// Program manifests prints what virt-operator would install for virt-api and virt-controller, as a
// List: the CRDs, RBAC, webhook configurations, certificates and Deployments of KubeVirt's own generator.
// It leaves out the export proxy, the synchronization controller and what only other platforms have. Of virt-handler
// it prints a DaemonSet with the migration network and a stand-in for its program, without its files of the node.
package main

import (
	"crypto/tls"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	virtv1 "kubevirt.io/api/core/v1"
	"kubevirt.io/kubevirt/pkg/virt-operator/resource/generate/components"
	"kubevirt.io/kubevirt/pkg/virt-operator/resource/generate/install"
	operatorutil "kubevirt.io/kubevirt/pkg/virt-operator/util"
)

// namespace is the namespace of KubeVirt's own examples.
const namespace = "kubevirt"

// validity is how long the certificates are valid. virt-operator renews its own.
const validity = 24 * time.Hour

func main() {
	log.SetFlags(0)
	network := flag.String("migration-network", "", "migration network of virt-handler")
	image := flag.String("image", "", "image of virt-api and virt-controller")
	launcher := flag.String("launcher", "", "image of the launcher pods")
	flag.Parse()
	if err := run(*image, *launcher, *network); err != nil {
		log.Fatal(err)
	}
}

func run(image, launcher, network string) error {
	for name, value := range map[string]string{
		operatorutil.VirtOperatorImageEnvName: "localhost/virt-operator:none", operatorutil.KubeVirtVersionEnvName: "v0",
		operatorutil.VirtApiImageEnvName: image, operatorutil.VirtHandlerImageEnvName: launcher, operatorutil.VirtControllerImageEnvName: image, operatorutil.VirtLauncherImageEnvName: launcher,
	} {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	kubevirt := &virtv1.KubeVirt{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "kubevirt"}}
	kubevirt.Spec.ImagePullPolicy = corev1.PullNever
	kubevirt.Spec.Configuration.MigrationConfiguration = &virtv1.MigrationConfiguration{Network: &network}
	strategy, err := install.GenerateCurrentInstallStrategy(operatorutil.GetTargetConfigFromKV(kubevirt), "", namespace)
	if err != nil {
		return fmt.Errorf("generating KubeVirt's objects: %w", err)
	}
	crd, err := components.NewKubeVirtCrd()
	if err != nil {
		return fmt.Errorf("generating the CRD of KubeVirt's configuration: %w", err)
	}
	list := &list{}
	list.add(crd, components.NewKubeVirtPriorityClassCR())
	addAll(list, strategy.CRDs())
	addAll(list, strategy.ServiceAccounts())
	addAll(list, strategy.ClusterRoles())
	addAll(list, strategy.ClusterRoleBindings())
	addAll(list, strategy.Roles())
	addAll(list, strategy.RoleBindings())
	for _, p := range strategy.ValidatingAdmissionPolicies() {
		p.APIVersion = admissionv1.SchemeGroupVersion.String() // virt-operator's client knows it
		list.add(p)
	}
	for _, b := range strategy.ValidatingAdmissionPolicyBindings() {
		b.APIVersion = admissionv1.SchemeGroupVersion.String()
		list.add(b)
	}
	if err := addCertified(list, strategy); err != nil {
		return err
	}
	for _, d := range append(strategy.ApiDeployments(), strategy.ControllerDeployments()...) {
		if d.Name == components.VirtAPIName || d.Name == components.VirtControllerName {
			list.add(ofLane(d))
		}
	}
	for _, d := range strategy.DaemonSets() {
		if d.Name == components.VirtHandlerName {
			list.add(withoutProgram(d))
		}
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"apiVersion": "v1", "kind": "List", "items": list.items})
}

// ofLane changes a Deployment for the lane: one replica, as spec.infra.replicas of KubeVirt's object sets it, and
// the user that the image would name.
func ofLane(d *appsv1.Deployment) *appsv1.Deployment {
	replicas, user := int32(1), int64(1001)
	d.Spec.Replicas = &replicas
	d.Spec.Template.Spec.SecurityContext.RunAsUser = &user
	return d
}

// withoutProgram replaces virt-handler by a program that keeps its pods running, and leaves out what only
// virt-handler needs.
func withoutProgram(d *appsv1.DaemonSet) *appsv1.DaemonSet {
	pod := &d.Spec.Template.Spec
	handler := pod.Containers[0]
	handler.Command, handler.Args = []string{"virt-handler"}, nil
	handler.VolumeMounts, handler.LivenessProbe, handler.ReadinessProbe, handler.StartupProbe = nil, nil, nil, nil
	pod.Containers, pod.InitContainers, pod.Volumes = []corev1.Container{handler}, nil, nil
	return d
}

// list collects objects of any kind.
type list struct{ items []any }

func (l *list) add(objects ...any) { l.items = append(l.items, objects...) }

// addAll adds objects of one kind.
func addAll[T any](l *list, objects []T) {
	for _, o := range objects {
		l.add(o)
	}
}

// addCertified adds the secrets with the CAs and certificates, and what trusts them: ConfigMaps, webhook
// configurations, and the API service with its Service.
func addCertified(l *list, strategy *install.Strategy) error {
	duration := &metav1.Duration{Duration: validity}
	cas := map[string][]byte{}
	var signer *tls.Certificate
	for _, s := range components.NewCACertSecrets(namespace) {
		if err := components.PopulateSecretWithCertificate(s, nil, duration); err != nil {
			return fmt.Errorf("making the CA %s: %w", s.Name, err)
		}
		cas[s.Name] = s.Data[corev1.TLSCertKey]
		if s.Name == components.KubeVirtCASecretName {
			loaded, err := components.LoadCertificates(s)
			if err != nil {
				return fmt.Errorf("reading the CA %s: %w", s.Name, err)
			}
			signer = loaded
		}
		l.add(s)
	}
	for _, s := range components.NewCertSecrets(namespace, namespace) {
		if err := components.PopulateSecretWithCertificate(s, signer, duration); err != nil {
			return fmt.Errorf("making the certificate %s: %w", s.Name, err)
		}
		l.add(s)
	}
	for _, m := range components.NewCAConfigMaps(namespace) {
		m.Data = map[string]string{components.CABundleKey: string(cas[m.Name])}
		l.add(m)
	}
	for _, s := range strategy.Services() {
		if s.Name == components.VirtApiServiceName {
			l.add(s)
		}
	}
	addTrusting(l, strategy, cas[components.KubeVirtCASecretName])
	return nil
}

// addTrusting adds what calls virt-api and trusts its CA.
func addTrusting(l *list, strategy *install.Strategy, ca []byte) {
	trust := func(c *admissionv1.WebhookClientConfig) { c.CABundle = ca }
	for _, w := range strategy.ValidatingWebhookConfigurations() {
		if w.Name == components.VirtAPIValidatingWebhookName {
			for i := range w.Webhooks {
				trust(&w.Webhooks[i].ClientConfig)
			}
			l.add(w)
		}
	}
	for _, w := range strategy.MutatingWebhookConfigurations() {
		if w.Name == components.VirtAPIMutatingWebhookName {
			for i := range w.Webhooks {
				trust(&w.Webhooks[i].ClientConfig)
			}
			l.add(w)
		}
	}
	for _, s := range strategy.APIServices() {
		s.Spec.CABundle = ca
		l.add(s)
	}
}
