package translate

import (
	"errors"
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
)

// PodResult is what the rules say about one pod.
type PodResult struct {
	// Edits change the pod; encoded, they are a JSON Patch.
	Edits []Edit
	// Templates are those that the edits refer to and LookupTemplate does not
	// find, in order.
	Templates []*resourceapi.ResourceClaimTemplate
	Findings  []Finding
	Readiness Readiness
	Accounts  []Account
}

// Pod converts one pod of a namespace, given as JSON or YAML. Networks come
// from the options' Lookup. Owners do not matter: a pod that is about to be
// created is where they end.
func Pod(manifest []byte, o Options) (PodResult, error) {
	d := &document{file: "pod", text: manifest}
	d.parse()
	if d.err != nil {
		return PodResult{}, fmt.Errorf("reading the pod: %w", d.err)
	}
	list := objects(d, o.namespace())
	if len(list) != 1 {
		return PodResult{}, errors.New("reading the pod: it is no object")
	}
	object := list[0]
	// A request for admission may leave kind and apiVersion out.
	object.ref.APIVersion, object.ref.Kind, object.group = "v1", "Pod", ""
	r := &reporter{doc: d, object: object}
	if n := get(object.node, "metadata", "labels", launcherLabel); str(n) == launcher {
		r.add(VirtualMachines, object.path.Child("metadata", "labels", launcherLabel), d.at(n), "its networks are left to KubeVirt and Multus")
	}
	w := &work{object: object, reporter: r, ledger: newLedger(object)}
	env := newEnvironment(o)
	done := (&planner{
		reporter: r, pod: pod{object: object, template: object.node, at: object.path}, env: env, ledger: w.ledger,
	}).plan()
	done.templates = slices.DeleteFunc(done.templates, func(t *resourceapi.ResourceClaimTemplate) bool {
		return env.template(t.Namespace, t.Name) != nil
	})
	out := PodResult{Edits: done.edits, Templates: done.templates, Findings: r.findings, Readiness: readiness(r.findings), Accounts: w.accounts()}
	if _, blocked := r.blocker(); blocked {
		out.Edits, out.Templates = nil, nil
	}
	return out, nil
}
