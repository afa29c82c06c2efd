package translate

import (
	"errors"
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/nadra-dev/nadra/internal/yamledit"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// PodResult is the result for one pod.
type PodResult struct {
	// Edits change the pod. Encoded, they are a JSON Patch.
	Edits []Edit
	// Templates has the templates to which the edits refer and that LookupTemplate does not
	// find, in order.
	Templates []*resourceapi.ResourceClaimTemplate
	Findings  []Finding
}

// Pod converts one pod of a namespace, given as JSON or YAML. It finds networks by the options'
// Lookup. It ignores the pod's owners, because the pod is about to be created.
func Pod(manifest []byte, o Options) (PodResult, error) {
	d, err := parseDocument("pod", yamledit.Part{Text: manifest})
	if err != nil {
		return PodResult{}, fmt.Errorf("reading the pod: %w", err)
	}
	list := objects(d, o.namespace())
	if len(list) != 1 {
		return PodResult{}, errors.New("reading the pod: not an object")
	}
	object := list[0]
	// An admission request may omit kind and apiVersion.
	object.ref.APIVersion, object.ref.Kind, object.group = "v1", "Pod", ""
	r := &reporter{doc: d, object: object}
	if n := object.get("metadata", "labels", attachment.LauncherLabel); n.str() == attachment.Launcher && o.leavesMachines() {
		r.addAt(VirtualMachines, n, "KubeVirt and Multus keep its networks")
	}
	env := newEnvironment(o)
	done := planPod(subject{r, pod{object, object.spot}, env})
	done.templates = slices.DeleteFunc(done.templates, func(t *resourceapi.ResourceClaimTemplate) bool {
		return env.template(t.Namespace, t.Name) != nil
	})
	out := PodResult{Edits: done.edits, Templates: done.templates, Findings: r.findings}
	if r.blocks() {
		out.Edits, out.Templates = nil, nil
	}
	return out, nil
}
