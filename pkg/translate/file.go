package translate

import (
	"slices"

	"go.yaml.in/yaml/v3"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// outcome is what came of one file. It holds no node: a large input would not
// fit into memory as nodes.
type outcome struct {
	data      []byte
	looked    map[string]int
	findings  []Finding
	workloads []Verdict
	accounts  []Account
	templates []neededTemplate
}

type neededTemplate struct {
	object *resourceapi.ResourceClaimTemplate
	// unstated is set where the workload states no namespace.
	unstated bool
}

// work is one object that has to do with networks.
type work struct {
	object    object
	reporter  *reporter
	ledger    *ledger
	edits     []Edit
	templates []*resourceapi.ResourceClaimTemplate
	networks  []string
	features  []string
}

// convertFile converts a file, document by document. The environment is only
// read.
func convertFile(f File, env *environment) outcome {
	out := outcome{looked: map[string]int{}}
	changed := false
	for _, d := range split(f) {
		text := out.document(d, env)
		changed = changed || text != nil
		if text == nil {
			text = d.text
		}
		out.data = append(out.data, text...)
	}
	if !changed {
		out.data = f.Data
	}
	return out
}

// document returns the new text, nil where nothing changes.
func (out *outcome) document(d *document, env *environment) []byte {
	if d.parse(); d.err != nil {
		out.findings = append(out.findings, Finding{
			Code: NotYAML, Severity: severityOf(NotYAML), Object: ObjectRef{Kind: "Document"},
			Position: d.at(nil), Message: d.err.Error(),
		})
		return nil
	}
	var all []*work
	for _, o := range objects(d, env.options.namespace()) {
		out.looked[o.ref.Kind]++
		r := &reporter{doc: d, object: o}
		env.checkQuota(o, r)
		w := &work{object: o, reporter: r, ledger: newLedger(o)}
		if w.pods(env) {
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

// pods plans an object's pods; it reports whether the object has to do with
// networks.
func (w *work) pods(env *environment) bool {
	o, r := w.object, w.reporter
	if isVirtualMachine(o) {
		first, networks := multusOf(o)
		if first != nil {
			r.add(VirtualMachines, o.path.Child("spec"), o.doc.at(first), "its networks are left to KubeVirt and Multus")
			w.networks = networks
		}
		return first != nil
	}
	pods, known := podsOf(o, env.options.Templates)
	if !known {
		return strayAnnotation(o, r)
	}
	concerned := false
	if n := annotation(o.node, attachment.NetworksAnnotation); n != nil && o.ref.Kind != "Pod" {
		r.add(ControllerAnnotation, o.path.Child("metadata", "annotations", attachment.NetworksAnnotation), o.doc.at(n), "nothing is attached because of it")
		concerned = true
	}
	for _, p := range pods {
		if annotation(p.template, attachment.NetworksAnnotation) != nil || annotation(p.template, attachment.DefaultNetworkAnnotation) != nil ||
			len(p.ownClaims()) > 0 || env.unseen(p) {
			concerned = true
			w.plan(p, env)
		}
	}
	if concerned {
		r.owned(OwnedWorkload)
	}
	return concerned
}

func (w *work) plan(p pod, env *environment) {
	done := (&planner{reporter: w.reporter, pod: p, env: env, ledger: w.ledger}).plan()
	w.edits = append(w.edits, done.edits...)
	w.templates = append(w.templates, done.templates...)
	w.networks = append(w.networks, done.networks...)
	w.features = append(w.features, done.features...)
}

// strayAnnotation reports annotations in objects whose kind is not known. Those
// of an object that another one made, as a ControllerRevision, are its owner's.
func strayAnnotation(o object, r *reporter) bool {
	walkPaths(o.node, o.path, func(n *yaml.Node, at Path) {
		if i := keyIndex(n, attachment.NetworksAnnotation); i >= 0 {
			r.add(StrayAnnotation, at.Child(attachment.NetworksAnnotation), o.doc.at(n.Content[i]), "of kind %s no pod template is known", o.ref.Kind)
		}
	})
	if r.has(StrayAnnotation) && ownerOf(o) != nil {
		r.findings = slices.DeleteFunc(r.findings, func(f Finding) bool { return f.Code == StrayAnnotation })
		r.owned(OwnedWorkload)
	}
	return r.has(StrayAnnotation) || r.has(OwnedWorkload)
}

// splice makes the edits of all objects of a document, but for those that have
// a blocker. It returns nil where nothing changes.
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
	text, err := d.edited(edits)
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

// kept returns the code for which an object stays as it is, if it does.
func (w *work) kept() (Code, bool) {
	if code, blocked := w.reporter.blocker(); blocked {
		return code, true
	}
	if w.reporter.has(OwnedWorkload) {
		return OwnedWorkload, true
	}
	return "", false
}

// add draws up an object's verdict and accounts.
func (out *outcome) add(w *work) {
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

// accounts are all of the object's. What is not settled yet is converted,
// unless the object stays as it is.
func (w *work) accounts() []Account {
	if code, kept := w.kept(); kept {
		w.ledger.void()
		return w.ledger.balance(Kept, code)
	}
	return w.ledger.balance(Converted, "")
}
