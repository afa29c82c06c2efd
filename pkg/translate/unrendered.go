package translate

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/nadra-dev/nadra/internal/yamledit"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// The kinds of things in the input that are not manifests themselves.
const (
	unitChart    = "Chart"
	unitTemplate = "Template"
	unitValues   = "Values"
	unitPatch    = "Patch"
	unitDocument = "Document"
)

// UnrenderedUnit names something of the input that stands for manifests which are not in the input, such as a
// chart or an operator's object. Its pods can be judged when the manifests are in the input.
type UnrenderedUnit struct {
	// Object has the kind Chart, Template, Values, Patch or Document and the name of a file or folder, or is an
	// object of which a controller makes others.
	Object   ObjectRef `json:"object"`
	Position Position  `json:"position"`
	// Mentions is set if its text mentions networks.
	Mentions bool `json:"mentionsNetworks"`
}

const renderChart = "render its chart with its values (helm template), or scan the namespace to which it is deployed"

// deployers are the kinds of objects that make controllers render manifests, with how to judge these.
var deployers = map[GroupKind]string{
	{"helm.toolkit.fluxcd.io", "HelmRelease"}: renderChart,
	{"helm.cattle.io", "HelmChart"}:           renderChart,
	{"helm.cattle.io", "HelmChartConfig"}:     renderChart,
	{"argoproj.io", "Application"}:            "scan what it deploys (argocd app manifests, or the namespace of the cluster)",
	{"argoproj.io", "ApplicationSet"}:         "scan what its applications deploy (argocd app manifests, or the namespaces of the cluster)",
	{fluxGroup, "Kustomization"}:              "scan what it builds (flux build kustomization, or the namespace to which it is deployed)",
	{"template.openshift.io", "Template"}:     "process it, and scan what it becomes (oc process -f FILE | kubectl nadra scan -f -)",
}

// units finds what is not rendered among the files of the input.
type units struct {
	charts []string
	kustomizations
}

func newUnits(files []File, beside []File) units {
	var u units
	for _, f := range files {
		if name := slashed(f.Name); path.Base(name) == "Chart.yaml" {
			u.charts = append(u.charts, path.Dir(name))
		}
	}
	slices.Sort(u.charts) // a chart sorts before the charts inside of it
	u.kustomizations = newKustomizations(slices.Concat(beside, files), deploymentsIn(files))
	return u
}

// ofChart matches the files of a chart that its templates use or that Helm installs, relative to its folder.
// Others may be there, too: helm template does not render them.
var ofChart = regexp.MustCompile(`^(Chart|requirements|values[^/]*)\.(yaml|yml|json)$|^(templates|charts|crds)/`)

// ofFile returns the unit to which a file belongs as a whole. It is a chart, or a patch of a kustomization.
func (u units) ofFile(file string) (ObjectRef, bool) {
	file = slashed(file)
	for _, chart := range u.charts {
		if rel, inside := below(chart, file); inside && ofChart.MatchString(rel) {
			return ObjectRef{Kind: unitChart, Name: chart}, true
		}
	}
	if _, patch := u.patches[file]; patch {
		return ObjectRef{Kind: unitPatch, Name: file}, true
	}
	return ObjectRef{}, false
}

// below returns a file's path relative to a folder, if the folder has it.
func below(folder, file string) (rel string, found bool) {
	if folder == "." {
		return file, true
	}
	return strings.CutPrefix(file, folder+"/")
}

// ofText returns the unit of a document that is not YAML, if it is a template.
func ofText(file string, text []byte) (ObjectRef, bool) {
	return ObjectRef{Kind: unitTemplate, Name: slashed(file)}, bytes.Contains(text, []byte("{{"))
}

// ofObject returns the unit of an object that stands for other manifests, has no kind, or has the text of
// a template where the rules read it.
func ofObject(o object) (ObjectRef, bool) {
	switch {
	case o.ref.Kind == "":
		return ObjectRef{Kind: unitValues, Name: slashed(o.doc.file)}, true
	case deployers[GroupKind{o.group, o.ref.Kind}] != "":
		return o.ref, true
	case isTemplated(o):
		return ObjectRef{Kind: unitTemplate, Name: slashed(o.doc.file)}, true
	}
	return ObjectRef{}, false
}

