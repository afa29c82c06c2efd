package admission

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/nadra-dev/nadra/internal/words"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// withoutClaim returns the warning for a pod that gets no claim, whose node attaches its networks by the
// annotation, or "". refusals has why such a pod cannot have its networks.
func (a admitted) withoutClaim(selections []attachment.Selection) (warning string, refusals []string) {
	by, remedy := "spec.nodeName", fmt.Sprintf(translate.NodeNamedRemedy+".", a.pod.Spec.NodeName)
	if a.pod.Spec.NodeName == "" {
		if len(a.hand) > 0 || a.converted() {
			return "", nil // its author, or an earlier admission, has given it a claim
		}
		setting, never, refusals := a.claimsPolicy()
		if !never {
			return "", refusals
		}
		by, remedy = setting, "pods get no claims, and the scheduler allocates a device of a resource pool only for a claim: "+
			"use another namespace, or networks without a pool."
	}
	switch {
	case len(selections) == 0:
		return "", nil
	case a.needsClaim(selections):
		return by, []string{by + ": " + remedy}
	}
	return words.Short(by+": the pod gets no claim. Its node attaches the networks by the annotation; "+
		"nothing has checked that the node has them, or counts their addresses", maxWarning), nil
}

// claimsPolicy returns whether the namespace's pods get no claims, and the setting that says so. It refuses a
// label with an unknown value: the pod could wait forever for a scheduler that does not know claims.
func (a admitted) claimsPolicy() (by string, never bool, refusals []string) {
	if a.lookups.NamespaceLabels != nil {
		labels := a.lookups.NamespaceLabels(a.namespace)
		value, labelled := labels[v1alpha1.ClaimsLabel]
		by = fmt.Sprintf("label %s=%s of namespace %s", v1alpha1.ClaimsLabel, value, a.namespace)
		switch unclaimed := labels[v1alpha1.UnclaimedLabel]; {
		case value == v1alpha1.ClaimsNever && (unclaimed == "refuse" || unclaimed == "allow"):
			return by, false, []string{fmt.Sprintf("%s: with label %s=%s nadra attaches no networks without a claim: remove one of the labels.",
				by, v1alpha1.UnclaimedLabel, unclaimed)}
		case value == v1alpha1.ClaimsNever, value == v1alpha1.ClaimsAlways:
			return by, value == v1alpha1.ClaimsNever, nil
		case labelled:
			return by, false, []string{fmt.Sprintf("%s: the value is unknown: use %s or %s, or remove the label.",
				by, v1alpha1.ClaimsNever, v1alpha1.ClaimsAlways)}
		}
	}
	return "--claims=never of nadra-controller", a.options.NeverClaims, nil
}

// annotatedAlone returns the edits of a pod whose networks its annotation alone requests: it requires the
// driver, and, unless its node is decided, the nodes that its networks select among nadra's. converted are the
// edits that the pod would get with a claim.
func (a admitted) annotatedAlone(converted []translate.Edit) []translate.Edit {
	edits := requireDriver(a.pod)
	if a.server.Node != "" {
		return edits
	}
	if !a.options.BesideMultus {
		edits = append(edits, require(a.pod, ownedBy(corev1.NodeSelectorOpIn))...)
	}
	return append(edits, slices.DeleteFunc(slices.Clone(converted), func(e translate.Edit) bool {
		return len(e.Path) < 2 || e.Path[0] != "spec" || e.Path[1] != "nodeSelector"
	})...)
}

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
		o := translate.Options{Pools: a.options.Pools, PoolServer: a.lookups.PoolServer}
		return pool != "" && !o.TakenAlone(pool, requests(a.pod, pool))
	})
}

// requests reports whether a container of a pod requests a resource.
func requests(pod *corev1.Pod, resource string) bool {
	return slices.ContainsFunc(slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers), func(c corev1.Container) bool {
		quantity := c.Resources.Limits[corev1.ResourceName(resource)]
		return !quantity.IsZero()
	})
}

// ofAnnotation returns findings without those about claims, and about pools that nadra does not serve.
func ofAnnotation(findings []translate.Finding) []translate.Finding {
	return slices.DeleteFunc(findings, func(f translate.Finding) bool {
		return f.Code == translate.PoolUnserved || f.Code == translate.PoolsNotServedUser || f.Code == translate.KueueMapping
	})
}
