package controller

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// TestCertificateIsStoredTrustedAndServed checks that the leader stores the certificate and writes the
// bundle, and that a replica serves with it, also while the Secret is missing, and then with the next one.
func TestCertificateIsStoredTrustedAndServed(t *testing.T) {
	mutating := &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: Name}, Webhooks: make([]admissionv1.MutatingWebhook, 1)}
	validating := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: Name}, Webhooks: make([]admissionv1.ValidatingWebhook, 3)}
	c := cluster(mutating, validating)
	leader := newCertificates(c, Options{Namespace: "nadra-system", Secret: DefaultSecret, Service: DefaultService})
	now := time.Now()
	leader.now = func() time.Time { return now }
	serving := &Serving{}
	var expires time.Time
	replica := &servingReader{Client: c, secret: leader.secret, serving: serving, expires: func(when time.Time) { expires = when }}
	round := func() []byte {
		t.Helper()
		for _, r := range []reconcile.Reconciler{leader, replica} {
			if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: leader.secret}); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Get(t.Context(), client.ObjectKey{Name: Name}, mutating); err != nil {
			t.Fatal(err)
		}
		if err := c.Get(t.Context(), client.ObjectKey{Name: Name}, validating); err != nil {
			t.Fatal(err)
		}
		for _, w := range validating.Webhooks {
			if !bytes.Equal(w.ClientConfig.CABundle, mutating.Webhooks[0].ClientConfig.CABundle) {
				t.Error("the configurations have different bundles")
			}
		}
		return mutating.Webhooks[0].ClientConfig.CABundle
	}

	if serving.Ready(nil) == nil {
		t.Error("ready without a certificate")
	}
	first := round()
	if got := expires.Sub(now).Round(time.Hour); got != lifetime {
		t.Errorf("the metric has an expiry in %s, want %s", got, lifetime)
	}
	handshake(t, serving, first, now)
	version := mutating.ResourceVersion
	if same := round(); !bytes.Equal(same, first) || mutating.ResourceVersion != version {
		t.Error("what was in order was written again")
	}

	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: leader.secret.Namespace, Name: leader.secret.Name}}
	if err := c.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	if _, err := replica.Reconcile(t.Context(), reconcile.Request{NamespacedName: leader.secret}); err != nil {
		t.Fatal(err)
	}
	handshake(t, serving, first, now)
	second := round()
	if bytes.Equal(second, first) {
		t.Error("after the Secret was deleted the CA is the same")
	}
	handshake(t, serving, second, now)

	// After two thirds of a year the new CA is first trusted, then it signs.
	now = now.Add(250 * 24 * time.Hour)
	third := round()
	handshake(t, serving, second, now)
	handshake(t, serving, third, now)
	round()
	handshake(t, serving, third, now)
}

// handshake connects at a given time, as a caller that trusts a bundle.
func handshake(t *testing.T, serving *Serving, bundle []byte, now time.Time) {
	t.Helper()
	config := &tls.Config{}
	serving.Use(config)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		if conn, err := listener.Accept(); err == nil {
			_ = conn.(*tls.Conn).Handshake()
			conn.Close()
		}
	}()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	conn, err := tls.Dial("tcp", listener.Addr().String(), &tls.Config{RootCAs: roots, ServerName: DefaultService + ".nadra-system.svc", Time: func() time.Time { return now }})
	if err != nil {
		t.Errorf("the API server does not trust the served certificate: %v", err)
		return
	}
	conn.Close()
}
