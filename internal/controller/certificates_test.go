package controller

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// kubeletLag is how long a replica may go on serving with an earlier certificate.
const kubeletLag = 100 * time.Second

// rotation is the life of a certificate at an API server, without time passing.
type rotation struct {
	*testing.T
	client.Client
	r   *certificates
	now time.Time
	// served and trusted are what has been stored and trusted, and since when.
	served  []since[tls.Certificate]
	trusted []since[[]byte]
}

type since[T any] struct {
	at    time.Time
	value T
}

// within returns the values that some reader may still use whose copy is that old.
func within[T any](list []since[T], now time.Time, lag time.Duration) (out []T) {
	for i, s := range list {
		if last := i == len(list)-1; last || list[i+1].at.After(now.Add(-lag)) {
			out = append(out, s.value)
		}
	}
	return out
}

func newRotation(t *testing.T) *rotation {
	c := cluster(
		&admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: Name}, Webhooks: make([]admissionv1.MutatingWebhook, 2)},
		&admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: Name}, Webhooks: make([]admissionv1.ValidatingWebhook, 3)})
	x := &rotation{T: t, Client: c, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	x.restart()
	return x
}

// restart replaces the process.
func (x *rotation) restart() {
	x.r = newCertificates(x, "nadra-system", func() time.Time { return x.now })
}

func (x *rotation) secret() (*corev1.Secret, error) {
	var secret corev1.Secret
	err := x.Get(x.Context(), x.r.secret, &secret)
	return &secret, err
}

// step reconciles once and checks that every API server trusts every replica. It returns the time until the next step.
func (x *rotation) step() time.Duration {
	x.Helper()
	result, err := x.r.Reconcile(x.Context(), reconcile.Request{})
	if err != nil {
		x.Fatal(err)
	}
	if result.RequeueAfter <= 0 {
		x.Fatalf("at %s there is no next step", x.now)
	}
	x.look()
	return result.RequeueAfter
}

// look notes what is stored and trusted, and connects each replica with each API server.
func (x *rotation) look() {
	x.Helper()
	if secret, err := x.secret(); err == nil {
		// The server goes on with what it has read if the pair is invalid.
		served, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
		if n := len(x.served); err == nil && (n == 0 || !served.Leaf.Equal(x.served[n-1].value.Leaf)) {
			x.served = append(x.served, since[tls.Certificate]{x.now, served})
		}
	}
	if bundle := x.bundle(); len(x.trusted) == 0 || !bytes.Equal(bundle, x.trusted[len(x.trusted)-1].value) {
		x.trusted = append(x.trusted, since[[]byte]{x.now, bundle})
	}
	for _, served := range within(x.served, x.now, kubeletLag) {
		for _, bundle := range within(x.trusted, x.now, propagate) {
			if err := handshake(served, bundle, x.now); err != nil {
				x.Fatalf("at %s, %d stored and %d bundles later: %v", x.now, len(x.served), len(x.trusted), err)
			}
		}
	}
}

// bundle returns the bundle of all webhooks.
func (x *rotation) bundle() []byte {
	x.Helper()
	configurations, err := x.r.configurations(x.Context())
	if err != nil {
		x.Fatal(err)
	}
	var all [][]byte
	for _, o := range configurations {
		for _, c := range clientsOf(o) {
			all = append(all, c.CABundle)
		}
	}
	if len(all) != 5 || !equality.Semantic.DeepEqual(all[1:], all[:4]) {
		x.Fatalf("%d webhooks have not the same bundle", len(all))
	}
	return all[0]
}

// pass lets time pass, with a step whenever one is due.
func (x *rotation) pass(d time.Duration) {
	x.Helper()
	for end := x.now.Add(d); ; {
		again := x.step()
		if x.now.Add(again).After(end) {
			x.now = end
			return
		}
		x.now = x.now.Add(again)
	}
}

// stored waits for another stored certificate and returns how long it took.
func (x *rotation) stored() time.Duration {
	x.Helper()
	began, before := x.now, len(x.served)
	for len(x.served) == before {
		if x.now.Sub(began) > 2*lifetime {
			x.Fatal("no other certificate is stored")
		}
		again := x.step()
		if len(x.served) == before {
			x.now = x.now.Add(again)
		}
	}
	return x.now.Sub(began)
}

