package inspect

import (
	"context"
	"fmt"
	"slices"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	nadclient "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/client/clientset/versioned"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/nadra-dev/nadra/internal/kube"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// Cluster is the cluster to read.
type Cluster struct {
	Kube kubernetes.Interface
	NADs nadclient.Interface
	// Namespace is the namespace of pods, claims and templates. Empty means all.
	Namespace string
}

// Read reads the input of Attachments. Kinds that the user may not read and that can be
// missing are in Unread.
func (c Cluster) Read(ctx context.Context) (Input, error) {
	in := Input{Unread: map[Kind]bool{}}
	var err error
	if in.Pods, err = kube.AllItems[corev1.Pod](ctx, kube.All, c.Kube.CoreV1().Pods(c.Namespace).List); err != nil {
		return in, fmt.Errorf("listing pods: %w", err)
	}
	return in, c.readDRA(ctx, &in)
}

// readDRA reads everything except pods.
func (c Cluster) readDRA(ctx context.Context, in *Input) (err error) {
	resources := c.Kube.ResourceV1()
	all := metav1.ListOptions{}
	in.Claims, err = kube.AllItems[resourceapi.ResourceClaim](ctx, all, resources.ResourceClaims(c.Namespace).List)
	switch {
	case apierrors.IsNotFound(err):
		in.unserved = append(in.unserved, Claims)
	case err != nil:
		return fmt.Errorf("listing resourceclaims: %w", err)
	}
	err = optional(ctx, in, Templates, all, resources.ResourceClaimTemplates(c.Namespace).List, &in.Templates)
	if err == nil {
		err = c.readOffers(ctx, in)
	}
	return err
}

// ReadNetworks reads the input of OfferedNetworks.
func (c Cluster) ReadNetworks(ctx context.Context) (Input, error) {
	in := Input{Unread: map[Kind]bool{}}
	err := c.readOffers(ctx, &in)
	if err == nil {
		err = c.eventsOn(ctx, &in, "NetworkAttachmentDefinition", "", "")
	}
	return in, err
}

// ReadProfiles reads which nodes share slices, if there are such slices.
func ReadProfiles(ctx context.Context, client kubernetes.Interface, in *Input) error {
	shared := func(s *resourceapi.ResourceSlice) bool { return s.Labels[v1alpha1.ProfileLabel] != "" }
	if !slices.ContainsFunc(in.Slices, shared) {
		return nil
	}
	profiles := map[string][]string{}
	err := kube.EachItem(ctx, metav1.ListOptions{LabelSelector: v1alpha1.ProfileLabel}, client.CoreV1().Nodes().List, func(n *corev1.Node) {
		profile := n.Labels[v1alpha1.ProfileLabel]
		profiles[profile] = append(profiles[profile], n.Name)
	})
	switch {
	case apierrors.IsForbidden(err):
		return nil // their names stay unknown
	case err != nil:
		return fmt.Errorf("listing nodes: %w", err)
	}
	in.Profiles = profiles
	return nil
}

// readOffers reads slices, the nodes that share them, classes and networks.
func (c Cluster) readOffers(ctx context.Context, in *Input) error {
	err := optional(ctx, in, Slices, kube.OwnSlices, c.Kube.ResourceV1().ResourceSlices().List, &in.Slices)
	if err == nil {
		err = ReadProfiles(ctx, c.Kube, in)
	}
	if err == nil {
		err = optional(ctx, in, Classes, metav1.ListOptions{}, c.Kube.ResourceV1().DeviceClasses().List, &in.Classes)
	}
	if err == nil {
		err = c.readNetworks(ctx, in)
	}
	return err
}

// readNetworks reads the networks of all namespaces or, without the right to do so, those
// of c's namespace.
func (c Cluster) readNetworks(ctx context.Context, in *Input) error {
	err := optional(ctx, in, Networks, metav1.ListOptions{}, c.networks(""), &in.Networks)
	if err != nil || !in.Unread[Networks] || c.Namespace == "" {
		return err
	}
	own, err := kube.AllItems[nadv1.NetworkAttachmentDefinition](ctx, kube.All, c.networks(c.Namespace))
	if err == nil {
		in.Networks = own
	}
	return nil // Unread has the kind already
}

// networks lists the NADs of a namespace.
func (c Cluster) networks(namespace string) kube.List[*nadv1.NetworkAttachmentDefinitionList] {
	return c.NADs.K8sCniCncfIoV1().NetworkAttachmentDefinitions(namespace).List
}

// optional appends the objects of a kind that can be missing, because the user may not read it or the
// cluster does not serve it.
func optional[T any, L runtime.Object](ctx context.Context, in *Input, kind Kind, o metav1.ListOptions, f kube.List[L], out *[]*T) error {
	err := kube.EachItem(ctx, o, f, func(item *T) { *out = append(*out, item) })
	switch {
	case apierrors.IsForbidden(err):
		in.Unread[kind] = true
	case apierrors.IsNotFound(err):
		in.unserved = append(in.unserved, kind)
	case err != nil:
		return fmt.Errorf("listing %s: %w", kind, err)
	}
	return nil
}
