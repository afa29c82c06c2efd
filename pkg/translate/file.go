package translate

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/nadra-dev/nadra/internal/yamledit"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// fileResult is the result for one file. It has no nodes, because the nodes of a large input would
// not fit into memory.
type fileResult struct {
	data      []byte
	kinds     map[string]int
	findings  []Finding
	workloads []Verdict
	templates []neededTemplate
	// unrendered has what must be rendered first, once for each document.
	unrendered []UnrenderedUnit
}

type neededTemplate struct {
	object *resourceapi.ResourceClaimTemplate
	// unstated is set if the workload states no namespace.
	unstated bool
}

// work is the conversion of one object.
type work struct {
	object    object
	reporter  *reporter
	edits     []Edit
	templates []*resourceapi.ResourceClaimTemplate
	networks  []string
	features  []string
	// attaches is set if one of the object's pods gets a network.
	attaches bool
	// judged has the values of the object that findings and verdict are about.
	judged map[*yaml.Node]bool
}

// convertFile converts a file, document by document. It only reads the environment.
func convertFile(f File, env *environment) fileResult {
	out := fileResult{kinds: map[string]int{}}
	if unit, unrendered := env.units.ofFile(f.Name); unrendered {
		out.data = f.Data
		out.unrender(unit, f.Name, f.Data, 0)
		return out
	}
	changed := false
	for _, part := range yamledit.Split(f.Data) {
		text := out.document(f.Name, part, env)
		changed = changed || text != nil
		if text == nil {
			text = part.Text
		}
		out.data = append(out.data, text...)
	}
	if !changed {
		out.data = f.Data
	}
	return out
}

// document converts a document. It returns its new text, nil if nothing changes.
func (out *fileResult) document(file string, part yamledit.Part, env *environment) []byte {
	d, err := parseDocument(file, part)
	if err != nil {
		if unit, template := ofText(file, part.Text); template {
			out.unrender(unit, file, part.Text, part.Line)
			return nil
		}
		broken := notYAML(file, part, err)
		if !mentions.Match(part.Text) {
			broken.Severity = Info // such as settings of an editor
		}
		out.findings = append(out.findings, broken)
		if at := mentions.FindIndex(part.Text); at != nil {
			out.unrendered = append(out.unrendered, UnrenderedUnit{Object: broken.Object, Position: broken.Position, Mentions: true})
		}
		return nil
	}
	if !yamledit.IsEmpty(d.Root) && !isMapping(d.Root) {
		out.unrender(ObjectRef{Kind: unitDocument, Name: slashed(file)}, file, part.Text, part.Line)
		return nil
	}
	var all []*work
	out.unrenderList(d, env.units)
	for _, o := range env.objects(d) {
		if IsKustomization(file) && o.ref.Kind == "" {
			o.ref.Kind = "Kustomization" // it may leave its kind out
		}
		unit, unrendered := ofObject(o)
		switch {
		case unrendered && unit.APIVersion == "":
			out.unrender(unit, file, part.Text, part.Line)
			continue
		case unrendered:
			out.unrenderObject(unit, o, env.units, nil)
			continue
		case isUnfilled(o, env.options.Templates):
			out.unrender(ObjectRef{Kind: unitTemplate, Name: slashed(file)}, file, part.Text, part.Line)
			continue
		}
		out.kinds[o.ref.Kind]++
		if IsKustomization(file) {
			out.unrenderObject(ObjectRef{Kind: o.ref.Kind, Name: slashed(file)}, o, env.units, nil)
			continue
		}
		r := &reporter{doc: d, object: o}
		env.checkQuota(o, r)
		w := &work{object: o, reporter: r, judged: map[*yaml.Node]bool{}}
		if w.planPods(env) {
			all = append(all, w)
			if !r.has(StrayAnnotation) && !r.has(OwnedWorkload) && !r.has(NotEditable) {
				out.unrenderObject(o.ref, o, env.units, w.judged)
			}
		} else {
			out.findings = append(out.findings, r.findings...)
			if !isNetwork(o) && !makesNetwork(o) {
				out.unrenderObject(o.ref, o, env.units, nil)
			}
		}
	}
	text := splice(d, all)
	for _, w := range all {
		out.add(w)
	}
	return text
}

// yamlLine finds the line in an error of the YAML parser.
var yamlLine = regexp.MustCompile(`^yaml: line (\d+): `)

// notYAML returns the finding about a document that cannot be parsed. The parser counts lines from the
// beginning of the document.
func notYAML(file string, part yamledit.Part, err error) Finding {
	line, message := 1, err.Error()
	if match := yamlLine.FindStringSubmatch(message); match != nil {
		line, _ = strconv.Atoi(match[1])
		message = strings.TrimPrefix(message, match[0])
	}
	return Finding{
		Code: NotYAML, Severity: severityOf(NotYAML), Object: ObjectRef{Kind: "Document", Name: file},
		Position: Position{File: file, Line: part.Line + line, Column: 1}, Message: message,
	}
}

// planPods plans the pods of an object. It reports whether the object uses networks.
func (w *work) planPods(env *environment) bool {
	o, r := w.object, w.reporter
	if isVirtualMachine(o) {
		return w.planMachine(env)
	}
	pods, known := podsOf(o, env.options.Templates)
	if !known {
		return strayAnnotation(o, r)
	}
	uses := w.misplacedAnnotations(pods)
	for _, p := range pods {
		for _, key := range append(networksKeys, attachment.DefaultNetworkAnnotation) {
			w.judged[p.template.annotation(key).node] = true
		}
		if p.networks().node != nil || p.template.annotation(attachment.DefaultNetworkAnnotation).node != nil ||
			len(p.convertedClaims()) > 0 || env.unseen(p) {
			uses = true
			w.plan(p, env)
		}
		if uses || slices.ContainsFunc(networksKeys, func(key string) bool { return countKeys(o.node, key) > 0 }) {
			r.checkTwice(p.readPaths()...)
		}
	}
	if uses = uses || r.has(NotEditable); uses {
		r.checkName()
		env.units.checkAltered(r, env.options.Namespace)
		env.units.checkPatched(r, pods)
		r.owned(OwnedWorkload)
	}
	return uses
}