// isTemplated reports whether an object's name, namespace or networks are text of a template, or a placeholder such
// as ${NET}. A network may have placeholders where its configuration is JSON with them.
func isTemplated(o object) bool {
	if !bytes.Contains(o.doc.Text, []byte("{{")) && !bytes.Contains(o.doc.Text, []byte("${")) {
		return false
	}
	is := func(s spot) bool { // without quotes, {{ x }} is a mapping whose key is a mapping
		return strings.Contains(s.str(), "{{") || strings.Contains(s.str(), "${") || isMapping(s.node) && len(s.node.Content) > 0 && isMapping(s.node.Content[0])
	}
	found := is(o.get("metadata", "name")) || is(o.get("metadata", "namespace"))
	if isNetwork(o) {
		config := o.get("spec", "config")
		substituted := !strings.Contains(config.str(), "{{") && json.Valid([]byte(config.str()))
		return found || is(config) && !substituted || is(o.annotation(attachment.ResourceNameAnnotation))
	}
	eachAnnotation(o, func(_, value *yaml.Node, _ Path) { found = found || is(spot{node: value}) })
	return found || is(o.annotation(attachment.DefaultNetworkAnnotation))
}

// isUnfilled reports whether the annotation of one of an object's pods has no value, as ytt leaves it to be filled in, or
// is no text, which the API server refuses.
func isUnfilled(o object, more []TemplatePath) bool {
	pods, _ := podsOf(o, more)
	return slices.ContainsFunc(pods, func(p pod) bool {
		n := p.networks().node
		return n != nil && (n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null")
	})
}

// separator and dot match the slash and the dots in the name of an annotation: as they are, in a path of JSON Patch, in
// JSON, and in a key of Helm's values.
const separator, dot = `(\\*/|~1|\\+u002[fF])`, `\\*\.`

// mentions finds texts about networks: annotations, NetworkAttachmentDefinitions, objects of which operators make
// networks, and the fields in which objects of operators and KubeVirt's virtual machines name networks.
var mentions = regexp.MustCompile(strings.Join([]string{
	annotationPattern(attachment.NetworksAnnotation), annotationPattern(attachment.OwnNetworksAnnotation),
	annotationPattern(attachment.DefaultNetworkAnnotation), nadKind,
	`\b(kind|fileName)["']?\s*:\s*["']?(` + strings.Join(append(operatorKindNames(), otherNetworkKinds...), "|") + `)\b`,
	`\b(\w*[nN]etworkAttachments?|additionalNetworks|networkAttachmentDefinitions?|networkAttachmentName|nicMappings)["']?\s*:`,
	`\b(storage-?[nN]etwork|controller_transfer_network)["']?[ \t]*:[ \t]*["']?\w`,
	`\bcni\.spidernet\.io/(rdma|network)-resource-inject\b`,
	`\bprovider["']?\s*:\s*["']?multus\b`,
	`\bmultus["']?\s*:\s*\{?\s*["']?(networkName|default)\b`,
}, "|"))

// MentionsNetworks reports whether a text mentions networks, whatever its form is.
func MentionsNetworks(text []byte) bool { return mentions.Match(text) }

// otherNetworkKinds are kinds of which controllers make networks whose names, or namespaces, are not known from one object,
// or pods with networks.
var otherNetworkKinds = []string{"ClusterUserDefinedNetwork", "MultiNicNetwork", "SpiderMultusConfig", "UserDefinedNetwork", "VpcNatGateway"}

// annotationPattern returns the pattern of an annotation's name, which must not be the beginning of another one.
func annotationPattern(name string) string {
	return strings.NewReplacer("/", separator, `\.`, dot).Replace(regexp.QuoteMeta(name)) + `($|[^-\w])`
}

// networkFields are the fields by which objects of operators name networks that the pods of these operators get,
// apart from those whose names alone tell it.
var networkFields = map[GroupKind]Path{
	{"kubevirt.io", "KubeVirt"}:           {"spec", "configuration", "migrations", "network"},
	{"hco.kubevirt.io", "HyperConverged"}: {"spec", "liveMigrationConfig", "network"},
	{"forklift.konveyor.io", "Plan"}:      {"spec", "transferNetwork"},
	{"longhorn.io", "Setting"}:            {"value"}, // if it is one of the settings whose names end in -network
	{"harvesterhci.io", "Setting"}:        {"value"},
}

// nameless are the kinds of objects that have the names of kinds, fields and annotations, and not of networks.
var nameless = []string{"CustomResourceDefinition", "MutatingWebhookConfiguration", "ValidatingAdmissionPolicy", "ValidatingWebhookConfiguration"}

// mention returns the node of an object that mentions networks, or nil. judged has the nodes that do not count, or nil.
func mention(o object, judged map[*yaml.Node]bool) *yaml.Node {
	if slices.Contains(nameless, o.ref.Kind) {
		return nil
	}
	if path := networkFields[GroupKind{o.group, o.ref.Kind}]; path != nil && (o.ref.Kind != "Setting" || strings.HasSuffix(o.ref.Name, "-network")) {
		if n := get(o.node, path...); !yamledit.IsEmpty(n) {
			return n
		}
	}
	var mapped *yaml.Node
	if o.group == "forklift.konveyor.io" && o.ref.Kind == "NetworkMap" {
		expand(o.node, nil, Path{"spec", "map", "*", "destination"}, func(n *yaml.Node, _ Path) {
			if str(get(n, "type")) == "multus" {
				mapped = n
			}
		})
	}
	return cmp.Or(mapped, mentionIn(o.node, judged))
}

// repeating are the fields of workloads that repeat what others say, or read it.
var repeating = []string{"kubectl.kubernetes.io/last-applied-configuration", "managedFields", "fieldPath"}

// mentionIn returns the first node below a node that mentions networks, or nil. judged has the nodes that do not count, nil
// if all do.
func mentionIn(n *yaml.Node, judged map[*yaml.Node]bool) *yaml.Node {
	if n.Kind == yaml.ScalarNode && mentions.MatchString(n.Value) {
		return n
	}
	if n.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			switch {
			case judged[yamledit.Resolved(value)], judged != nil && slices.Contains(repeating, key.Value):
				continue
			case mentions.MatchString(str(value)):
				return value
			case !yamledit.IsEmpty(value) && mentions.MatchString(key.Value+": "+head(value, judged)):
				return key
			}
			for _, child := range n.Content[i : i+2] {
				if found := mentionIn(child, judged); found != nil {
					return found
				}
			}
		}
		return nil
	}
	for _, child := range n.Content {
		if judged[child] {
			continue
		}
		if found := mentionIn(child, judged); found != nil {
			return found
		}
	}
	return nil
}

