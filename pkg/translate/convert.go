package translate

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"go.yaml.in/yaml/v3"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// Input is what to convert. Networks and workloads find each other across
// files.
type Input struct {
	Files   []File
	Options Options
}

// Result is what came of it.
type Result struct {
	// Files are the input's, in their order; those that needed no change have
	// the very bytes of the input.
	Files []File
	// Created are classes and templates that the input does not have, in the
	// order of what they are for.
	Created []Created
	// Findings are sorted by place.
	Findings []Finding
	// Workloads are those that have to do with networks, in the input's order.
	Workloads []Verdict
	// Accounts say what became of each field that had to be converted.
	Accounts []Account
	// Looked is how many objects there were, by kind.
	Looked map[string]int
}

// Convert converts manifests. It has no errors: what cannot be converted stays,
// and a finding says why.
func Convert(in Input) Result {
	c := &converter{env: newEnvironment(in.Options), result: Result{Looked: map[string]int{}}, made: map[string]bool{}, byDoc: map[*document][]*work{}}
	files := make([][]*document, len(in.Files))
	parallel(len(files), func(i int) {
		files[i] = split(in.Files[i])
		for _, d := range files[i] {
			d.parse()
		}
	})
	for _, d := range slices.Concat(files...) {
		c.read(d)
	}
	for _, o := range c.objects {
		c.learn(o)
	}
	for _, o := range c.objects {
		c.object(o)
	}
	c.result.Files = slices.Clone(in.Files)
	parallel(len(files), func(i int) { c.result.Files[i].Data = c.write(in.Files[i], files[i]) })
	c.finish()
	order := map[string]int{}
	for i, f := range in.Files {
		order[f.Name] = i
	}
	sortFindings(c.result.Findings, order)
	return c.result
}

// parallel calls f for 0 to n-1, on all processors. Reading and writing the
// text takes most of the time, and files do not depend on each other in that.
func parallel(n int, f func(int)) {
	var next atomic.Int64
	var group sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) {
		group.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				f(int(i))
			}
		})
	}
	group.Wait()
}

type converter struct {
	env     *environment
	objects []object
	work    []*work
	byDoc   map[*document][]*work
	result  Result
	made    map[string]bool
}

// work is one object that has to do with networks.
type work struct {
	object    object
	reporter  *reporter
	ledger    *ledger
	edits     []Edit
	templates []*resourceapi.ResourceClaimTemplate
	networks  []string
}

func (c *converter) read(d *document) {
	if d.err != nil {
		c.result.Findings = append(c.result.Findings, Finding{
			Code: NotYAML, Severity: severityOf(NotYAML), Object: ObjectRef{Kind: "Document"},
			Position: d.at(nil), Message: d.err.Error(),
		})
		return
	}
	for _, o := range objects(d, c.env.options.namespace()) {
		c.objects = append(c.objects, o)
		c.result.Looked[o.ref.Kind]++
	}
}

func (c *converter) learn(o object) {
	r := &reporter{doc: o.doc, object: o}
	c.env.learn(o, r)
	c.result.Findings = append(c.result.Findings, r.findings...)
}

func (c *converter) object(o object) {
	r := &reporter{doc: o.doc, object: o}
	c.env.checkQuota(o, r)
	c.class(o)
	w := &work{object: o, reporter: r, ledger: newLedger(o)}
	if !c.pods(w) {
		c.result.Findings = append(c.result.Findings, r.findings...)
		return
	}
	c.work = append(c.work, w)
	c.byDoc[o.doc] = append(c.byDoc[o.doc], w)
}

// class makes the class of a network, unless it is there or no use.
func (c *converter) class(o object) {
	ref := attachment.NetworkRef{Namespace: o.ref.Namespace, Name: o.ref.Name}
	if !isNetwork(o) || ref.Name == "" {
		return
	}
	if n := c.env.networks[ref]; n.blocked != nil || n.resourceName != "" && !c.env.options.Pools {
		return
	}
	if class := DeviceClass(ref); !c.env.classes[class.Name] {
		c.env.classes[class.Name] = true
		c.result.Created = append(c.result.Created, Created{Object: class, For: o.doc.file})
	}
}

