package publish

import (
	"context"
	"errors"
	"fmt"

	nadclient "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/client/clientset/versioned"
	nadinformers "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/client/informers/externalversions"
	nadlisters "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/client/listers/k8s.cni.cncf.io/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/driver/internal/background"
)

// NADWatch watches the cluster's NADs.
type NADWatch struct {
	factory  nadinformers.SharedInformerFactory
	lister   nadlisters.NetworkAttachmentDefinitionLister
	informer cache.SharedIndexInformer
}

// NewNADWatch returns a watch that has not started.
func NewNADWatch(client nadclient.Interface) (*NADWatch, error) {
	factory := nadinformers.NewSharedInformerFactory(client, 0)
	nads := factory.K8sCniCncfIo().V1().NetworkAttachmentDefinitions()
	w := &NADWatch{factory: factory, lister: nads.Lister(), informer: nads.Informer()}
	if err := w.informer.SetTransform(attachment.SlimObject); err != nil {
		return nil, fmt.Errorf("watching NetworkAttachmentDefinitions: %w", err)
	}
	return w, nil
}

// Lister lists the NADs.
func (w *NADWatch) Lister() nadlisters.NetworkAttachmentDefinitionLister { return w.lister }

// Start watches until ctx ends, and returns when all NADs were read. It calls changed after
// every change.
func (w *NADWatch) Start(ctx context.Context, changed func()) error {
	if _, err := w.informer.AddEventHandler(background.OnChange(changed)); err != nil {
		return fmt.Errorf("watching NetworkAttachmentDefinitions: %w", err)
	}
	w.factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), w.informer.HasSynced) {
		return errors.New("stopped before the NetworkAttachmentDefinitions were read")
	}
	return nil
}
