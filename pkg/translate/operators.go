package translate

import (
	"slices"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

const nvidiaGroup, sriovGroup = "mellanox.com", "sriovnetwork.openshift.io"

// operatorKinds are the kinds of which NVIDIA's network-operator and sriov-network-operator make networks.
var operatorKinds = []GroupKind{
	{nvidiaGroup, "HostDeviceNetwork"},
	{nvidiaGroup, "IPoIBNetwork"},
	{nvidiaGroup, "MacvlanNetwork"},
	{sriovGroup, "OVSNetwork"},
	{sriovGroup, "SriovIBNetwork"},
	{sriovGroup, "SriovNetwork"},
}

// operatorKindNames returns the names of these kinds.
func operatorKindNames() (names []string) {
	for _, k := range operatorKinds {
		names = append(names, k.Kind)
	}
	return names
}

// makesNetwork reports whether a network operator makes a NetworkAttachmentDefinition of an object.
func makesNetwork(o object) bool {
	return slices.Contains(operatorKinds, GroupKind{o.group, o.ref.Kind})
}

// madeOf returns the name of the network that an operator makes of an object. NVIDIA's objects are in no namespace.
func madeOf(o object) attachment.NetworkRef {
	ref := attachment.NetworkRef{Namespace: o.get("spec", "networkNamespace").str(), Name: o.ref.Name}
	switch {
	case ref.Namespace != "":
	case o.group == nvidiaGroup:
		ref.Namespace = "default"
	default:
		ref.Namespace = o.ref.Namespace
	}
	return ref
}

// maker is an object of which an operator makes a network. draws is whether the network gets its
// devices from a pool.
type maker struct {
	object ObjectRef
	draws  bool
}

// addMade adds the network that an operator makes of an object, unless the input or the cluster has it. It cannot be
// judged: its definition depends on the operator's version and settings.
func (x *index) addMade(o object, e *environment) {
	ref := madeOf(o)
	if _, found := e.network(ref); found || ref.Name == "" {
		return
	}
	r := &reporter{doc: o.doc, object: o}
	r.addAt(NetworkOfOperator, o.spot, "the operator makes network %s of it", ref)
	x.findings = append(x.findings, r.findings...)
	if _, twice := e.made[ref]; twice {
		return
	}
	e.made[ref] = maker{o.ref, o.get("spec", "resourceName").str() != ""}
	x.networks = append(x.networks, indexedNetwork{files: []string{o.doc.file}, verdict: NetworkVerdict{
		Object:   ObjectRef{APIVersion: nadv1.SchemeGroupVersion.String(), Kind: nadKind, Namespace: ref.Namespace, Name: ref.Name},
		Position: o.doc.at(o.node), Readiness: NotJudged, Codes: codesOf(r.findings),
	}})
}
