package controller

import (
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// certificates maintains the Secret and the webhook configurations' caBundle, in a process and with an account
// of its own (docs/decisions/0030). Its memory is the objects and how long it has seen them as they are: no
// delay depends on two clocks, and after a restart each begins again.
type certificates struct {
	// Client reads from the API server: a cache may lack what this process has just written.
	client.Client
	secret client.ObjectKey
	names  []string
	now    func() time.Time

	// next replaces the stored pair when all callers trust it, and by nextBy even if others keep changing the
	// bundle; nil if none is due.
	next   *pair
	nextBy time.Time
	// changed is the time of the last write, or of the start.
	changed time.Time
}

// SetupCertificates adds the maintenance of the certificate to a manager whose cache has
// CertificateCacheOptions. live must read without a cache.
func SetupCertificates(m manager.Manager, live client.Client, namespace string) error {
	if err := newCertificates(live, namespace, time.Now).setUp(m); err != nil {
		return fmt.Errorf("setting up the maintenance of the certificate: %w", err)
	}
	return nil
}

func newCertificates(live client.Client, namespace string, now func() time.Time) *certificates {
	host := Service + "." + namespace + ".svc"
	return &certificates{
		Client: live, secret: client.ObjectKey{Namespace: namespace, Name: Secret},
		names: []string{host, host + ".cluster.local"}, now: now, changed: now(),
	}
}

// CertificateCacheOptions returns options of a cache that only has the Secret and the webhook configurations.
func CertificateCacheOptions(namespace string) cache.Options {
	configuration := cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", Name)}
	return cache.Options{ByObject: map[client.Object]cache.ByObject{
		&corev1.Secret{}: {
			Namespaces: map[string]cache.Config{namespace: {FieldSelector: fields.OneTermEqualSelector("metadata.name", Secret)}},
		},
		&admissionv1.MutatingWebhookConfiguration{}:   configuration,
		&admissionv1.ValidatingWebhookConfiguration{}: configuration,
	}}
}

func (r *certificates) setUp(m manager.Manager) error {
	one := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: r.secret}}
	})
	// Without a Secret there is no event for it.
	start := source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		queue.Add(reconcile.Request{NamespacedName: r.secret})
		return nil
	})
	return builder.ControllerManagedBy(m).Named("certificate").
		Watches(&corev1.Secret{}, one).
		Watches(&admissionv1.MutatingWebhookConfiguration{}, one).
		Watches(&admissionv1.ValidatingWebhookConfiguration{}, one).
		WatchesRawSource(start).
		Complete(r)
}

