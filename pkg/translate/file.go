package translate

import (
	"slices"

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
	accounts  []Account
	templates []neededTemplate
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
	ledger    *ledger
	edits     []Edit
	templates []*resourceapi.ResourceClaimTemplate
	networks  []string
	features  []string
}

// convertFile converts a file, document by document. It only reads the environment.
func convertFile(f File, env *environment) fileResult {
	out := fileResult{kinds: map[string]int{}}
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
		out.findings = append(out.findings, Finding{
			Code: NotYAML, Severity: severityOf(NotYAML), Object: ObjectRef{Kind: "Document"},
			Position: Position{File: file, Line: part.Line + 1, Column: 1}, Message: err.Error(),
		})
		return nil
	}
	var all []*work
	for _, o := range objects(d, env.options.namespace()) {
		out.kinds[o.ref.Kind]++
		r := &reporter{doc: d, object: o}
		env.checkQuota(o, r)
		w := &work{object: o, reporter: r, ledger: newLedger(o)}
		if w.planPods(env) {
			all = append(all, w)
		} else {
			out.findings = append(out.findings, r.findings...)
		}
	}
	text := splice(d, all)
	for _, w := range all {
		out.add(w)
	}
	return text
}

// planPods plans the pods of an object. It reports whether the object uses networks.
func (w *work) planPods(env *environment) bool {
	o, r := w.object, w.reporter
	if isVirtualMachine(o) {
		first, networks := multusOf(o)
		if first != nil {
			r.add(VirtualMachines, o.path.Child("spec"), o.doc.at(first), "KubeVirt and Multus keep its networks")
			w.networks = networks
		}
		return first != nil
	}
	pods, known := podsOf(o, env.options.Templates)
	if !known {
		return strayAnnotation(o, r)
	}
	uses := false
	if n := annotation(o.node, attachment.NetworksAnnotation); n != nil && o.ref.Kind != "Pod" {
		r.add(ControllerAnnotation, o.path.Child("metadata", "annotations", attachment.NetworksAnnotation), o.doc.at(n), "it attaches nothing")
		uses = true
	}
	for _, p := range pods {
		if annotation(p.template, attachment.NetworksAnnotation) != nil || annotation(p.template, attachment.DefaultNetworkAnnotation) != nil ||
			len(p.convertedClaims()) > 0 || env.unseen(p) {
			uses = true
			w.plan(p, env)
		}
	}
	if uses {
		r.owned(OwnedWorkload)
	}
	return uses
}

// plan plans one pod and adds the result.
func (w *work) plan(p pod, env *environment) {
	done := planPod(subject{w.reporter, p, env, w.ledger})
	w.edits = append(w.edits, done.edits...)
	w.templates = append(w.templates, done.templates...)
	w.networks = append(w.networks, done.networks...)
	w.features = append(w.features, done.features...)
}

// strayAnnotation reports annotations in objects of kinds without a known pod template. It
// refers to the owner for an object that a controller made, such as a ControllerRevision.
func strayAnnotation(o object, r *reporter) bool {
	walkPaths(o.node, o.path, func(n *yaml.Node, at Path) {
		if i := yamledit.KeyIndex(n, attachment.NetworksAnnotation); i >= 0 {
			r.add(StrayAnnotation, at.Child(attachment.NetworksAnnotation), o.doc.at(n.Content[i]), "%s has no known pod template", o.ref.Kind)
		}
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
		if _, kept := w.kept(); kept {
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

// kept returns the code of the finding that keeps the object as it is, if there is one.
func (w *work) kept() (Code, bool) {
	if code, blocked := w.reporter.blocker(); blocked {
		return code, true
	}
	if w.reporter.has(OwnedWorkload) {
		return OwnedWorkload, true
	}
	return "", false
}

// add adds the verdict, findings and accounts of an object.
func (out *fileResult) add(w *work) {
	findings := w.reporter.findings
	out.findings = append(out.findings, findings...)
	out.workloads = append(out.workloads, Verdict{
		Object: w.object.ref, Position: w.object.doc.at(w.object.node), Readiness: readiness(findings),
		Networks: w.networks, Changed: len(w.edits) > 0, Codes: codesOf(findings),
		Features: sortedSet(w.features), Owner: ownerOf(w.object), Edits: relative(w.object.path, w.edits),
	})
	out.accounts = append(out.accounts, w.accounts()...)
	for _, t := range w.templates {
		out.templates = append(out.templates, neededTemplate{t, w.object.stated == ""})
	}
}

// accounts returns the accounts of the object. Fields without an outcome are converted, unless the
// object stays as it is.
func (w *work) accounts() []Account {
	if code, kept := w.kept(); kept {
		w.ledger.reset()
		return w.ledger.finish(Kept, code)
	}
	return w.ledger.finish(Converted, "")
}