// head returns the text of a scalar, or the first key of a mapping unless its value is judged.
func head(n *yaml.Node, judged map[*yaml.Node]bool) string {
	if isMapping(n) && len(n.Content) > 1 && !judged[yamledit.Resolved(n.Content[1])] {
		n = n.Content[0]
	}
	return str(n)
}

// unrender records a text of a unit. line is the number of lines of the file before the text.
func (out *fileResult) unrender(unit ObjectRef, file string, text []byte, line int) {
	one := UnrenderedUnit{Object: unit, Position: Position{File: file, Line: line + 1, Column: 1}}
	if at := mentions.FindIndex(text); at != nil {
		one.Mentions = true
		one.Position.Line = line + 1 + bytes.Count(text[:at[0]], []byte("\n"))
	}
	out.unrendered = append(out.unrendered, one)
}

// unrenderObject records a unit that is an object: a GitOps controller deploys what it names and the input
// does not have, or it mentions networks for pods that are not in the input. judged has the nodes that do not count, or nil.
func (out *fileResult) unrenderObject(unit ObjectRef, o object, u units, judged map[*yaml.Node]bool) {
	unit.Namespace = o.stated // the kind may have none
	one := UnrenderedUnit{Object: unit, Position: o.doc.at(o.node)}
	if n := mention(o, judged); n != nil {
		one.Mentions = true
		one.Position = o.doc.at(n)
		if at := mentions.FindStringIndex(n.Value); at != nil {
			one.Position = o.doc.within(n, at[0])
		}
	} else if deployers[GroupKind{o.group, o.ref.Kind}] == "" || u.deployed[(deployment{by: o.ref.String(), file: slashed(o.doc.file)}).key()] {
		return
	}
	out.unrendered = append(out.unrendered, one)
}

