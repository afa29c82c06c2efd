package admission

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// withoutClaim is the warning for a pod whose node attaches its networks by the annotation.
const withoutClaim = "spec.nodeName: the pod gets no claim, because the scheduler ignores it. Its node attaches the networks by the annotation; " +
	"nothing has checked that the node has them, or counts their addresses"

// requireDriver returns the edit that makes the container runtime refuse the pod's containers while the
// driver is not connected, if NRI's default validator is on: without a claim nothing else does.
func requireDriver(pod *corev1.Pod) []translate.Edit {
	if _, found := pod.Annotations[requiredPlugins]; found {
		return nil
	}
	return []translate.Edit{{Op: translate.Add, Path: translate.Path{"metadata", "annotations", requiredPlugins}, Value: "[nadra]"}}
}

// requiredPlugins is NRI's annotation for the plugins that a pod's containers need.
const requiredPlugins = "required-plugins.noderesource.dev"

// needsClaim reports whether the pod cannot get its networks without a claim: it has one already, or a
// network draws from a resource pool, whose devices the scheduler allocates.
func (a admitted) needsClaim(selections []attachment.Selection) bool {
	return len(a.hand) > 0 || a.converted() || slices.ContainsFunc(selections, func(s attachment.Selection) bool {
		nad := a.lookups.Network(s.Network)
		if nad == nil {
			return false
		}
		pool := attachment.PoolOf(nad.Annotations)
		return pool != "" && (!requests(a.pod, pool) || !a.ofPlugin(pool))
	})
}

// requests reports whether a container of a pod requests a resource.
func requests(pod *corev1.Pod, resource string) bool {
	return slices.ContainsFunc(slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers), func(c corev1.Container) bool {
		quantity := c.Resources.Limits[corev1.ResourceName(resource)]
		return !quantity.IsZero()
	})
}

// ofPlugin reports whether no DRA driver serves a resource pool, so that a device plugin may: the
// kubelet then gives the pod its devices without the scheduler, and the node attaches them.
func (a admitted) ofPlugin(pool string) bool {
	if !a.options.Pools {
		return true
	}
	if a.lookups.PoolServer == nil {
		return false
	}
	server := a.lookups.PoolServer(pool).Server
	return server == translate.PoolOfPlugin || server == translate.PoolOfNobody
}

// withoutPlugins returns findings without those about pools that nadra does not serve.
func withoutPlugins(findings []translate.Finding) []translate.Finding {
	return slices.DeleteFunc(findings, func(f translate.Finding) bool {
		return f.Code == translate.PoolUnserved || f.Code == translate.PoolsNotServedUser
	})
}
