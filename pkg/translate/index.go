package translate

import (
	"bytes"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/nadra-dev/nadra/internal/yamledit"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/pools"
)

// index is the result for the networks of the input, without their nodes.
type index struct {
	findings []Finding
	// networks are in the input's order.
	networks []indexedNetwork
}

type indexedNetwork struct {
	verdict NetworkVerdict
	// files has the files that define the network, all in the same way.
	files []string
}

// index records all objects to which the rules refer, and checks the networks among them. It
// skips documents that cannot be parsed or that must be rendered first, which convertFile reports. The
// objects of a cluster are there for all files of the input, and others for those of their place.
func (e *environment) index(files []File, cluster bool) index {
	docs := make([][]*document, len(files))
	parallel(len(files), func(i int) {
		if _, unrendered := e.units.ofFile(files[i].Name); unrendered && !cluster {
			return
		}
		for _, part := range yamledit.Split(files[i].Data) {
			if !mayBeIndexed(part.Text) {
				continue
			}
			if d, err := parseDocument(files[i].Name, part); err == nil {
				docs[i] = append(docs[i], d)
			}
		}
	})
	var networks []inputNetwork
	var makers []object
	for _, d := range slices.Concat(docs...) {
		for _, o := range e.objects(d) {
			if _, unrendered := ofObject(o); unrendered {
				continue
			}
			switch {
			case isNetwork(o):
				networks = append(networks, inputNetwork{reporter: &reporter{doc: d, object: o}, ref: refOf(o.ref)})
			case makesNetwork(o):
				makers = append(makers, o)
			default:
				e.indexObject(o, cluster)
			}
		}
	}
	defined := map[attachment.NetworkRef]*inputNetwork{}
	for i := range networks {
		networks[i].read(e, defined)
	}
	var out index
	for i := range networks {
		if !networks[i].duplicate {
			networks[i].checkClass(e)
		}
		out.add(&networks[i], e)
	}
	for _, o := range makers {
		out.addMade(o, e)
	}
	return out
}

// add adds the findings of an object, and its network unless another object has it.
func (x *index) add(n *inputNetwork, e *environment) {
	x.findings = append(x.findings, n.findings...)
	if n.duplicate {
		for i := range x.networks {
			if first := &x.networks[i]; refOf(first.verdict.Object) == n.ref {
				first.files = append(first.files, n.doc.file)
			}
		}
		return
	}
	x.networks = append(x.networks, indexedNetwork{verdict: n.verdict(e), files: []string{n.doc.file}})
}

const policyKind = "MultiNetworkPolicy"

// indexed are the kinds, and names of ConfigMaps, of the objects that the index records.
var indexed = func() [][]byte {
	kinds := [][]byte{[]byte(nadKind), []byte(policyKind), []byte("RuntimeClass"), []byte("DeviceClass"), []byte("ResourceClaimTemplate")}
	for _, name := range slices.Concat(PoolConfigMaps(), []string{pools.PolicyKind}, operatorKindNames()) {
		kinds = append(kinds, []byte(name))
	}
	return kinds
}()

// mayBeIndexed reports whether a document may have an object for the index.
func mayBeIndexed(text []byte) bool {
	return slices.ContainsFunc(indexed, func(kind []byte) bool { return bytes.Contains(text, kind) })
}

// indexObject records an object to which the rules for other objects refer.
func (e *environment) indexObject(o object, cluster bool) {
	switch {
	case definesPools(o):
		e.indexPools(o)
	case o.group == "node.k8s.io" && o.ref.Kind == "RuntimeClass":
		e.handlers[o.ref.Name] = o.get("handler").str()
	case o.group == nadGroup && o.ref.Kind == policyKind:
		e.policies[o.ref.Namespace] = true
	case o.group == resourceapi.GroupName && o.ref.Kind == "DeviceClass":
		e.classes[o.ref.Name] = true
		e.classSpecs[o.ref.Name] = &resourceapi.DeviceClass{Spec: decoded[resourceapi.DeviceClassSpec](o.get("spec"))}
	case o.group == resourceapi.GroupName && o.ref.Kind == "ResourceClaimTemplate":
		key := o.ref.Namespace + "/" + o.ref.Name
		template := decoded[resourceapi.ResourceClaimTemplateSpec](o.get("spec"))
		e.templates[key] = &template
		if cluster {
			e.places[key] = append(e.places[key], everywhere)
		} else {
			e.placeTemplate(key, o.doc.file)
		}
	}
}
