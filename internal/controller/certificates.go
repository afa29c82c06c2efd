package controller

import (
	"bytes"
	"context"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// certificates keeps the Secret and the webhook configurations' caBundle: on
// the leader, and wherever two leaders should meet, by optimistic locking.
type certificates struct {
	client.Client
	secret client.ObjectKey
	names  []string
	now    func() time.Time
}

func newCertificates(c client.Client, o Options) *certificates {
	host := o.Service + "." + o.Namespace
	return &certificates{
		Client: c, secret: client.ObjectKey{Namespace: o.Namespace, Name: o.Secret},
		names: []string{host + ".svc", host + ".svc.cluster.local"}, now: time.Now,
	}
}

func (r *certificates) setUp(m manager.Manager) error {
	one := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: r.secret}}
	})
	// Where there is no Secret yet there is no event of it.
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

// Reconcile takes the next step of the chain, if one is due, and then tells the
// API server whom to trust.
func (r *certificates) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	secret := &corev1.Secret{}
	if err := r.Get(ctx, r.secret, secret); apierrors.IsNotFound(err) {
		secret = nil
	} else if err != nil {
		return reconcile.Result{}, err
	}
	chain, again, err := r.step(ctx, secret)
	if err != nil {
		return reconcile.Result{}, settled(err)
	}
	if err := r.tellBundle(ctx, chain.bundle()); err != nil {
		return reconcile.Result{}, settled(err)
	}
	return reconcile.Result{RequeueAfter: again}, nil
}

func (r *certificates) step(ctx context.Context, secret *corev1.Secret) (*chain, time.Duration, error) {
	var now *chain
	if secret != nil {
		var err error
		if now, err = readChain(secret.Data, r.now()); err != nil {
			log.FromContext(ctx).Info("Secret of the certificate is made anew", "secret", r.secret.String(), "why", err.Error())
		}
	}
	next, again, err := now.next(r.now(), r.names)
	if err != nil || next == now {
		return next, again, err
	}
	if err := r.write(ctx, secret, next); err != nil {
		return nil, 0, err
	}
	log.FromContext(ctx).Info("Certificate made", "secret", r.secret.String(),
		"expires", next.leaf.NotAfter, "authorityExpires", next.authority.cert.NotAfter)
	return next, again, nil
}

func (r *certificates) write(ctx context.Context, secret *corev1.Secret, c *chain) error {
	data, err := c.data()
	if err != nil {
		return err
	}
	if secret == nil {
		secret = &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: r.secret.Namespace, Name: r.secret.Name,
				Labels: map[string]string{v1alpha1.ManagedByLabel: v1alpha1.Controller},
			},
			Type: corev1.SecretTypeTLS,
			Data: data,
		}
		if err := r.Create(ctx, secret); err != nil {
			return fmt.Errorf("creating secret %s: %w", r.secret, err)
		}
		return nil
	}
	secret = secret.DeepCopy()
	secret.Data = data
	if err := r.Update(ctx, secret); err != nil {
		return fmt.Errorf("updating secret %s: %w", r.secret, err)
	}
	return nil
}

// tellBundle writes the bundle into the configurations that have another one.
// Those that are not there come with the manifests, and with an event.
func (r *certificates) tellBundle(ctx context.Context, bundle []byte) error {
	mutating := &admissionv1.MutatingWebhookConfiguration{}
	validating := &admissionv1.ValidatingWebhookConfiguration{}
	for _, c := range []struct {
		client.Object
		clients func() []*admissionv1.WebhookClientConfig
	}{
		{mutating, func() (out []*admissionv1.WebhookClientConfig) {
			for i := range mutating.Webhooks {
				out = append(out, &mutating.Webhooks[i].ClientConfig)
			}
			return out
		}},
		{validating, func() (out []*admissionv1.WebhookClientConfig) {
			for i := range validating.Webhooks {
				out = append(out, &validating.Webhooks[i].ClientConfig)
			}
			return out
		}},
	} {
		if err := r.Get(ctx, client.ObjectKey{Name: Name}, c.Object); apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			return err
		}
		if !setBundle(c.clients(), bundle) {
			continue
		}
		if err := r.Update(ctx, c.Object); err != nil {
			return fmt.Errorf("writing the caBundle of %T: %w", c.Object, err)
		}
		log.FromContext(ctx).Info("caBundle written", "configuration", fmt.Sprintf("%T", c.Object))
	}
	return nil
}

// setBundle reports whether it has changed anything.
func setBundle(clients []*admissionv1.WebhookClientConfig, bundle []byte) bool {
	changed := false
	for _, c := range clients {
		if !bytes.Equal(c.CABundle, bundle) {
			c.CABundle, changed = bundle, true
		}
	}
	return changed
}
