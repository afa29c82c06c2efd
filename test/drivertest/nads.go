package drivertest

import (
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Configurations of NADs. The master of BlueConf is lan0.
const (
	BlueConf = `{"cniVersion":"1.0.0","type":"macvlan","master":"lan0","mode":"bridge","ipam":{"type":"host-local","subnet":"10.1.0.0/24"}}`
	RedConf  = `{"cniVersion":"1.0.0","name":"red","plugins":[{"type":"bridge"},{"type":"tuning"}]}`
	// VFConf is for functions of cards.
	VFConf = `{"cniVersion":"1.0.0","name":"vf","plugins":[{"type":"sriov","vlan":100},{"type":"tuning"}]}`
)

// NAD returns a NetworkAttachmentDefinition in namespace default.
func NAD(name, config string) *nadv1.NetworkAttachmentDefinition {
	return &nadv1.NetworkAttachmentDefinition{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       nadv1.NetworkAttachmentDefinitionSpec{Config: config},
	}
}