// pods plans an object's pods; it reports whether the object has to do with
// networks.
func (c *converter) pods(w *work) bool {
	o, r := w.object, w.reporter
	if isVirtualMachine(o) {
		if n := multusOf(o); n != nil {
			r.add(VirtualMachines, o.path.Child("spec"), o.doc.at(n), "its networks are left to KubeVirt and Multus")
			return true
		}
		return false
	}
	pods, known := podsOf(o, c.env.options.Templates)
	if !known {
		return strayAnnotation(o, r)
	}
	concerned := false
	if n := annotation(o.node, attachment.NetworksAnnotation); n != nil && o.ref.Kind != "Pod" {
		r.add(ControllerAnnotation, o.path.Child("metadata", "annotations", attachment.NetworksAnnotation), o.doc.at(n), "nothing is attached because of it")
		concerned = true
	}
	for _, p := range pods {
		if annotation(p.template, attachment.NetworksAnnotation) == nil && annotation(p.template, defaultNetworkAnnotation) == nil {
			continue
		}
		concerned = true
		done := (&planner{reporter: r, pod: p, env: c.env, ledger: w.ledger}).plan()
		w.edits = append(w.edits, done.edits...)
		w.templates = append(w.templates, done.templates...)
		w.networks = append(w.networks, done.networks...)
	}
	if owners := get(o.node, "metadata", "ownerReferences"); concerned && len(items(owners)) > 0 {
		r.add(OwnedWorkload, o.path.Child("metadata", "ownerReferences"), o.doc.at(owners), "%s %s owns it",
			str(get(owners.Content[0], "kind")), str(get(owners.Content[0], "name")))
	}
	return concerned
}

// strayAnnotation reports annotations in objects whose kind is not known.
func strayAnnotation(o object, r *reporter) bool {
	walkPaths(o.node, o.path, func(n *yaml.Node, at Path) {
		if i := keyIndex(n, attachment.NetworksAnnotation); i >= 0 {
			r.add(StrayAnnotation, at.Child(attachment.NetworksAnnotation), o.doc.at(n.Content[i]), "of kind %s no pod template is known", o.ref.Kind)
		}
	})
	return r.has(StrayAnnotation)
}

// write makes a file's edits, document by document.
func (c *converter) write(f File, docs []*document) []byte {
	var out []byte
	changed := false
	for _, d := range docs {
		text := c.writeDocument(d)
		changed = changed || text != nil
		if text == nil {
			text = d.text
		}
		out = append(out, text...)
	}
	if !changed {
		return f.Data
	}
	return out
}

// writeDocument returns nil where nothing changes.
func (c *converter) writeDocument(d *document) []byte {
	var edits []Edit
	for _, w := range c.byDoc[d] {
		if _, blocked := w.reporter.blocker(); blocked || w.reporter.has(OwnedWorkload) {
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
	for _, w := range c.byDoc[d] {
		if len(w.edits) > 0 {
			w.reporter.add(NotEditable, w.edits[0].Path, d.at(w.object.node), "%v", err)
			w.edits, w.templates = nil, nil
		}
	}
	return nil
}

// finish draws up verdicts and accounts, and makes the templates of what was
// converted.
func (c *converter) finish() {
	for _, w := range c.work {
		findings := w.reporter.findings
		c.result.Findings = append(c.result.Findings, findings...)
		c.result.Workloads = append(c.result.Workloads, Verdict{
			Object: w.object.ref, Position: w.object.doc.at(w.object.node), Readiness: readiness(findings),
			Networks: w.networks, Changed: len(w.edits) > 0, Codes: codesOf(findings),
		})
		c.result.Accounts = append(c.result.Accounts, w.accounts()...)
		for _, t := range w.templates {
			c.template(w.object, t)
		}
	}
}

// accounts are all of the object's, settled by what became of it as a whole.
func (w *work) accounts() []Account {
	if code, blocked := w.reporter.blocker(); blocked {
		w.ledger.void()
		return w.ledger.balance(Kept, code)
	}
	for _, code := range []Code{OwnedWorkload, HostNetwork} {
		if w.reporter.has(code) {
			w.ledger.void()
			return w.ledger.balance(Kept, code)
		}
	}
	return w.ledger.balance(Converted, "")
}

func (c *converter) template(o object, t *resourceapi.ResourceClaimTemplate) {
	key := t.Namespace + "/" + t.Name
	if c.env.templates[key] != nil || c.made[key] {
		return
	}
	c.made[key] = true
	if o.stated == "" && c.env.options.Namespace == "" {
		// It goes where the workload goes.
		t = t.DeepCopy()
		t.Namespace = ""
	}
	c.result.Created = append(c.result.Created, Created{Object: t, For: o.doc.file})
}
