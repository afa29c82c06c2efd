package controller

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// TestDefaultNetworksWebhook checks when the webhook for default networks of the cluster is added,
// corrected and removed.
func TestDefaultNetworksWebhook(t *testing.T) {
	named := func(name, bundle string) admissionv1.MutatingWebhook {
		return admissionv1.MutatingWebhook{
			Name: name, ClientConfig: admissionv1.WebhookClientConfig{CABundle: []byte(bundle)}, TimeoutSeconds: ptr.To[int32](10),
			MatchConditions: []admissionv1.MatchCondition{{Name: "asks", Expression: "true"}},
		}
	}
	odd := named(ofCluster, "old")
	odd.NamespaceSelector, odd.MatchConditions = &metav1.LabelSelector{}, nil
	for name, c := range map[string]struct {
		there  []admissionv1.MutatingWebhook
		wanted bool
		want   string
		err    string
	}{
		"wanted":             {there: []admissionv1.MutatingWebhook{named("pods", "ca"), named(ofNamespaces, "ca")}, wanted: true, want: "pods " + ofNamespaces + " " + ofCluster},
		"wanted, and edited": {there: []admissionv1.MutatingWebhook{odd, named(ofNamespaces, "ca")}, wanted: true, want: ofCluster + " " + ofNamespaces},
		"no bundle yet":      {there: []admissionv1.MutatingWebhook{named(ofNamespaces, "")}, wanted: true, want: ofNamespaces},
		"old manifests":      {there: []admissionv1.MutatingWebhook{named("pods", "ca")}, wanted: true, want: "pods", err: "apply the manifests"},
		"not wanted":         {there: []admissionv1.MutatingWebhook{named(ofNamespaces, "ca"), odd}, want: ofNamespaces},
		"never wanted":       {there: []admissionv1.MutatingWebhook{named("pods", "ca")}, want: "pods"},
	} {
		t.Run(name, func(t *testing.T) {
			configuration := &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: Name}, Webhooks: c.there}
			r := newDefaultNetworks(cluster(configuration), Options{DefaultNetworks: c.wanted, SystemNamespaces: []string{"kube-system", "own"}})
			for range 2 { // the second time changes nothing
				_, err := r.Reconcile(t.Context(), reconcile.Request{})
				if (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
					t.Fatalf("got %v, want %q", err, c.err)
				}
				if err := r.Get(t.Context(), client.ObjectKey{Name: Name}, configuration); err != nil {
					t.Fatal(err)
				}
				var names []string
				for _, w := range configuration.Webhooks {
					names = append(names, w.Name)
					if w.Name != ofCluster {
						continue
					}
					if string(w.ClientConfig.CABundle) != "ca" || len(w.MatchConditions) != 1 || *w.TimeoutSeconds != 10 {
						t.Errorf("the webhook is not like its model: %+v", w)
					}
					if got := metav1.FormatLabelSelector(w.NamespaceSelector); got != "kubernetes.io/metadata.name notin (kube-system,own),!nadra.dev/default-networks" {
						t.Errorf("the webhook selects %s", got)
					}
				}
				if got := strings.Join(names, " "); got != c.want {
					t.Errorf("the webhooks are %s, want %s", got, c.want)
				}
			}
		})
	}
}

// TestNoConfiguration checks that a missing configuration is no error: its creation causes an event.
func TestNoConfiguration(t *testing.T) {
	r := newDefaultNetworks(cluster(), Options{DefaultNetworks: true})
	if _, err := r.Reconcile(t.Context(), reconcile.Request{}); err != nil {
		t.Error(err)
	}
}
