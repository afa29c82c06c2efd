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
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// certificates maintains the Secret and the webhook configurations' caBundle. It runs on the leader;
// optimistic locking resolves the case of two leaders.
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

// Reconcile takes the next step of the chain, if one is due, and then writes the bundle of trusted
// authorities.
func (r *certificates) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	secret := &corev1.Secret{}
	if err := r.Get(ctx, r.secret, secret); apierrors.IsNotFound(err) {
		secret = nil
	} else if err != nil {
		return reconcile.Result{}, err
	}
	chain, again, err := r.step(ctx, secret)
	if err != nil {
		return reconcile.Result{}, ignoreStale(err)
	}
	if err := r.writeBundle(ctx, chain.bundle()); err != nil {
		return reconcile.Result{}, ignoreStale(err)
	}
	return reconcile.Result{RequeueAfter: again}, nil
}

// step stores the next chain if one is due, and returns it with the time until the next step.
func (r *certificates) step(ctx context.Context, secret *corev1.Secret) (*chain, time.Duration, error) {
	var now *chain
	if secret != nil {
		var err error
		if now, err = readChain(secret.Data, r.now()); err != nil {
			log.FromContext(ctx).Info("Replacing the invalid certificate", "secret", klog.KRef(r.secret.Namespace, r.secret.Name), "err", err)
		}
	}
	next, again, err := now.next(r.now(), r.names)
	if err != nil || next == now {
		return next, again, err
	}
	if err := r.write(ctx, secret, next); err != nil {
		return nil, 0, err
	}
	log.FromContext(ctx).Info("Stored a certificate", "secret", klog.KRef(r.secret.Namespace, r.secret.Name),
		"expires", next.leaf.NotAfter, "authorityExpires", next.authority.cert.NotAfter)
	return next, again, nil
}

// write creates or updates the Secret.
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
			return fmt.Errorf("creating Secret %s: %w", r.secret, err)
		}
		return nil
	}
	secret = secret.DeepCopy()
	secret.Data = data
	if err := r.Update(ctx, secret); err != nil {
		return fmt.Errorf("updating Secret %s: %w", r.secret, err)
	}
	return nil
}

// writeBundle writes the bundle into the configurations that have another one. It skips missing
// configurations; their creation causes an event.
func (r *certificates) writeBundle(ctx context.Context, bundle []byte) error {
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
		log.FromContext(ctx).Info("Wrote the caBundle", "configuration", fmt.Sprintf("%T", c.Object))
	}
	return nil
}

// setBundle sets the bundle of clients. It reports whether it changed any.
func setBundle(clients []*admissionv1.WebhookClientConfig, bundle []byte) bool {
	changed := false
	for _, c := range clients {
		if !bytes.Equal(c.CABundle, bundle) {
			c.CABundle, changed = bundle, true
		}
	}
	return changed
}