// rolloutMetadata are the fields of which a Rollout gives annotations to some of its pods, for a time.
var rolloutMetadata = []string{"canaryMetadata", "stableMetadata", "activeMetadata", "previewMetadata"}

// misplacedAnnotations reports annotations at places from which no pod gets them: the controller's own
// metadata, or a wrong level of the pod template. It reports whether there are any.
func (w *work) misplacedAnnotations(pods []pod) bool {
	o, r := w.object, w.reporter
	count, places := 0, map[string]bool{}
	for _, key := range networksKeys {
		count += countKeys(o.node, key)
		for _, p := range pods {
			at := p.template.annotation(key)
			places[at.path.String()] = true
			if at.node != nil {
				count--
			}
		}
	}
	if count <= 0 {
		return false
	}
	found := false
	eachAnnotation(o, func(_, value *yaml.Node, path Path) {
		onPods := func(step string) bool { return o.group == argoGroup && slices.Contains(rolloutMetadata, step) }
		if !places[path.String()] && !slices.ContainsFunc(path, onPods) {
			w.judged[yamledit.Resolved(value)] = true
			r.addAt(ControllerAnnotation, spot{value, path}, "it attaches nothing")
			found = true
		}
	})
	return found
}

// plan plans one pod and adds the result.
func (w *work) plan(p pod, env *environment) {
	done := planPod(subject{w.reporter, p, env})
	w.edits = append(w.edits, done.edits...)
	w.templates = append(w.templates, done.templates...)
	w.networks = append(w.networks, done.networks...)
	w.features = append(w.features, done.features...)
	w.attaches = w.attaches || done.attaches
}

// strayAnnotation reports annotations in objects of kinds without a known pod template. It
// refers to the owner for an object that a controller made, such as a ControllerRevision.
func strayAnnotation(o object, r *reporter) bool {
	eachAnnotation(o, func(key, _ *yaml.Node, path Path) {
		r.addAt(StrayAnnotation, spot{key, path}, "%s has no known pod template", o.ref.Kind)
	})
	if r.has(StrayAnnotation) && ownerOf(o) != nil {
		r.findings = slices.DeleteFunc(r.findings, func(f Finding) bool { return f.Code == StrayAnnotation })
		r.owned(OwnedWorkload)
	}
	return r.has(StrayAnnotation) || r.has(OwnedWorkload)
}

// splice applies the edits of all objects of a document, except those with a blocker. It returns
// nil if nothing changes.
func splice(d *document, all []*work) []byte {
	var edits []Edit
	for _, w := range all {
		if w.kept() {
			w.edits, w.templates = nil, nil
		}
		edits = append(edits, w.edits...)
	}
	if len(edits) == 0 {
		return nil
	}
	text, err := d.Edit(edits)
	if err == nil {
		return text
	}
	for _, w := range all {
		if len(w.edits) > 0 {
			w.reporter.add(NotEditable, w.edits[0].Path, d.at(w.object.node), "%v", err)
			w.edits, w.templates = nil, nil
		}
	}
	return nil
}

// readiness returns the verdict on the object.
func (w *work) readiness() Readiness {
	r := readiness(w.reporter.findings)
	judged := func(f Finding) bool { return f.Severity == Blocker && f.Code != NetworkMayDraw }
	switch {
	case r == Stays && !slices.ContainsFunc(w.reporter.findings, judged):
		return NotJudged
	case r == Stays:
	case w.reporter.has(StrayAnnotation):
		return NotJudged
	case !w.attaches:
		return NothingToConvert
	}
	return r
}

// tests returns the operations that check the names of the containers that the edits address.
func (w *work) tests() (out []Edit) {
	for _, e := range w.edits {
		i := slices.IndexFunc(e.Path, isContainers)
		if i < 0 || len(e.Path) < i+3 {
			continue
		}
		n, at := w.object.node, e.Path[:i+2].Child("name")
		for _, step := range at[len(w.object.path):] {
			if n = yamledit.Resolved(n); n != nil {
				n = yamledit.Child(n, step)
			}
		}
		if str(n) != "" && !slices.ContainsFunc(out, func(t Edit) bool { return slices.Equal(t.Path, at) }) {
			out = append(out, Edit{Op: "test", Path: at, Value: str(n)})
		}
	}
	return out
}

// kept reports whether a finding keeps the object as it is.
func (w *work) kept() bool { return w.reporter.blocks() || w.reporter.has(OwnedWorkload) }

// add adds the verdict and findings of an object.
func (out *fileResult) add(w *work) {
	findings := w.reporter.findings
	out.findings = append(out.findings, findings...)
	out.workloads = append(out.workloads, Verdict{
		Object: w.object.ref, Position: w.object.doc.at(w.object.node), Readiness: w.readiness(),
		Networks: w.networks, Changed: len(w.edits) > 0, Codes: codesOf(findings),
		Features: sortedSet(w.features), Owner: ownerOf(w.object), Edits: relative(w.object.path, w.edits),
		Tests: relative(w.object.path, w.tests()),
	})
	for _, t := range w.templates {
		out.templates = append(out.templates, neededTemplate{t, w.object.stated == ""})
	}
}
