package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/nadra-dev/nadra/internal/words"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// nadraDriver checks that nadra's driver runs, and is ready on each node that is nadra's by its label. It is a blocker only
// if no node has it: one node without it must not keep an upgrade from going on with the others.
func nadraDriver(c *Capabilities) result {
	n := c.Nadra
	switch {
	case n == nil && c.gap(PartMultus, "") != nil: // both are DaemonSets
		return missing(c, PartMultus, "")
	case n == nil && len(c.ownedNodes()) > 0:
		return found(blocker, "Install it, or remove the label: kubectl label node NODE "+v1alpha1.OwnerLabel+"-", "it is not installed, and these nodes are nadra's by their label: %s", list(c.ownedNodes()))
	case n == nil:
		return found(info, "Install it when the other checks pass: "+apply(c)+".", "it is not installed")
	case n.Desired == 0:
		status, remedy := blocker, "Correct the node selector and the affinity: "
		if c.noneOwned() {
			status, remedy = warning, "Unless it selects nodes by label "+ownLabel+", which none has yet, correct the node selector and the affinity: "
		}
		return found(status, remedy+fmt.Sprintf("kubectl -n %s get daemonset %s -o yaml.", n.Namespace, n.DaemonSet),
			"%s/%s selects no node, so no driver runs", n.Namespace, n.DaemonSet)
	}
	return driverOfNodes(c, fmt.Sprintf("Look at its pods: kubectl -n %s get pods -o wide.", n.Namespace))
}

// apply returns the command that installs nadra.
func apply(c *Capabilities) string {
	if c.Beside() {
		return "kubectl apply -k manifests/beside-multus"
	}
	return "kubectl apply -k manifests/drop-in"
}

// driverOfNodes compares the nodes that the driver must serve with those on which it is ready.
func driverOfNodes(c *Capabilities, remedy string) result {
	n, owned := c.Nadra, c.ownedNodes()
	known := c.gap(PartPods, "") == nil && len(n.ReadyNodes) > 0 // older versions have not written them
	without := slices.DeleteFunc(slices.Clone(owned), func(node string) bool { return slices.Contains(n.ReadyNodes, node) })
	switch {
	case n.Ready == 0:
		return found(blocker, remedy, "%s/%s is ready on none of %s", n.Namespace, n.DaemonSet, words.Count(int(n.Desired), "node"))
	case known && len(without) > 0:
		return found(warning, remedy, "%s/%s is not ready on nodes that are nadra's by their label: %s", n.Namespace, n.DaemonSet, list(without))
	case n.Ready < n.Desired:
		return found(warning, remedy, "%s/%s is ready on %d of %d nodes", n.Namespace, n.DaemonSet, n.Ready, n.Desired)
	}
	if !c.Installation().Labelled() {
		return fine("%s/%s is ready on %s", n.Namespace, n.DaemonSet, words.Count(int(n.Ready), "node"))
	}
	switch {
	case c.gap(PartNodes, "") != nil:
		return missing(c, PartNodes, "")
	case !known:
		return missing(c, PartPods, "")
	case len(owned) == 0:
		return found(info, labelNodes, "%s/%s is ready on %s, and none of the checked nodes is nadra's by its label", n.Namespace, n.DaemonSet, words.Count(int(n.Ready), "node"))
	}
	return fine("%s/%s is ready on %s, and on each checked node that is nadra's by its label (%d)", n.Namespace, n.DaemonSet, words.Count(int(n.Ready), "node"), len(owned))
}

const (
	ownLabel   = v1alpha1.OwnerLabel + "=" + v1alpha1.OwnerNadra
	labelNodes = "Label the nodes that nadra will serve: " + ownLabel + "."
)

// noneOwned reports whether nadra serves no node yet, because it serves labelled nodes and none has the label.
func (c *Capabilities) noneOwned() bool {
	return c.Installation().Labelled() && len(c.ownedNodes()) == 0 && !c.SomeNodes && c.gap(PartNodes, "") == nil
}

// ownedNodes returns the nodes that are nadra's by their label. Beside Multus, the label has no effect.
func (c *Capabilities) ownedNodes() []string {
	return c.nodesWith(func(owner string) bool { return owner == v1alpha1.OwnerNadra && !c.Beside() })
}

// nodesWith returns the nodes whose owner label has a suitable value, "" for none.
func (c *Capabilities) nodesWith(suits func(owner string) bool) []string {
	var out []string
	for _, n := range c.Nodes {
		if suits(n.Labels[v1alpha1.OwnerLabel]) {
			out = append(out, n.Name)
		}
	}
	return out
}

// nadraController checks that the controller runs, unless only the driver is installed.
func nadraController(c *Capabilities) result {
	n := c.Controller
	switch {
	case n == nil && c.gap(PartComponents, "") != nil: // both are Deployments
		return missing(c, PartComponents, "")
	case n == nil && c.Webhook != nil:
		return found(blocker, "Install it again, or delete the configuration: kubectl delete mutatingwebhookconfiguration "+c.Webhook.Configuration+".",
			"it is not installed, and the API server calls its webhook (%s)", c.Webhook.Configuration)
	case n == nil:
		return nothing // driver-only, or nothing is installed
	case n.Ready == 0:
		return found(blocker, fmt.Sprintf("Look at its pods, and scale it: kubectl -n %s get pods; kubectl -n %s scale deployment %s --replicas=2.", n.Namespace, n.Namespace, n.Deployment),
			"%s/%s has no ready replica of %d", n.Namespace, n.Deployment, n.Desired)
	case n.Ready < n.Desired:
		return found(warning, fmt.Sprintf("Look at its pods: kubectl -n %s get pods.", n.Namespace), "%s/%s has %d of %d replicas ready", n.Namespace, n.Deployment, n.Ready, n.Desired)
	}
	return fine("%s/%s has %s ready", n.Namespace, n.Deployment, words.Count(int(n.Ready), "replica"))
}

