package inspect

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

const notAllowed = "you may not read %s, so nothing is known"

// request lists the networks that the pod asks for.
func (s *subject) request() Step {
	var requests []string
	for _, w := range s.wish.wants {
		text := nameOf(w)
		if w.iface != "" {
			text += " as " + w.iface
		}
		switch {
		case w.unknown:
			text = fmt.Sprintf("claim %q, which may be for networks", w.entry.Name)
		case w.entry == nil:
			text += " by annotation"
		default:
			text += fmt.Sprintf(" by claim %q", w.entry.Name)
		}
		requests = append(requests, text)
	}
	detail := strings.Join(requests, "; ")
	switch {
	case s.wish.invalid != nil:
		return failed(s.wish.invalid.Error(), reason.OfManifest,
			"Correct what the message names. Neither Multus nor nadra's webhook reads it.")
	case !s.wish.asks():
		detail = "the pod has neither the annotation nor a claim for networks"
		if owner := metav1.GetControllerOf(s.in.Pod); owner != nil && owner.Kind != "Node" {
			detail += fmt.Sprintf("; its %s passes on the annotations of the pod template alone", owner.Kind)
		}
		return notUsed(detail + s.withoutDefaults())
	case s.pod.Spec.HostNetwork:
		entry, _ := reason.Lookup(reason.HostNetwork)
		step := failed(detail+"; but the pod uses the host's network, which gets no attachments", entry.Owner, entry.Remedy)
		step.Reason = reason.HostNetwork
		return step
	}
	return ok(detail + s.withDefaults())
}

// withDefaults returns which of the requests are default networks, for the detail of a step.
func (s *subject) withDefaults() string {
	recorded := s.pod.Annotations[v1alpha1.DefaultNetworksKey]
	if recorded == "" || recorded == v1alpha1.DefaultNetworksNone {
		return s.withoutDefaults()
	}
	return "; its first networks are default networks, which the webhook has added: " + strings.ReplaceAll(recorded, ",", ", ")
}

// withoutDefaults returns why the pod does not have the default networks that its namespace has by a
// label, for the detail of a step. The flag of the controller is not known here.
func (s *subject) withoutDefaults() string {
	label := ""
	if s.in.Namespace != nil {
		label = s.in.Namespace.Labels[v1alpha1.DefaultNetworksKey]
	}
	switch {
	case s.pod.Annotations[v1alpha1.DefaultNetworksKey] == v1alpha1.DefaultNetworksNone:
		return fmt.Sprintf("; its annotation %s=%s keeps default networks away", v1alpha1.DefaultNetworksKey, v1alpha1.DefaultNetworksNone)
	case label == "" || label == v1alpha1.DefaultNetworksNone || s.pod.Spec.HostNetwork:
		return ""
	}
	return fmt.Sprintf("; it does not have the default networks of its namespace (label %s=%s): the webhook adds them when it admits a pod that nadra serves, "+
		"but not to static pods, pods with claims by hand, launcher pods of KubeVirt, and pods that are older than the label", v1alpha1.DefaultNetworksKey, label)
}

// nameOf returns the network's name for a text.
func nameOf(w want) string {
	if w.network == nil {
		return "an unnamed network"
	}
	return w.network.String()
}

// network parses the definition of a network, if it is found.
func (s *subject) network(w want) (n attachment.Network, found bool, err error) {
	if w.network == nil || s.x.networks[*w.network] == nil {
		return n, false, nil
	}
	n, err = attachment.ParseNetwork(s.x.networks[*w.network])
	return n, true, err
}

// definition explains whether the NAD exists and can be read.
func (s *subject) definition(w want) Step {
	if w.request.Undecided {
		return notUsed("the allocation decides between networks, or whether there is one")
	}
	if w.network == nil {
		return notUsed("neither the request's DeviceClass nor a config of the claim names a network")
	}
	_, found, err := s.network(w)
	switch {
	case !found && s.x.unread[Networks]:
		return notUsed(fmt.Sprintf(notAllowed, Networks))
	case !found:
		step := failed(fmt.Sprintf("NetworkAttachmentDefinition %s does not exist", w.network), reason.OfManifest,
			"Correct the network's name or namespace, or create the NetworkAttachmentDefinition.")
		step.Reason = reason.NetworkNotFound
		return unlessAttached(w, step)
	case errors.Is(err, attachment.ErrNoConfig):
		return ok("exists; its configuration is a file on each node")
	case err != nil:
		return unlessAttached(w,
			failed(err.Error(), reason.OfNetwork, "Correct spec.config of the NetworkAttachmentDefinition. The nodes notice it at once."))
	}
	return ok("exists, and can be read")
}

// plugins lists the network's plugins.
func (s *subject) plugins(w want) Step {
	n, found, err := s.network(w)
	switch {
	case !found, err != nil && !errors.Is(err, attachment.ErrNoConfig):
		return notReached()
	case err != nil:
		return notUsed("they are in the nodes' files")
	}
	var texts []string
	for _, p := range n.Plugins {
		text := p.Type
		if p.Master != "" {
			text += " on " + p.Master
		}
		if p.Mode != "" {
			text += " (" + p.Mode + ")"
		}
		texts = append(texts, text)
	}
	return ok(strings.Join(texts, ", then "))
}

