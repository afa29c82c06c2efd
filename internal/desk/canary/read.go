package canary

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	nadclient "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/client/clientset/versioned"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/nadra-dev/nadra/internal/desk/inspect"
	"github.com/nadra-dev/nadra/internal/kube"
)

// Networks selects the networks to test.
type Networks struct {
	Kube kubernetes.Interface
	NADs nadclient.Interface
	// Namespace is the namespace of the networks; empty means all.
	Namespace string
	// Selector selects networks by label.
	Selector string
	// Names are the names of networks, as [NAMESPACE/]NAME; empty means all of the
	// namespace. Own is the namespace of names without one.
	Names []string
	Own   string
	// Nodes are the names of nodes that must exist.
	Nodes []string
}

// Read reads the networks, and the nodes that offer them.
func (n Networks) Read(ctx context.Context) ([]*nadv1.NetworkAttachmentDefinition, inspect.Offers, error) {
	nads, err := n.read(ctx)
	if err != nil {
		return nil, inspect.Offers{}, err
	}
	in := inspect.Input{Networks: nads}
	in.Slices, err = kube.AllItems[resourceapi.ResourceSlice](ctx, kube.OwnSlices, n.Kube.ResourceV1().ResourceSlices().List)
	if err != nil && !apierrors.IsNotFound(err) { // a cluster without DRA has none
		return nil, inspect.Offers{}, fmt.Errorf("listing resourceslices: %w", err)
	}
	if err := inspect.ReadProfiles(ctx, n.Kube, &in); err != nil {
		return nil, inspect.Offers{}, err
	}
	for _, name := range n.Nodes {
		_, err := n.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil && !apierrors.IsForbidden(err) {
			return nil, inspect.Offers{}, fmt.Errorf("reading node %q: %w", name, err)
		}
	}
	return nads, inspect.OffersOf(in), nil
}

// read reads the networks, sorted and each once.
func (n Networks) read(ctx context.Context) ([]*nadv1.NetworkAttachmentDefinition, error) {
	var out []*nadv1.NetworkAttachmentDefinition
	for _, name := range n.Names {
		namespace, name, found := strings.Cut(name, "/")
		if !found {
			namespace, name = n.Own, namespace
		}
		nad, err := n.NADs.K8sCniCncfIoV1().NetworkAttachmentDefinitions(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("reading network %s/%s: %w", namespace, name, err)
		}
		out = append(out, nad)
	}
	if len(n.Names) == 0 {
		list := n.NADs.K8sCniCncfIoV1().NetworkAttachmentDefinitions(n.Namespace).List
		var err error
		if out, err = kube.AllItems[nadv1.NetworkAttachmentDefinition](ctx, metav1.ListOptions{LabelSelector: n.Selector}, list); err != nil {
			return nil, fmt.Errorf("listing network-attachment-definitions: %w", err)
		}
	}
	key := func(a *nadv1.NetworkAttachmentDefinition) string { return a.Namespace + "/" + a.Name }
	slices.SortFunc(out, func(a, b *nadv1.NetworkAttachmentDefinition) int { return cmp.Compare(key(a), key(b)) })
	return slices.CompactFunc(out, func(a, b *nadv1.NetworkAttachmentDefinition) bool { return key(a) == key(b) }), nil
}
