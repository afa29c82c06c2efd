package doctor

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nadra-dev/nadra/internal/kube"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// policyResource is the resource of MultiNetworkPolicies, which are in the group of networks.
var policyResource = schema.GroupVersionResource{Group: "k8s.cni.cncf.io", Version: "v1beta1", Resource: "multi-networkpolicies"}

// readPolicies counts MultiNetworkPolicies. If there are any, it finds the pods to which
// they do not apply.
func (r *reader) readPolicies(ctx context.Context) {
	if !slices.Contains(r.groups, policyResource.Group) {
		return
	}
	out := &Policies{}
	right := "multi-networkpolicies.k8s.cni.cncf.io"
	count := func(*unstructured.Unstructured) { out.Count++ }
	if !each(ctx, r, PartPolicies, right, kube.All, r.Dynamic.Resource(policyResource).List, count) || out.Count == 0 {
		return
	}
	if err := r.readUnseen(ctx, out); !r.failed(PartPolicies, "", err, "the right to list resourceclaims.resource.k8s.io and pods") {
		r.caps.Policies = out
	}
}

// readUnseen finds pods that have networks by a claim, and no annotation.
func (r *reader) readUnseen(ctx context.Context, out *Policies) error {
	claiming := map[string]bool{}
	claims := r.Kube.ResourceV1().ResourceClaims("")
	err := kube.EachItem(ctx, kube.All, claims.List, func(c *resourceapi.ResourceClaim) {
		if len(attachment.RequestsOfClaim(c.Spec, c.Namespace, nil).Names) == 0 || !attachment.HasDevices(c) {
			return
		}
		for _, consumer := range c.Status.ReservedFor {
			claiming[c.Namespace+"/"+consumer.Name] = true
		}
	})
	if apierrors.IsNotFound(err) || err == nil && len(claiming) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	pods := r.Kube.CoreV1().Pods("")
	err = kube.EachItem(ctx, kube.All, pods.List, func(p *corev1.Pod) {
		if name := p.Namespace + "/" + p.Name; claiming[name] && p.Annotations[attachment.NetworksAnnotation] == "" {
			out.Unseen = append(out.Unseen, name)
		}
	})
	slices.Sort(out.Unseen)
	return err
}
