package translate

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"github.com/nadra-dev/nadra/internal/yamledit"
)

// podPatch is what a kustomization changes of some objects: by operations of JSON Patch, or by a strategic merge.
type podPatch struct {
	target patchTarget
	// exact is set if the target's name is no regular expression.
	exact bool
	paths []Path
	merge map[string]any
}

// patchTarget selects the objects of a patch. Each field is empty or a regular expression, but the last.
type patchTarget struct {
	Kind          string `json:"kind"`
	Name          string `json:"name"`
	Namespace     string `json:"namespace"`
	LabelSelector string `json:"labelSelector"`
}

// patchesIn returns what a patch changes. It returns none for a text that it cannot read.
func patchesIn(text string, target *patchTarget) (out []podPatch) {
	for _, part := range yamledit.Split([]byte(text)) {
		var operations []struct{ Op, Path, From string }
		var merge map[string]any
		switch {
		case yaml.Unmarshal(part.Text, &operations) == nil && target != nil:
			one := podPatch{target: *target}
			for _, o := range operations {
				path := pathOf(o.Path)
				if n := len(path); o.Op == "test" || o.Op == "remove" && n > 1 && (isContainers(path[n-2]) || isPlace(path[n-1])) {
					continue // without a container, the others keep their claims
				}
				one.paths = append(one.paths, path)
				if o.Op == "move" {
					one.paths = append(one.paths, pathOf(o.From))
				}
			}
			out = append(out, one)
		case yaml.Unmarshal(part.Text, &merge) == nil && merge != nil:
			one := podPatch{merge: merge}
			if target == nil {
				metadata, _ := merge["metadata"].(map[string]any)
				one.exact, target = true, &patchTarget{}
				target.Kind, _ = merge["kind"].(string)
				target.Name, _ = metadata["name"].(string)
				target.Namespace, _ = metadata["namespace"].(string)
				one.target, target = *target, nil
			} else {
				one.target = *target
			}
			out = append(out, one)
		}
	}
	return out
}

// pathOf returns the path of a JSON Pointer.
func pathOf(pointer string) (out Path) {
	for _, step := range strings.Split(pointer, "/")[1:] {
		out = append(out, strings.NewReplacer("~1", "/", "~0", "~").Replace(step))
	}
	return out
}

// isPlace reports whether a field decides whether a pod gets a claim at all.
func isPlace(step string) bool { return step == "nodeName" || step == "hostNetwork" }

func isContainers(step string) bool { return step == "containers" || step == "initContainers" }

// selects reports whether the patch may be for an object.
func (p podPatch) selects(o object) bool {
	is := func(pattern, value string) bool {
		match, err := regexp.MatchString("^(?:"+pattern+")$", value)
		return pattern == "" || err != nil || match
	}
	// The file may state another namespace than a kustomization sets, and patches go by both.
	own := o.get("metadata", "namespace").str()
	elsewhere := p.target.Namespace != "" && own != "" && !is(p.target.Namespace, own) && !is(p.target.Namespace, o.stated)
	if p.exact {
		return p.target.Kind == o.ref.Kind && p.target.Name == o.ref.Name && !elsewhere
	}
	return is(p.target.Kind, o.ref.Kind) && is(p.target.Name, o.ref.Name) && !elsewhere && p.target.mayLabel(o)
}

// mayLabel reports whether the labels of an object may match: kustomizations may add those that the object does not state.
func (t patchTarget) mayLabel(o object) bool {
	selector, err := labels.Parse(t.LabelSelector)
	var has labels.Set
	if n := get(o.node, "metadata", "labels"); err != nil || n == nil || n.Decode(&has) != nil {
		return true
	}
	requirements, _ := selector.Requirements()
	return !slices.ContainsFunc(requirements, func(r labels.Requirement) bool { return has.Has(r.Key()) && !r.Matches(has) })
}

// changes returns what of a pod the patch changes so that a conversion of the pod would not fit, or "".
func (p podPatch) changes(of pod) string {
	at := of.template.path[len(of.path):]
	annotations, spec := at.Child("metadata", "annotations"), at.Child("spec")
	for _, path := range p.paths {
		within := func(longer Path) bool { return len(path) <= len(longer) && slices.Equal(path, longer[:len(path)]) }
		if slices.ContainsFunc(networksKeys, func(key string) bool { return within(annotations.Child(key)) }) {
			return "its networks"
		}
		if within(spec) {
			return "its containers or their claims"
		}
		if len(path) <= len(spec) || !slices.Equal(path[:len(spec)], spec) {
			continue
		}
		switch rest := path[len(spec):]; {
		case isPlace(rest[0]):
			return "where it runs"
		case rest[0] == "resourceClaims", isContainers(rest[0]) && len(rest) < 3,
			isContainers(rest[0]) && rest[2] == "resources" && (len(rest) == 3 || rest[3] == "claims"):
			return "its containers or their claims"
		}
	}
	return p.merged(of, at)
}

// merged returns what of a pod a strategic merge changes. Without the schema of a kind, it replaces lists.
func (p podPatch) merged(of pod, at Path) string {
	template := p.merge
	if template["$patch"] == "delete" {
		return "" // there are no pods
	}
	for _, step := range at.Child("metadata", "annotations") {
		if value, found := template[step]; template["$patch"] != nil || found && value == nil {
			return "its networks"
		}
		template, _ = template[step].(map[string]any)
	}
	if slices.ContainsFunc(networksKeys, func(key string) bool { _, found := template[key]; return found || template["$patch"] != nil }) {
		return "its networks"
	}
	spec := p.merge
	for _, step := range at.Child("spec") {
		spec, _ = spec[step].(map[string]any)
	}
	for key := range maps.Keys(spec) {
		if isPlace(key) {
			return "where it runs"
		}
		if key == "$patch" || key == "resourceClaims" || isContainers(key) && p.replaces(spec[key], key, of) {
			return "its containers or their claims"
		}
	}
	return ""
}

// replaces reports whether a strategic merge of a list of containers adds a container, or removes claims of one.
func (podPatch) replaces(list any, key string, of pod) bool {
	merged, _ := list.([]any)
	return merged == nil || !slices.Contains([]string{"", "apps", "batch", "extensions"}, of.group) ||
		slices.ContainsFunc(merged, func(item any) bool {
			c, _ := item.(map[string]any)
			resources, found := c["resources"]
			fields, _ := resources.(map[string]any)
			name, _ := c["name"].(string)
			return c["$patch"] != "delete" && (c["$patch"] != nil || found && fields == nil || fields["$patch"] != nil || fields["claims"] != nil ||
				of.template.get("spec", key).named(name).node == nil)
		})
}

// checkPatched reports an object of whose pods a kustomization changes the networks, or what a conversion edits.
func (k kustomizations) checkPatched(r *reporter, pods []pod) {
	b := k.built[slashed(r.doc.file)]
	if b == nil || r.has(KustomizationAlters) {
		return
	}
	if k.clashing[slashed(r.doc.file)] {
		r.addAt(KustomizationAlters, r.object.spot, "its claim is that of another file, which not all of its kustomizations have: use %s", strings.Join(b.uses, ", or "))
		return
	}
	for line := range strings.Lines(b.patchers) {
		file := strings.TrimSuffix(line, "\n")
		for _, patch := range k.podPatches[file] {
			for _, p := range pods {
				if what := patch.changes(p); what != "" && patch.selects(r.object) {
					r.addAt(KustomizationAlters, r.object.spot, "%s changes %s: use %s", file, what, strings.Join(b.uses, ", or "))
					return
				}
			}
		}
	}
}