// nadraWebhook checks that the Service of the webhook has a ready endpoint, and that the API server has a certificate by
// which it can trust it.
func nadraWebhook(c *Capabilities) result {
	w := c.Webhook
	switch {
	case w == nil && c.Controller != nil:
		return found(blocker, "Apply the manifests again: "+apply(c)+".", "no MutatingWebhookConfiguration names its Service, so pods get no claims")
	case w == nil:
		return nothing
	case w.Ready == 0:
		return found(blocker, fmt.Sprintf("Look at the controller's pods: kubectl -n %s get pods,endpointslices.", w.Namespace),
			"%s names Service %s/%s, which has no ready endpoint: pods that name networks are refused", w.Configuration, w.Namespace, w.Service)
	case len(w.Untrusted) > 0:
		return found(blocker, fmt.Sprintf("Look at what writes the caBundle, nadra-certificates or cert-manager: kubectl -n %s get pods.", w.Namespace),
			"the API server does not trust webhooks without a caBundle: %s", list(w.Untrusted))
	}
	return fine("Service %s/%s has %s", w.Namespace, w.Service, words.Count(w.Ready, "ready endpoint"))
}

// nadraDevices reports how many devices the nodes offer, and the networks that no node offers.
func nadraDevices(c *Capabilities) result {
	p := c.Published
	switch {
	case p != nil && c.Nadra == nil && c.gap(PartMultus, "") != nil: // both are DaemonSets
		return missing(c, PartMultus, "")
	case p == nil, c.Nadra == nil && p.Slices == 0:
		return nothing
	}
	unoffered := p.Unoffered
	if p.Unoffered == nil && p.Devices == 0 { // a file of an older version
		for _, n := range c.Networks {
			unoffered = append(unoffered, n.String())
		}
	}
	status := warning
	if some := p.Devices > 0 && c.Installation().Labelled(); some && len(c.Multus) > 0 && (c.SomeNodes || len(c.ownedNodes()) < len(c.Nodes)) {
		status = info // Multus serves the other nodes
	}
	switch {
	case c.Nadra == nil || c.Nadra.Ready == 0:
	case len(unoffered) == 0 && c.gap(PartNetworks, "") != nil:
		return missing(c, PartNetworks, "")
	case len(unoffered) == 0:
	case c.noneOwned() && p.Devices == 0:
		return found(info, labelNodes, "no node offers a network yet, because none is nadra's by its label")
	default:
		return found(status, "Find the reason of each network: kubectl nadra get networks -A -o wide.",
			"%d of %s are offered by no node: %s", len(unoffered), words.Count(len(c.Networks), "network"), list(unoffered))
	}
	return fine("%s in %s", words.Count(p.Devices, "device"), words.Count(p.Slices, "ResourceSlice"))
}

// waitingPods reports the pods that wait for their networks, or for something else before they start.
func waitingPods(c *Capabilities) result {
	switch {
	case len(c.Waiting) == 0 && c.gap(PartClaims, "") != nil:
		return missing(c, PartClaims, "")
	case len(c.Waiting) == 0:
		return fine("no pod with networks waits")
	}
	namespace, name, _ := strings.Cut(c.Waiting[0], "/")
	return found(info, "Find what a pod waits for: kubectl nadra explain pod/"+name+" -n "+namespace+".", "%s: %s", words.Count(len(c.Waiting), "pod"), list(c.Waiting))
}

// componentAdvice returns what to do about a scheduler, a queue or an autoscaler, by its name.
func componentAdvice(name string) string {
	const test = "Start a pod that has a claim with it before you move workloads. A version without support for claims leaves such a pod pending: label the namespaces of such pods nadra.dev/claims=never."
	return cmp.Or(map[string]string{
		"cluster-autoscaler": "While a pod runs in one of its node groups whose claim has a device that nodes share by their profile, it neither adds nor removes nodes: label the namespaces of pods with networks there nadra.dev/claims=never and recreate these pods, and label the groups' templates nadra.dev/owner=nadra. " +
			"With --profiles=false it judges a node by its devices alone, and not by CPU and memory: protect nodes of nadra by the annotation cluster-autoscaler.kubernetes.io/scale-down-disabled=true.",
		"karpenter": "By default it adds no node for a pod that has a claim: label the namespaces of such pods nadra.dev/claims=never and the template of the NodePool nadra.dev/owner=nadra. With --ignore-dra-requests=false the template needs the label nadra.dev/profile, too.",
		"kueue":     "It does not admit a workload whose claims name a DeviceClass that is not in deviceClassMappings of its configuration. Map net.nadra.dev, which convert uses for workloads with a queue (NADRA-092), and restart Kueue.",
	}[name], test)
}
