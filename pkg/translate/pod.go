package translate

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

const (
	configSourceAnnotation = "kubernetes.io/config.source"
	configMirrorAnnotation = "kubernetes.io/config.mirror"
)

// planner decides about one pod or pod template. Its findings go to the
// reporter of the whole object.
type planner struct {
	*reporter
	pod    pod
	env    *environment
	ledger *ledger

	annotation *yaml.Node
	keys       []elementKey
	selections []attachment.Selection
	// found are the networks that were looked up.
	found map[attachment.NetworkRef]*network
}

// plan is what is to be done with one pod or pod template.
type plan struct {
	edits     []Edit
	templates []*resourceapi.ResourceClaimTemplate
	networks  []string
	features  []string
}

// plan applies all rules. Where a finding blocks, or there is nothing to
// attach, it has no edits.
func (p *planner) plan() plan {
	p.annotation = annotation(p.pod.template, attachment.NetworksAnnotation)
	if n := annotation(p.pod.template, attachment.DefaultNetworkAnnotation); n != nil {
		p.add(DefaultNetwork, p.annotationPath(attachment.DefaultNetworkAnnotation), p.doc.at(n), "it asks for %s in place of the default network", str(n))
	}
	if p.annotation == nil {
		return p.planClaimAlone()
	}
	if !p.readAnnotation() {
		return plan{}
	}
	out := plan{}
	for _, s := range p.selections {
		out.networks = append(out.networks, s.Network.String())
		out.features = append(out.features, featuresOf(s)...)
	}
	if p.claimed() {
		p.ledger.settleRest(Kept, "")
		return out
	}
	p.checkPod()
	p.checkHandClaims()
	p.checkNetworks()
	if p.checkResources() {
		out.features = append(out.features, featureResources)
	}
	if str(get(p.pod.template, "spec", "hostNetwork")) == "true" {
		p.ledger.settleRest(Kept, HostNetwork)
		return out
	}
	templates, err := templatesFor(p.selections, p.deviceless(), p.object.ref.Namespace)
	if err != nil {
		p.add(Contradiction, p.annotationPath(attachment.NetworksAnnotation), p.doc.at(p.annotation), "%v", err)
		return out
	}
	if len(templates) > 1 {
		p.add(SeveralClaims, p.annotationPath(attachment.NetworksAnnotation), p.doc.at(p.annotation),
			"%d networks need %d claims", len(p.selections), len(templates))
	}
	out.templates = templates
	out.edits = p.edits(templates)
	return out
}

// network looks a network up, once.
func (p *planner) network(ref attachment.NetworkRef) (network, bool) {
	n, known := p.found[ref]
	if !known {
		if got, found := p.env.network(ref); found {
			n = &got
		}
		if p.found == nil {
			p.found = map[attachment.NetworkRef]*network{}
		}
		p.found[ref] = n
	}
	if n == nil {
		return network{}, false
	}
	return *n, true
}

func (p *planner) edits(templates []*resourceapi.ResourceClaimTemplate) []Edit {
	var names []string
	for _, t := range templates {
		names = append(names, t.Name)
		p.env.checkTemplate(p, t)
	}
	p.checkLeftOver(len(names))
	edits, earlier := p.referTo(names)
	edits = slices.Concat(edits, p.podInfoEdits(), p.nodeSelectorEdits())
	if _, blocked := p.blocker(); blocked {
		return nil
	}
	switch {
	case len(earlier) == 0:
		edits = append(p.resourceEdits(), edits...)
	case !slices.Equal(earlier, names):
		p.checkMatchedBefore(earlier)
	}
	if p.env.options.DropAnnotation && !p.keepsAnnotation() {
		edits = append(edits, p.dropAnnotation())
	}
	for _, e := range edits {
		if !p.doc.editable(e.Path) {
			p.add(SharedByAnchor, e.Path, p.doc.at(p.annotation), "it cannot be changed here alone")
			return nil
		}
	}
	return edits
}

