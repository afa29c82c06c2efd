package translate

import (
	"bytes"
	"slices"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/operators"
	"github.com/nadra-dev/nadra/pkg/pools"
)

// learned is what came of the networks of the input, without their nodes.
type learned struct {
	findings []Finding
	// networks are in the input's order.
	networks []learnedNetwork
}

type learnedNetwork struct {
	verdict NetworkVerdict
	// definition is one to be created.
	definition *nadv1.NetworkAttachmentDefinition
}

// learnAll takes note of all objects that the rules refer to, and judges the
// networks among them.
func (e *environment) learnAll(files []File) learned {
	docs := make([][]*document, len(files))
	parallel(len(files), func(i int) {
		for _, d := range split(files[i]) {
			if teaches(d.text) {
				d.parse()
				docs[i] = append(docs[i], d)
			}
		}
	})
	var networks []judged
	for _, d := range slices.Concat(docs...) {
		for _, o := range objects(d, e.options.namespace()) {
			if isNetwork(o) || makesNetwork(o) {
				networks = append(networks, judged{reporter: &reporter{doc: d, object: o}, ref: refOf(o.ref)})
			} else {
				e.learn(o)
			}
		}
	}
	configs := map[attachment.NetworkRef]string{}
	for i := range networks {
		if n := &networks[i]; isNetwork(n.object) {
			n.read(e, configs)
		}
	}
	// What operators would make comes after what is there.
	for i := range networks {
		if n := &networks[i]; makesNetwork(n.object) {
			n.render(e, configs)
		}
	}
	var out learned
	for i := range networks {
		out.add(&networks[i], e)
	}
	return out
}

func (l *learned) add(n *judged, e *environment) {
	l.findings = append(l.findings, n.findings...)
	if !n.is {
		return
	}
	one := learnedNetwork{verdict: n.verdict(e)}
	if e.options.RenderNetworks {
		one.definition = n.definition
	}
	l.networks = append(l.networks, one)
}

const policyKind = "MultiNetworkPolicy"

// taught are the kinds that are taken note of.
var taught = func() [][]byte {
	kinds := [][]byte{[]byte(nadKind), []byte(policyKind), []byte("RuntimeClass"), []byte("DeviceClass"), []byte("ResourceClaimTemplate")}
	for _, name := range append(PoolConfigMaps(), pools.PolicyKind) {
		kinds = append(kinds, []byte(name))
	}
	for _, k := range operators.Kinds() {
		kinds = append(kinds, []byte(k.Kind))
	}
	return kinds
}()

// teaches reports whether a document may have an object to take note of.
func teaches(text []byte) bool {
	return slices.ContainsFunc(taught, func(kind []byte) bool { return bytes.Contains(text, kind) })
}

// learn takes note of an object that the rules for others refer to.
func (e *environment) learn(o object) {
	switch {
	case definesPools(o):
		e.learnPools(o)
	case o.group == "node.k8s.io" && o.ref.Kind == "RuntimeClass":
		e.handlers[o.ref.Name] = str(get(o.node, "handler"))
	case o.group == nadGroup && o.ref.Kind == policyKind:
		e.policies[o.ref.Namespace] = true
	case o.group == resourceapi.GroupName && o.ref.Kind == "DeviceClass":
		e.classes[o.ref.Name] = true
		e.classSpecs[o.ref.Name] = classOf(get(o.node, "spec"))
	case o.group == resourceapi.GroupName && o.ref.Kind == "ResourceClaimTemplate":
		e.templates[o.ref.Namespace+"/"+o.ref.Name] = templateSpec(get(o.node, "spec"))
	}
}
