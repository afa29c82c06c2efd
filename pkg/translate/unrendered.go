package translate

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// The kinds of things in the input that are not manifests themselves.
const (
	unitChart    = "Chart"
	unitTemplate = "Template"
	unitValues   = "Values"
	unitPatch    = "Patch"
)

// UnrenderedUnit names something of the input that stands for manifests which are not in the input, such as a
// chart. Its pods can be judged when it is rendered.
type UnrenderedUnit struct {
	// Object has the kind Chart, Template, Values or Patch and the name of a file or folder, or is an object
	// of a GitOps controller.
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
}

// units finds what is not rendered among the files of the input.
type units struct {
	charts []string
	kustomizations
}

func newUnits(files []File, k kustomizations) units {
	u := units{kustomizations: k}
	for _, f := range files {
		if name := slashed(f.Name); path.Base(name) == "Chart.yaml" {
			u.charts = append(u.charts, path.Dir(name))
		}
	}
	slices.Sort(u.charts) // a chart sorts before the charts inside of it
	return u
}

// ofFile returns the unit to which a file belongs as a whole. It is a chart, or a patch of a kustomization.
func (u units) ofFile(file string) (ObjectRef, bool) {
	file = slashed(file)
	for _, chart := range u.charts {
		if chart == "." || strings.HasPrefix(file, chart+"/") {
			return ObjectRef{Kind: unitChart, Name: chart}, true
		}
	}
	if _, patch := u.patches[file]; patch {
		return ObjectRef{Kind: unitPatch, Name: file}, true
	}
	return ObjectRef{}, false
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

// isTemplated reports whether an object's name, namespace or networks are text of a template.
func isTemplated(o object) bool {
	if !bytes.Contains(o.doc.Text, []byte("{{")) {
		return false
	}
	is := func(n *yaml.Node) bool { return strings.Contains(str(n), "{{") }
	found := is(get(o.node, "metadata", "name")) || is(get(o.node, "metadata", "namespace"))
	if isNetwork(o) {
		return found || is(get(o.node, "spec", "config")) || is(annotation(o.node, attachment.ResourceNameAnnotation))
	}
	eachAnnotation(o, func(_, value *yaml.Node, _ Path) { found = found || is(value) })
	return found
}

// mentions finds texts about networks.
var mentions = regexp.MustCompile(strings.Join([]string{
	regexp.QuoteMeta(attachment.NetworksAnnotation), regexp.QuoteMeta(attachment.OwnNetworksAnnotation), nadKind,
	`\bkind["']?\s*:\s*["']?(` + strings.Join(operatorKindNames(), "|") + `)\b`,
}, "|"))

// unrender records a text of a unit. line is the number of lines of the file before the text.
func (out *fileResult) unrender(unit ObjectRef, file string, text []byte, line int) {
	one := UnrenderedUnit{Object: unit, Position: Position{File: file, Line: line + 1, Column: 1}}
	if at := mentions.FindIndex(text); at != nil {
		one.Mentions = true
		one.Position.Line = line + 1 + bytes.Count(text[:at[0]], []byte("\n"))
	}
	out.unrendered = append(out.unrendered, one)
}

// addUnrendered adds the units of all files, each once, with a finding and a verdict for those that
// mention networks.
func (r *Result) addUnrendered(all []UnrenderedUnit, u units) {
	places := map[ObjectRef]int{}
	for _, one := range all {
		i, seen := places[one.Object]
		switch {
		case !seen:
			places[one.Object] = len(r.Unrendered)
			r.Unrendered = append(r.Unrendered, one)
		case one.Mentions && !r.Unrendered[i].Mentions:
			r.Unrendered[i] = one
		}
	}
	for _, one := range r.Unrendered {
		if !one.Mentions {
			continue
		}
		f := Finding{
			Code: Unrendered, Severity: severityOf(Unrendered), Object: one.Object, Position: one.Position,
			Message: "it mentions networks here: " + u.way(one.Object),
		}
		r.Findings = append(r.Findings, f)
		r.Workloads = append(r.Workloads, Verdict{
			Object: one.Object, Position: one.Position, Readiness: NotJudged, Codes: []Code{Unrendered},
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
		return fmt.Sprintf("kubectl nadra scan -k %s", u.patches[unit.Name])
	case unitTemplate:
		return "render it, and scan what it becomes (kubectl nadra scan -f -)"
	}
	return deployers[GroupKind{groupOf(unit.APIVersion), unit.Kind}]
}