// unrenderList records what a list has besides objects.
func (out *fileResult) unrenderList(d *document, u units) {
	if !strings.HasSuffix(str(get(d.Root, "kind")), "List") || get(d.Root, "items") == nil {
		return
	}
	judged := map[*yaml.Node]bool{get(d.Root, "kind"): true}
	for _, item := range items(get(d.Root, "items")) {
		if item = yamledit.Resolved(item); isMapping(item) {
			judged[item] = true
		}
	}
	o := objectAt(d, d.Root, nil, ObjectRef{}, "")
	if o.ref.Name == "" {
		o.ref = ObjectRef{Kind: unitDocument, Name: slashed(d.file)}
	}
	out.unrenderObject(o.ref, o, u, judged)
}

// addUnrendered adds the units of all files, each once, with a finding and a verdict for those that
// mention networks.
func (r *Result) addUnrendered(all []UnrenderedUnit, u units) {
	// Several objects may have one name. A file is one unit, whatever its documents are.
	type place struct{ object, at string }
	places := map[place]int{}
	for _, one := range all {
		at := place{object: one.Object.Name}
		if one.Object.APIVersion != "" {
			at = place{one.Object.String(), one.Position.String()}
		}
		i, seen := places[at]
		switch {
		case !seen:
			places[at] = len(r.Unrendered)
			r.Unrendered = append(r.Unrendered, one)
		case one.Mentions && !r.Unrendered[i].Mentions:
			r.Unrendered[i] = one
		}
	}
	for _, one := range r.Unrendered {
		if !one.Mentions {
			continue
		}
		code := NotYAML
		broken := func(f Finding) bool { return f.Code == NotYAML && f.Object == one.Object && f.Position == one.Position }
		if !slices.ContainsFunc(r.Findings, broken) {
			code = Unrendered
			r.Findings = append(r.Findings, Finding{
				Code: code, Severity: severityOf(code), Object: one.Object, Position: one.Position,
				Message: "it mentions networks here: " + u.way(one.Object),
			})
		}
		r.Workloads = append(r.Workloads, Verdict{
			Object: one.Object, Position: one.Position, Readiness: NotJudged, Codes: []Code{code},
		})
	}
}

// way returns what to do so that the pods of a unit can be judged.
func (u units) way(unit ObjectRef) string {
	switch unit.Kind {
	case unitChart:
		return fmt.Sprintf("helm template %s | kubectl nadra scan -f -", unit.Name)
	case unitValues:
		return fmt.Sprintf("if it has values of a chart, helm template CHART -f %s | kubectl nadra scan -f -", unit.Name)
	case unitPatch:
		return u.scan(u.patches[unit.Name])
	case unitTemplate:
		return "render it, and scan what it becomes (kubectl nadra scan -f -)"
	case unitDocument:
		return "it is a list and no object: scan what is made of it (kubectl nadra scan -n NAMESPACE), or give each object as a document"
	}
	if way := deployers[GroupKind{groupOf(unit.APIVersion), unit.Kind}]; way != "" {
		return way
	}
	if unit.APIVersion == "" {
		return u.scan(path.Dir(unit.Name))
	}
	return "scan what is made of it in the cluster (kubectl nadra scan -n NAMESPACE)"
}

// scan returns the command that scans what a kustomization builds: of a component, the kustomizations that include it.
func (u units) scan(folder string) string {
	use := "-k " + folder
	if one := u.byFolder[folder]; one != nil && one.component {
		use = cmp.Or(strings.Join(u.uses[folder], ", or "), "-k with a kustomization that includes it")
	}
	return "kubectl nadra scan " + use
}
