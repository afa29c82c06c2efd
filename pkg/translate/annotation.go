package translate

import (
	"strings"
	"sync"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// annotationReader reads a pod's networks annotation.
type annotationReader struct {
	subject
	annotation spot
	keys       []elementKey
}

// readAnnotation reads the annotation of a pod. It reports a finding and returns nil if the
// annotation is invalid or names no network.
func readAnnotation(s subject, annotation spot) *request {
	value, path := annotation.str(), annotation.path
	r := annotationReader{subject: s, annotation: annotation}
	selections, err := attachment.ParseSelections(value, s.object.ref.Namespace)
	if reason.Of(err) == reason.LimitExceeded {
		s.addAt(LimitExceeded, annotation, "%s", bare(err, reason.LimitExceeded.Text("")))
		return nil
	}
	r.keys = elementKeys(value)
	if err != nil {
		if k, found := slashInName(r.keys); found {
			s.add(SlashInName, path, s.doc.within(annotation.node, k.at), "%s", bare(err, "networks: "))
		} else {
			s.add(BadAnnotation, path, s.doc.within(annotation.node, syntaxOffset(value)), "%s", bare(err, "networks: "))
		}
		return nil
	}
	if len(selections) == 0 {
		s.addAt(NoNetworks, annotation, "its value is %q", value)
		s.checkLeftOver(0)
		return nil
	}
	r.checkKeys(selections)
	return &request{
		subject: s, annotation: annotation, names: namesIn(r.keys), selections: selections, found: map[attachment.NetworkRef]*network{},
		hand: sync.OnceValue(func() []handClaim { return s.env.handClaims(s.pod) }),
	}
}

// checkKeys reports the keys that have no effect. The other keys are converted with the pod.
func (r annotationReader) checkKeys(selections []attachment.Selection) {
	path := r.annotation.path
	does := effects(r.keys, func(element int) []string { return selections[element].Unknown })
	stated := r.object.stated != "" || r.env.options.Namespace != ""
	for i, k := range r.keys {
		switch does[i] {
		case unknown:
			r.add(UnknownKey, path, r.doc.within(r.annotation.node, k.at), "networks[%d].%s is not a key of Multus or nadra", k.element, k.key)
		case overruled:
			r.add(KeyWithoutEffect, path, r.doc.within(r.annotation.node, k.at), "another key overrules networks[%d].%s", k.element, k.key)
		}
	}
	if !stated && len(namespaces(r.keys)) < len(selections) {
		r.add(NamespaceAssumed, r.object.path.Child("metadata", "namespace"), r.doc.at(r.object.node), "assumed %q", r.object.ref.Namespace)
	}
}

// namespaces returns the elements that state a namespace.
func namespaces(keys []elementKey) map[int]bool {
	out := map[int]bool{}
	for _, k := range keys {
		if strings.EqualFold(k.key, "namespace") {
			out[k.element] = true
		}
	}
	return out
}

// place returns the position at which the annotation names the network of a selection.
func (r *request) place(selection int) Position {
	at, found := r.names[selection]
	if !found {
		return r.doc.at(r.annotation.node)
	}
	return r.doc.within(r.annotation.node, at)
}

// namesIn returns the offset of the first name of each element.
func namesIn(keys []elementKey) map[int]int {
	out := map[int]int{}
	for _, k := range keys {
		if _, found := out[k.element]; !found && strings.EqualFold(k.key, "name") {
			out[k.element] = k.at
		}
	}
	return out
}