// dropAnnotation takes the annotation away, and with it the mapping that has no
// other.
func (p *planner) dropAnnotation() Edit {
	path := p.annotationPath(attachment.NetworksAnnotation)
	if len(get(p.pod.template, "metadata", "annotations").Content) == 2 {
		path = path[:len(path)-1]
		if len(get(p.pod.template, "metadata").Content) == 2 {
			path = path[:len(path)-1]
		}
	}
	return Edit{Op: Remove, Path: path}
}

func (p *planner) annotationPath(name string) Path {
	return p.pod.at.Child("metadata", "annotations", name)
}

// readAnnotation parses the annotation and opens an account for all that is in
// it.
func (p *planner) readAnnotation() bool {
	value := str(p.annotation)
	path := p.annotationPath(attachment.NetworksAnnotation)
	keys := elementKeys(value)
	selections, err := attachment.ParseSelections(value, p.object.ref.Namespace)
	p.openKeys(keys)
	if err != nil {
		if len(keys) == 0 {
			p.ledger.open(p.accountOf("networks"))
		}
		if k, found := slashInName(keys); found {
			p.add(SlashInName, path, p.doc.within(p.annotation, k.at), "%s", bare(err, "networks: "))
		} else {
			p.add(BadAnnotation, path, p.doc.within(p.annotation, syntaxOffset(value)), "%s", bare(err, "networks: "))
		}
		return false
	}
	if len(selections) == 0 {
		p.add(NoNetworks, path, p.doc.at(p.annotation), "its value is %q", value)
		p.checkLeftOver(0)
		return false
	}
	p.selections, p.keys = selections, keys
	p.settleKeys(keys)
	return true
}

func (p *planner) openKeys(keys []elementKey) {
	for i := range keys {
		p.ledger.open(p.keyAccount(keys, i))
	}
}

// keyAccount names a key's account. Those of a key that is given twice differ.
func (p *planner) keyAccount(keys []elementKey, i int) string {
	field := keys[i].field()
	for _, earlier := range keys[:i] {
		if earlier.field() == keys[i].field() {
			field += "'"
		}
	}
	return p.accountOf(field)
}

// place is where the annotation names the network of a selection.
func (p *planner) place(selection int) Position {
	for _, k := range p.keys {
		if k.element == selection && strings.EqualFold(k.key, "name") {
			return p.doc.within(p.annotation, k.at)
		}
	}
	return p.doc.at(p.annotation)
}

// accountOf tells the templates of one object apart.
func (p *planner) accountOf(field string) string {
	return strings.TrimPrefix(p.pod.at[len(p.object.path):].String()+": "+field, ": ")
}

// settleKeys reports the keys that say nothing. The others are converted, if
// the pod is.
func (p *planner) settleKeys(keys []elementKey) {
	path := p.annotationPath(attachment.NetworksAnnotation)
	does := effects(keys, func(element int) []string { return p.selections[element].Unknown })
	stated := p.object.stated != "" || p.env.options.Namespace != ""
	for i, k := range keys {
		switch does[i] {
		case unknown:
			p.add(UnknownKey, path, p.doc.within(p.annotation, k.at), "networks[%d].%s means nothing to Multus or nadra", k.element, k.key)
			p.ledger.settle(p.keyAccount(keys, i), Reported, UnknownKey)
		case overruled:
			p.add(KeyWithoutEffect, path, p.doc.within(p.annotation, k.at), "networks[%d].%s is overruled by another key", k.element, k.key)
			p.ledger.settle(p.keyAccount(keys, i), Reported, KeyWithoutEffect)
		}
	}
	if !stated && len(namespaces(keys)) < len(p.selections) {
		p.add(NamespaceAssumed, p.object.path.Child("metadata", "namespace"), p.doc.at(p.object.node), "taken to be %q", p.object.ref.Namespace)
	}
}

// namespaces are the elements that state one.
func namespaces(keys []elementKey) map[int]bool {
	out := map[int]bool{}
	for _, k := range keys {
		if strings.EqualFold(k.key, "namespace") {
			out[k.element] = true
		}
	}
	return out
}