// TestCertificateThroughItsLife checks that every API server trusts every replica at any time, though the former
// read a bundle up to a minute late and the latter serve with an earlier certificate: in a new installation,
// when a certificate is due, when the Secret is deleted, and when the process restarts at each of its steps.
func TestCertificateThroughItsLife(t *testing.T) {
	x := newRotation(t)
	if took := x.stored(); took > 0 {
		t.Errorf("in a new installation the certificate is stored after %s", took)
	}
	x.now = x.now.Add(settle)
	version := x.version()
	x.step()
	if x.version() != version {
		t.Error("what was in order was written again")
	}

	if took := x.stored(); took < lifetime*2/3-2*clockSkew || took > lifetime*2/3 {
		t.Errorf("the certificate is replaced after %s", took)
	}
	x.pass(2 * settle)
	if got := readBundle(x.bundle(), x.now); len(got) != 1 {
		t.Errorf("%d certificates are trusted when all replicas serve with the last", len(got))
	}

	x.deleteSecret()
	if took := x.stored(); took < propagate || took > 2*propagate {
		t.Errorf("a deleted Secret is there again after %s", took)
	}
	x.pass(2 * settle)

	for _, after := range []time.Duration{0, propagate / 2, propagate + time.Second, settle} {
		x.deleteSecret()
		x.step()
		x.now = x.now.Add(after)
		x.restart()
		x.stored()
		x.restart()
		x.pass(2 * settle)
	}
	if got := readBundle(x.bundle(), x.now); len(got) != 1 {
		t.Errorf("%d certificates are trusted at the end", len(got))
	}
}

// TestCrashingMaintenance checks that a process that never lives long enough to store a certificate does not
// make the bundle grow, and that the certificate of the replicas stays trusted.
func TestCrashingMaintenance(t *testing.T) {
	x := newRotation(t)
	x.pass(settle)
	x.deleteSecret()
	for range 20 {
		x.restart()
		x.step()
		x.now = x.now.Add(propagate / 2)
	}
	if got := readBundle(x.bundle(), x.now); len(got) > maxEarlier+1 {
		t.Errorf("%d certificates are trusted", len(got))
	}
}

// TestBundleReplaced checks that a certificate is replaced in time and trusted before, though a tool empties the
// bundle of all webhooks or of some again and again.
func TestBundleReplaced(t *testing.T) {
	for _, some := range []bool{false, true} {
		x := newRotation(t)
		x.pass(2 * settle)
		due := x.now.Add(lifetime * 2 / 3)
		x.now = due
		x.step()
		for before := len(x.served); len(x.served) == before; {
			if x.now.After(due.Add(2 * patience)) {
				t.Fatalf("the certificate is not replaced (only some emptied: %v)", some)
			}
			configurations, err := x.r.configurations(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range configurations[:1] {
				x.empty(o)
			}
			if !some {
				x.empty(configurations[1])
			}
			x.step()
			if len(x.served) > before && x.now.Before(due.Add(propagate)) {
				t.Errorf("a certificate is stored %s after it was trusted", x.now.Sub(due))
			}
			x.now = x.now.Add(propagate / 2)
		}
	}
}

// empty removes the bundle of a configuration, as a tool does that knows none.
func (x *rotation) empty(o client.Object) {
	x.Helper()
	for _, c := range clientsOf(o) {
		c.CABundle = nil
	}
	if err := x.Update(x.Context(), o); err != nil {
		x.Fatal(err)
	}
}

// TestDamagedSecret checks that an invalid certificate is replaced in the same Secret.
func TestDamagedSecret(t *testing.T) {
	x := newRotation(t)
	x.pass(settle)
	secret, err := x.secret()
	if err != nil {
		t.Fatal(err)
	}
	secret.Data[corev1.TLSCertKey] = []byte("x")
	if err := x.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	x.stored()
	x.pass(2 * settle)
}

func (x *rotation) deleteSecret() {
	x.Helper()
	secret, err := x.secret()
	if err == nil {
		err = x.Delete(x.Context(), secret)
	}
	if err != nil {
		x.Fatal(err)
	}
}

// version returns the versions of the objects.
func (x *rotation) version() string {
	x.Helper()
	secret, err := x.secret()
	if err != nil {
		x.Fatal(err)
	}
	out := secret.ResourceVersion
	configurations, err := x.r.configurations(x.Context())
	if err != nil {
		x.Fatal(err)
	}
	for _, o := range configurations {
		out += " " + o.GetResourceVersion()
	}
	return out
}

// handshake connects at a given time a caller that trusts a bundle with a server.
func handshake(served tls.Certificate, bundle []byte, now time.Time) error {
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{served}})
	if err != nil {
		return err
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
	conn, err := tls.Dial("tcp", listener.Addr().String(), &tls.Config{RootCAs: roots, ServerName: hosts[0], Time: func() time.Time { return now }})
	if err != nil {
		return err
	}
	return conn.Close()
}
