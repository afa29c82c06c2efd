//go:build e2e

package e2e

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
	"k8s.io/utils/ptr"
)

// addedBy is the label of pods to which another program adds the annotation; its value names the program.
const addedBy = "added-by"

// addedAnnotations checks on the API server when nadra's webhook sees an annotation that another program adds: always, if the
// program comes before it, and otherwise in namespaces of nadra.
func (f *fixture) addedAnnotations() {
	url, ca := f.annotator()
	pods := []registrationv1.RuleWithOperations{{
		Operations: []registrationv1.OperationType{registrationv1.Create},
		Rule:       registrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
	}}
	registrations := f.Kube.AdmissionregistrationV1()
	for _, name := range []string{"a-other", "z-other"} {
		_, err := registrations.MutatingWebhookConfigurations().Create(f.Ctx, &registrationv1.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Webhooks: []registrationv1.MutatingWebhook{{
				Name: name + ".example.com", Rules: pods, AdmissionReviewVersions: []string{"v1"},
				ClientConfig:   registrationv1.WebhookClientConfig{URL: &url, CABundle: ca},
				ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{addedBy: name}},
				SideEffects:    ptr.To(registrationv1.SideEffectClassNone),
			}},
		}, metav1.CreateOptions{})
		f.Must(err)
		defer func() {
			f.Must(registrations.MutatingWebhookConfigurations().Delete(f.Ctx, name, metav1.DeleteOptions{}))
		}()
	}
	f.Must(f.CreateNamespace(f.Ctx, "unlabelled"))
	defer f.Kubectl("delete", "namespace", "unlabelled")
	for _, tt := range []struct {
		by, namespace string
		claimed       bool
	}{
		{"a-other", f.NS, true},
		{"z-other", f.NS, true},
		{"z-other", "unlabelled", false},
	} {
		pod := asking(tt.namespace, "annotated", "")
		pod.Labels = map[string]string{addedBy: tt.by}
		f.Eventually(30*time.Second, func(context.Context) error { // the API server learns of a webhook a little later
			admitted, err := f.dry(pod)
			if err == nil && admitted.Annotations[nadv1.NetworkAttachmentAnnot] == "" {
				err = fmt.Errorf("%s was not asked", tt.by)
			}
			if err == nil && (template(admitted) != "") != tt.claimed {
				err = fmt.Errorf("in %s, with the annotation of %s, the pod has the claims %v", tt.namespace, tt.by, admitted.Spec.ResourceClaims)
			}
			return err
		})
	}
}

// annotator serves a webhook that adds the annotation to each pod, where the API server reaches it. It returns its address and
// its certificate.
func (f *fixture) annotator() (url string, ca []byte) {
	f.Helper()
	certificate, key, err := cert.GenerateSelfSignedCertKey(f.node.IP(), []net.IP{net.ParseIP(f.node.IP())}, nil)
	f.Must(err)
	pair, err := tls.X509KeyPair(certificate, key)
	f.Must(err)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		patch := fmt.Sprintf(`[{"op":"add","path":"/metadata/annotations","value":{%q:"%s/net"}}]`, nadv1.NetworkAttachmentAnnot, f.NS)
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true, Patch: []byte(patch), PatchType: ptr.To(admissionv1.PatchTypeJSONPatch)}
		_ = json.NewEncoder(w).Encode(review) // the API server notices
	}))
	f.Must(f.node.DoInNetNS("/proc/1/ns/net", func() (err error) {
		f.Must(server.Listener.Close())
		server.Listener, err = net.Listen("tcp", net.JoinHostPort(f.node.IP(), "0"))
		return err
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	server.StartTLS()
	f.Cleanup(server.Close)
	return server.URL, certificate
}
