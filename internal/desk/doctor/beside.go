package doctor

import (
	"slices"
	"strings"

	"github.com/nadra-dev/nadra/internal/words"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/translate"
)

const (
	annotation    = attachment.NetworksAnnotation
	ownAnnotation = attachment.OwnNetworksAnnotation
	leaveLabel    = v1alpha1.OwnerLabel + "=" + v1alpha1.OwnerMultus
)

// besideMultus checks that nadra's two programs agree on whether Multus stays on nadra's nodes.
func besideMultus(c *Capabilities) result {
	s := c.Installation()
	if s.Contradiction() {
		with, without := "nadra-node ("+s.Driver.String()+")", "nadra-controller ("+s.Controller.String()+")"
		if s.BesideMultus() {
			with, without = without, with
		}
		return found(blocker, "Give both --beside-multus (manifests/beside-multus, or mode: beside-multus of the chart), or neither.", "%s runs with --beside-multus, and %s without it", with, without)
	}
	switch {
	case !c.Beside():
		return nothing
	case s.Labelled():
		return found(blocker, "Remove --owned-nodes from nadra-node.", "nadra-node runs with --owned-nodes=labelled, and beside Multus no node changes hands")
	case len(c.Multus) == 0 && c.gap(PartMultus, "") == nil:
		return found(warning, "If Multus was removed, install nadra without --beside-multus (manifests/drop-in).", "no Multus was recognized, so pods that nadra does not serve would get no networks")
	}
	if labelled := c.nodesWith(func(owner string) bool { return owner != "" }); len(labelled) > 0 {
		return found(info, "Remove the label: kubectl label node NODE "+v1alpha1.OwnerLabel+"-", "label %s of nodes has no effect beside Multus: %s", v1alpha1.OwnerLabel, list(labelled))
	}
	return fine("Multus stays on the nodes; namespaces and workloads move, not nodes")
}

// annotationReaders names the programs that do not see the networks of nadra's pods beside Multus.
func annotationReaders(c *Capabilities) []aboutObject {
	if !c.Beside() {
		return nil
	}
	var out []aboutObject
	if g := c.gap(PartReaders, ""); g != nil {
		out = append(out, aboutObject{result: unread(g)})
	}
	for _, r := range c.Readers {
		if f := blindReader(c, r); !f.skip {
			out = append(out, aboutObject{refOf(r.Workload), f})
		}
	}
	if len(out) == 0 {
		out = append(out, aboutObject{result: fine("found no program besides Multus that reads the networks annotation")})
	}
	return out
}

// refOf reads an object's kind, namespace and name.
func refOf(text string) translate.ObjectRef {
	kind, name, _ := strings.Cut(text, " ")
	namespace, name, _ := strings.Cut(name, "/")
	return translate.ObjectRef{Kind: kind, Namespace: namespace, Name: name}
}

// blindReader describes what one program does not do for pods that nadra serves.
func blindReader(c *Capabilities, r translate.Reader) result {
	p, known := translate.Of(r.Program)
	image := ""
	if r.Image != "" {
		image = ", image " + r.Image
	}
	if !known {
		return found(info, "Find out whether it reads "+annotation+" of pods; if it does, leave the pods that need it to Multus: label "+leaveLabel+" on their namespace or pod template.",
			"an unknown program%s: its service account may read pods and NetworkAttachmentDefinitions, so it may read %s", image, annotation)
	}
	status, about := warning, ""
	switch p.Scope {
	case translate.Policies:
		if c.Policies == nil && c.gap(PartPolicies, "") == nil {
			status, about = info, "; the cluster has no MultiNetworkPolicy now"
		}
	case translate.Networks:
		users := usersOf(c, p.Plugins)
		if len(users) == 0 && c.gap(PartNetworks, "") == nil {
			return nothing
		}
		about = "; it concerns " + list(users)
	case translate.AllPods, translate.Edits, translate.Machines:
	}
	if p.Harmless {
		status = info
	}
	return found(status, p.Do, "%s%s reads %s, not %s: %s%s", p.Name, image, annotation, ownAnnotation, p.Lost, about)
}

// usersOf returns the networks that use one of some plugins, for interfaces or addresses.
func usersOf(c *Capabilities, plugins []string) []string {
	var out []string
	for _, n := range c.Networks {
		if slices.ContainsFunc(n.binaries(), func(b string) bool { return slices.Contains(plugins, b) }) {
			out = append(out, n.String())
		}
	}
	return out
}

// unseenBeside describes MultiNetworkPolicies beside Multus, where no pod of nadra has the annotation.
func unseenBeside(p *Policies) result {
	seen := words.Count(p.Count, "MultiNetworkPolicy")
	if len(p.Unseen) == 0 {
		return found(info, "Before a namespace moves, find the policies that select its pods or name them as peers.", "%s; no pod is served by nadra yet", seen)
	}
	return found(warning, "Leave the pods that a policy selects, or names as a peer, to Multus: label "+leaveLabel+" on their namespace or pod template.",
		"%s, which do not apply to %s of nadra: %s", seen, words.Count(len(p.Unseen), "pod"), list(p.Unseen))
}