// Reconcile takes the next step. A new pair is first trusted, then stored, and the earlier one is trusted until
// every replica serves with the new one. If nothing is stored and callers trust nothing, as in a new installation,
// no replica can serve, and the pair is stored at once.
func (r *certificates) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	secret, stored, err := r.read(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	configurations, err := r.configurations(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	if err := r.renew(stored); err != nil {
		return reconcile.Result{}, err
	}
	trusted := trustedBy(configurations, r.now())
	if err := r.writeBundle(ctx, configurations, encode(trust(stored, r.next, trusted, r.quiet())...)); err != nil {
		return reconcile.Result{}, ignoreStale(err)
	}
	switch {
	case r.next == nil && r.quiet() < settle:
		return reconcile.Result{RequeueAfter: settle - r.quiet()}, nil
	case r.next == nil:
		return reconcile.Result{RequeueAfter: stored.dueIn(r.now())}, nil
	case (stored != nil || len(trusted) > 0) && r.quiet() < propagate && r.now().Before(r.nextBy):
		return reconcile.Result{RequeueAfter: propagate - r.quiet()}, nil
	}
	if err := r.store(ctx, secret); err != nil {
		return reconcile.Result{}, ignoreStale(err)
	}
	return reconcile.Result{RequeueAfter: settle}, nil
}

// quiet returns how long this process has seen no need to write.
func (r *certificates) quiet() time.Duration { return r.now().Sub(r.changed) }

// renew creates the next pair if the stored one is missing or due, and forgets it otherwise.
func (r *certificates) renew(stored *pair) (err error) {
	switch {
	case stored != nil && stored.dueIn(r.now()) > 0:
		r.next = nil
	case r.next == nil:
		r.next, err = newPair(r.now(), r.names)
		r.nextBy = r.now().Add(patience)
	}
	return err
}

// read returns the Secret and its pair. Without a valid pair it returns nil for the pair.
func (r *certificates) read(ctx context.Context) (*corev1.Secret, *pair, error) {
	secret := &corev1.Secret{}
	if err := r.Get(ctx, r.secret, secret); apierrors.IsNotFound(err) {
		return nil, nil, nil
	} else if err != nil {
		return nil, nil, fmt.Errorf("reading Secret %s: %w", r.secret, err)
	}
	stored, err := readPair(secret.Data, r.now(), r.names)
	if err != nil {
		log.FromContext(ctx).Info("Replacing the invalid certificate", "secret", klog.KObj(secret), "err", err)
		return secret, nil, nil
	}
	return secret, stored, nil
}

// store creates or updates the Secret with the next pair.
func (r *certificates) store(ctx context.Context, secret *corev1.Secret) error {
	data := map[string][]byte{corev1.TLSCertKey: r.next.crt, corev1.TLSPrivateKeyKey: r.next.key}
	var err error
	if secret == nil {
		err = r.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: r.secret.Namespace, Name: r.secret.Name,
				Labels: map[string]string{v1alpha1.ManagedByLabel: v1alpha1.Controller},
			},
			Type: corev1.SecretTypeTLS, Data: data,
		})
	} else {
		secret.Data = data
		err = r.Update(ctx, secret)
	}
	if err != nil {
		return fmt.Errorf("storing the certificate in Secret %s: %w", r.secret, err)
	}
	log.FromContext(ctx).Info("Stored a certificate", "secret", klog.KRef(r.secret.Namespace, r.secret.Name), "expires", r.next.cert.NotAfter)
	r.next, r.changed = nil, r.now()
	return nil
}

// configurations returns the webhook configurations that exist. The creation of another causes an event.
func (r *certificates) configurations(ctx context.Context) (out []client.Object, err error) {
	for _, o := range []client.Object{&admissionv1.MutatingWebhookConfiguration{}, &admissionv1.ValidatingWebhookConfiguration{}} {
		err := r.Get(ctx, client.ObjectKey{Name: Name}, o)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading %T %s: %w", o, Name, err)
		}
		if err == nil {
			out = append(out, o)
		}
	}
	return out, nil
}

// clientsOf returns the clients of the webhooks of a configuration.
func clientsOf(o client.Object) (out []*admissionv1.WebhookClientConfig) {
	switch c := o.(type) {
	case *admissionv1.MutatingWebhookConfiguration:
		for i := range c.Webhooks {
			out = append(out, &c.Webhooks[i].ClientConfig)
		}
	case *admissionv1.ValidatingWebhookConfiguration:
		for i := range c.Webhooks {
			out = append(out, &c.Webhooks[i].ClientConfig)
		}
	}
	return out
}

// trustedBy returns the certificates that callers of any webhook trust.
func trustedBy(configurations []client.Object, now time.Time) (out []*x509.Certificate) {
	for _, o := range configurations {
		for _, c := range clientsOf(o) {
			for _, one := range readBundle(c.CABundle, now) {
				if !slices.ContainsFunc(out, one.Equal) {
					out = append(out, one)
				}
			}
		}
	}
	return out
}

// writeBundle writes the bundle into the configurations that have a webhook with another one.
func (r *certificates) writeBundle(ctx context.Context, configurations []client.Object, bundle []byte) error {
	for _, o := range configurations {
		changed := false
		for _, c := range clientsOf(o) {
			if !bytes.Equal(c.CABundle, bundle) {
				c.CABundle, changed = bundle, true
			}
		}
		if !changed {
			continue
		}
		if err := r.Update(ctx, o); err != nil {
			return fmt.Errorf("writing the caBundle of %T %s: %w", o, Name, err)
		}
		r.changed = r.now()
		log.FromContext(ctx).Info("Wrote the caBundle", "configuration", fmt.Sprintf("%T", o))
	}
	return nil
}