// ipam names the network's IPAM plugin and its ranges.
func (s *subject) ipam(w want) Step {
	n, found, err := s.network(w)
	switch {
	case errors.Is(err, attachment.ErrNoConfig):
		return notUsed("it is in the nodes' files")
	case !found, err != nil:
		return notReached()
	}
	for _, p := range n.Plugins {
		if p.IPAM.Type == "" {
			continue
		}
		text := p.IPAM.Type
		for _, r := range slices.Concat(p.IPAM.Sets...) {
			text += " " + r.Subnet
		}
		return ok(text)
	}
	return notUsed("the network gives no addresses")
}

// class explains whether the DeviceClass of the claim's request exists.
func (s *subject) class(w want) Step {
	name := w.request.Class
	switch {
	case w.entry == nil:
		return notUsed("")
	case name == "", s.in.NoDRA:
		return notReached()
	case s.x.unread[Classes]:
		return notUsed(fmt.Sprintf(notAllowed, Classes))
	case s.x.classes[name] != nil:
		return ok(name)
	case w.result != nil:
		return ok(name + " was deleted since; the claim is allocated already")
	}
	remedy := "Correct deviceClassName in the claim's template, or create the class."
	if _, nadras := attachment.ClassNetwork(name); nadras {
		remedy = "Apply the DeviceClass that `kubectl nadra convert` writes next to the workload, or correct deviceClassName in the template."
	}
	return failed(fmt.Sprintf("DeviceClass %s does not exist", name), reason.OfConversion, remedy)
}

// nodes lists the nodes that offer the network.
func (s *subject) nodes(w want) Step {
	switch {
	case w.network == nil:
		return notUsed("")
	case s.x.unread[Slices]:
		return notUsed(fmt.Sprintf(notAllowed, Slices))
	case s.in.NoDRA:
		return notReached()
	}
	nodes := s.offering(w)
	switch {
	case len(nodes) > 0:
		return ok("offered by " + some(nodes) + s.owned())
	case w.entry == nil && len(s.x.drivers) == 0:
		return notUsed("no node offers any network of nadra's")
	case w.result != nil:
		return ok("no node offers it any more; it was allocated before")
	case w.entry == nil:
		return notUsed("no node offers it")
	}
	return s.offeredByNone(w)
}

// offering returns the nodes with devices for a network.
func (s *subject) offering(w want) []string {
	n, _, _ := s.network(w) // without a pool if it cannot be read
	return s.x.offering(*w.network, n.ResourceName)
}

// offeredByNone explains why no node offers a network, as far as the API server knows.
func (s *subject) offeredByNone(w want) Step {
	n, found, err := s.network(w)
	if len(s.x.drivers) == 0 {
		return s.offersNothing(w)
	}
	if !found && !s.x.unread[Networks] || err != nil && !errors.Is(err, attachment.ErrNoConfig) {
		return notReached()
	}
	if n.ResourceName != "" {
		return failed("no node has a device of resource pool "+n.ResourceName+", which the network uses", reason.OfNode,
			"Events say what a node refuses: kubectl get events -A --field-selector reason="+reason.EventResourcePoolRefused+". "+
				"The driver withholds devices that a device plugin has given to pods until these pods end.")
	}
	if why := s.x.unavailable(*w.network, nil); why != "" {
		return explain(why, nil,
			advice{reason.OfPlugin, "Repair what the plugin names. The nodes then offer the network again within seconds."})
	}
	return failed(fmt.Sprintf("none of the nodes with nadra's driver (%s) offers it", some(slices.Sorted(maps.Keys(s.x.drivers)))),
		reason.OfNode, seeWhy(w))
}

// offersNothing explains why no node has any device of nadra.
func (s *subject) offersNothing(w want) Step {
	what := "no node has a ResourceSlice of " + v1alpha1.DriverName + ": "
	switch {
	case s.in.Drivers == nil:
		return failed(what+"nadra's driver does not run, no node is nadra's, or none can attach any network"+s.owned(),
			reason.OfCluster, seeDriver+" "+seeWhy(w))
	case len(s.in.Drivers) == 0:
		return failed(what+"nadra's driver is ready on no node"+s.owned(), reason.OfCluster, seeDriver)
	}
	what += "nadra's driver is ready on " + some(slices.Sorted(maps.Keys(s.in.Drivers)))
	if s.in.Installation != nil && s.in.Installation.Labelled() && len(s.ownedNodes()) == 0 && !s.x.unread[Nodes] {
		return failed(what+", and no node is nadra's by its label", reason.OfCluster,
			"Label the nodes that nadra serves: kubectl label node NODE "+ownLabel+".")
	}
	return failed(what+", and none of these nodes can attach any network"+s.owned(), reason.OfNode, seeWhy(w))
}

// ownLabel makes a node nadra's, where the driver serves labelled nodes only.
const ownLabel = v1alpha1.OwnerLabel + "=" + v1alpha1.OwnerNadra

// seeWhy returns how to find out why a node does not offer a network.
func seeWhy(w want) string {
	return fmt.Sprintf("Most often a plugin or a master interface of %s is missing: kubectl nadra doctor --probe names what each node lacks.", w.network)
}

// owned lists the nodes that are nadra's by their label.
func (s *subject) owned() string {
	names := s.ownedNodes()
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return "; nadra's nodes by label: " + some(names)
}
