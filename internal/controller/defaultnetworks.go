package controller

import (
	"context"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// The webhooks for pods that name no networks.
const (
	// ofNamespaces is for namespaces with the label. The manifests have it.
	ofNamespaces = "namespace-default-networks.nadra.dev"
	// ofCluster is for all other namespaces. The controller adds it if it has default networks, so
	// that other clusters pay nothing for it.
	ofCluster = "default-networks.nadra.dev"
)

// defaultNetworks maintains the webhook of default networks for the whole cluster. It runs on the
// leader.
type defaultNetworks struct {
	client.Client
	wanted           bool
	systemNamespaces []string
}

func newDefaultNetworks(c client.Client, o Options) *defaultNetworks {
	return &defaultNetworks{Client: c, wanted: o.DefaultNetworks, systemNamespaces: o.SystemNamespaces}
}

func (r *defaultNetworks) setUp(m manager.Manager) error {
	return builder.ControllerManagedBy(m).Named("default-networks").For(&admissionv1.MutatingWebhookConfiguration{}).Complete(r)
}

// Reconcile adds, corrects or removes the webhook.
func (r *defaultNetworks) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	configuration := &admissionv1.MutatingWebhookConfiguration{}
	if err := r.Get(ctx, client.ObjectKey{Name: Name}, configuration); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	webhooks, err := r.webhooks(configuration.Webhooks)
	if err != nil {
		return reconcile.Result{}, err
	}
	if equality.Semantic.DeepEqual(webhooks, configuration.Webhooks) {
		return reconcile.Result{}, nil
	}
	configuration = configuration.DeepCopy()
	configuration.Webhooks = webhooks
	if err := r.Update(ctx, configuration); err != nil {
		return reconcile.Result{}, ignoreStale(fmt.Errorf("writing webhook %s of MutatingWebhookConfiguration %s: %w", ofCluster, Name, err))
	}
	message := "Removed the webhook for default networks"
	if r.wanted {
		message = "Wrote the webhook for default networks"
	}
	log.FromContext(ctx).Info(message, "name", ofCluster)
	return reconcile.Result{}, nil
}

// webhooks returns the webhooks with the one for default networks, or without it. Without a bundle of
// trusted authorities the API server could not call it and would refuse all pods, so it is added
// later: writing the bundle causes an event.
func (r *defaultNetworks) webhooks(there []admissionv1.MutatingWebhook) ([]admissionv1.MutatingWebhook, error) {
	isOfCluster := func(w admissionv1.MutatingWebhook) bool { return w.Name == ofCluster }
	if !r.wanted {
		return slices.DeleteFunc(slices.Clone(there), isOfCluster), nil
	}
	model := slices.IndexFunc(there, func(w admissionv1.MutatingWebhook) bool { return w.Name == ofNamespaces })
	if model < 0 {
		return nil, fmt.Errorf("adding webhook %s for --default-networks: MutatingWebhookConfiguration %s has no webhook %s to copy: apply the manifests of this version", ofCluster, Name, ofNamespaces)
	}
	if len(there[model].ClientConfig.CABundle) == 0 {
		return there, nil
	}
	w := *there[model].DeepCopy()
	w.Name = ofCluster
	w.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpNotIn, Values: r.systemNamespaces},
		{Key: v1alpha1.DefaultNetworksKey, Operator: metav1.LabelSelectorOpDoesNotExist},
	}}
	out := slices.Clone(there)
	if at := slices.IndexFunc(out, isOfCluster); at >= 0 {
		out[at] = w
		return out, nil
	}
	return append(out, w), nil
}
