package controller

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Serving has the certificate with which this replica serves. New connections use the latest one. It
// keeps the certificate if the Secret is deleted, because callers still trust it.
type Serving struct {
	current atomic.Pointer[tls.Certificate]
}

var errNoCertificate = errors.New("there is no certificate yet")

// Use configures a server to serve with the certificate.
func (s *Serving) Use(config *tls.Config) {
	config.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		if c := s.current.Load(); c != nil {
			return c, nil
		}
		return nil, errNoCertificate
	}
}

// Ready implements a readiness check. It returns an error while there is no certificate.
func (s *Serving) Ready(*http.Request) error {
	if s.current.Load() == nil {
		return errNoCertificate
	}
	return nil
}

// servingReader reads the Secret, on every replica.
type servingReader struct {
	client.Client
	secret  client.ObjectKey
	serving *Serving
	// expires is called with the certificate's expiry. It may be nil.
	expires func(time.Time)
}

func (r *servingReader) setUp(m manager.Manager) error {
	return builder.ControllerManagedBy(m).Named("serving").
		WithOptions(controller.Options{NeedLeaderElection: ptr.To(false)}).
		For(&corev1.Secret{}).
		Complete(r)
}

// Reconcile serves with the Secret's certificate.
func (r *servingReader) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	var secret corev1.Secret
	if err := r.Get(ctx, r.secret, &secret); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	pair, err := tls.X509KeyPair(secret.Data[tlsCertKey], secret.Data[tlsKeyKey])
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading the certificate of Secret %s: %w", r.secret, err)
	}
	r.serving.current.Store(&pair)
	if r.expires != nil {
		r.expires(pair.Leaf.NotAfter)
	}
	log.FromContext(ctx).Info("Serving with a new certificate", "secret", klog.KRef(r.secret.Namespace, r.secret.Name), "expires", pair.Leaf.NotAfter)
	return reconcile.Result{}, nil
}
